"""Sentences with slots: words with several forms, and texts over columns as one by one."""

import numpy as np
import polars as pl
import pytest
from negengine.engine.experiments.gh22.gh22_patterns import ACT_SLOTS
from negengine.engine.text.agreement import Beginnings, Elision
from negengine.engine.text.composition import composer
from negengine.engine.text.pattern import SLOTS, Pattern, PatternSet, Role, column, expected_verbs, sentence_texts
from negengine.engine.text.pattern_files import load_patterns

TEXT_WORDS = {
    "NAME": ["anna", "Maria", "élise"],
    "PROF": ["a dancer", "an architect"],
    "ACT": ["smoke", "dance", "laugh"],
    "ACT1": ["dance", "##ing"],
    "ACT2": ["$1", "smoke"],
    "PRON": ["she", "he", "ßa"],
}
ENGLISH = ["self-contained-negation", "gh22", "gh22-connective", "gh22-coordinated"]  # others: test_bundled_languages
PATTERNS = [pattern for name in ENGLISH for pattern in load_patterns(name, (*SLOTS, *ACT_SLOTS)).all]
PATTERNS += [Pattern("first", "{MASK} is what {NAME} does."), Pattern("last", "{NAME}", "{MASK}")]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: f"{pattern.name}: {pattern.sentence}"[:60])
def test_texts_have_the_token_ids_of_the_composed_sentences(pattern, small_tokenizer):
    random, n = np.random.default_rng(1), 40
    rows = {slot: random.integers(len(words), size=n) for slot, words in TEXT_WORDS.items()}
    frame = pl.DataFrame({column(slot): [TEXT_WORDS[slot][i] for i in own] for slot, own in rows.items()})
    texts = frame.select(sentence_texts(pattern, small_tokenizer.mask_token)).to_series().to_list()
    fillers = [{slot: TEXT_WORDS[slot][own[row]] for slot, own in rows.items()} for row in range(n)]
    assert texts == [pattern.text(own, small_tokenizer.mask_token) for own in fillers]
    composed = {}
    for bucket in composer(small_tokenizer, pattern, TEXT_WORDS, seed=0, random_combinations=10).compose(rows):
        composed |= dict(zip(bucket.rows.tolist(), bucket.ids.tolist(), strict=True))
    assert [ids.tolist() for ids in small_tokenizer.encode(texts)] == [composed[row] for row in range(n)]


def test_an_expected_verb_that_starts_a_sentence_has_a_capital():
    frame = pl.DataFrame({"verb": ["smoke", "élever"]})
    assert frame.select(expected_verbs(Pattern("first", "{MASK} is fun."))).to_series().to_list() == ["Smoke", "Élever"]
    assert frame.select(expected_verbs(Pattern("last", "I {MASK}."))).to_series().to_list() == ["smoke", "élever"]


SILENT = Beginnings(("a", "e", "h", "huî"), ("hurl", "hu"))
DE = Elision("de", (("d'", SILENT),))
IL = Elision("il", (("lo", Beginnings(("st", "z"))), ("l'", Beginnings(("a", "o")))))


@pytest.mark.parametrize(
    ("word", "holds"),
    [("aimer", True), ("fumer", False), ("habiter", True), ("hurler", False), ("huîtres", True), ("Aimer", True)],
)
def test_the_longest_beginning_that_fits_decides(word, holds):
    assert (word in SILENT) == holds


@pytest.mark.parametrize(
    ("rule", "filler", "spelled"),
    [
        (DE, "fumer", "de fumer"),
        (DE, "aimer", "d'aimer"),
        (IL, "studente", "lo studente"),
        (IL, "amico", "l'amico"),
        (IL, "cane", "il cane"),
    ],
)
def test_the_first_form_that_fits_stands_before_a_word(rule, filler, spelled):
    assert rule.spell(filler, capital=False) == spelled
    assert rule.spell(filler, capital=True) == spelled[0].upper() + spelled[1:]
    pattern = Pattern("P", f"x {rule.word.title()} {{ACT}}", "{MASK}", Role.SELECTING, (rule,))
    [written] = pl.DataFrame({"verb": [filler]}).select(sentence_texts(pattern, "[MASK]")).to_series()
    assert written == f"x {spelled[0].upper()}{spelled[1:]} [MASK]"


PATTERN = Pattern("P", "{NAME} essaie de {ACT}.", "De {NAME}, {PRON} rit de {MASK}.", Role.SELECTING, (DE,))
WORDS = {"NAME": ["Marie", "Anne"], "ACT": ["fumer", "aimer", "hurler", "huîtres", "Habiter"], "PRON": ["elle"]}


def test_the_word_before_a_filler_takes_its_form_and_that_before_the_mask_stays():
    fillers = {"NAME": "Anne", "ACT": "aimer", "PRON": "elle"}
    assert PATTERN.text(fillers, "[MASK]") == "Anne essaie d'aimer. D'Anne, elle rit de [MASK]."
    fillers |= {"NAME": "Marie", "ACT": "hurler"}
    assert PATTERN.text(fillers, "[MASK]") == "Marie essaie de hurler. De Marie, elle rit de [MASK]."


def test_many_texts_are_those_of_one_by_one():
    rows = [{"NAME": name, "ACT": verb, "PRON": "elle"} for name in WORDS["NAME"] for verb in WORDS["ACT"]]
    columns = {"NAME": "name", "ACT": "verb", "PRON": "pronoun"}
    frame = pl.DataFrame([{columns[slot]: word for slot, word in row.items()} for row in rows])
    texts = frame.select(sentence_texts(PATTERN, "[MASK]")).to_series().to_list()
    assert texts == [PATTERN.text(row, "[MASK]") for row in rows]


def test_token_ids_are_put_together_from_fillers_and_their_elisions(small_tokenizer):
    words = {"NAME": ["Anna", "Maria"], "ACT": ["smoke", "dance", "act"], "PRON": ["she"]}
    rule = Elision("to", (("t'", Beginnings(("a",))),))
    pattern = Pattern("P", "{NAME} likes to {ACT}.", "{PRON} likes to {MASK}.", Role.SELECTING, (rule,))
    made = composer(small_tokenizer, pattern, words, seed=0)
    grid = [(i, j) for i in range(2) for j in range(3)]
    rows = {
        "NAME": np.array([i for i, _ in grid]),
        "ACT": np.array([j for _, j in grid]),
        "PRON": np.zeros(len(grid), np.int64),
    }
    texts = [
        pattern.text({"NAME": words["NAME"][i], "ACT": words["ACT"][j], "PRON": "she"}, small_tokenizer.mask_token)
        for i, j in grid
    ]
    assert "likes t'act" in texts[2]
    expected = [ids.tolist() for ids in small_tokenizer.encode(texts)]
    for bucket in made.compose(rows):
        assert bucket.ids.tolist() == [expected[row] for row in bucket.rows]
    assert made.longest() >= max(map(len, expected))


def test_rules_that_apply_are_part_of_the_digest_and_kept_in_run_json():
    def one(*rules):
        return PatternSet("own", Pattern("P", "{NAME} dort de {ACT}.", "{MASK}.", Role.SELECTING, rules), ())

    assert one(IL).sha256 == one().sha256  # there is no `il` in it
    assert one(DE).sha256 != one().sha256
    again = PatternSet.from_json(one(IL, DE).to_json())
    assert again.sha256 == one(DE).sha256
    assert again.selecting.text({"NAME": "Anne", "ACT": "aimer"}, "x") == "Anne dort d'aimer. x."
    assert "elisions" not in one(IL).to_json()
