"""Sentences with slots: words with several forms, and texts over columns as one by one."""

import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22.gh22_patterns import ACT_SLOTS
from negengine.engine.text.agreement import Beginnings, Elision
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
ELIDED = Elision("to", (("t'", Beginnings(("d",))),))
PATTERNS += [Pattern("elided", "{NAME} likes to {ACT}.", "{PRON} likes to {MASK}.", Role.SELECTING, (ELIDED,))]
PATTERNS += [Pattern("first", "{MASK} is what {NAME} does."), Pattern("last", "{NAME}", "{MASK}")]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: f"{pattern.name}: {pattern.sentence}"[:60])
def test_texts_over_columns_are_those_of_one_sentence_each(pattern):
    random, n = np.random.default_rng(1), 40
    rows = {slot: random.integers(len(words), size=n) for slot, words in TEXT_WORDS.items()}
    frame = pl.DataFrame({column(slot): [TEXT_WORDS[slot][i] for i in own] for slot, own in rows.items()})
    texts = frame.select(sentence_texts(pattern, "[MASK]")).to_series().to_list()
    fillers = [{slot: TEXT_WORDS[slot][own[row]] for slot, own in rows.items()} for row in range(n)]
    assert texts == [pattern.text(own, "[MASK]") for own in fillers]


def test_an_expected_verb_that_starts_a_sentence_has_a_capital():
    frame = pl.DataFrame({"verb": ["smoke", "élever"]})
    for sentence, verbs in {"{MASK} is fun.": ["Smoke", "Élever"], "I {MASK}.": ["smoke", "élever"]}.items():
        assert frame.select(expected_verbs(Pattern("P", sentence))).to_series().to_list() == verbs


FILLERS = {"NAME": "Jessica", "PROF": "a dancer", "ACT": "smoke", "PRON": "she"}


@pytest.mark.parametrize(
    ("context", "target", "text"),
    [
        ("{NAME} is {PROF} and {PRON} likes to {MASK}.", "", "Jessica is a dancer and she likes to <mask>."),
        ("{PROF} is {NAME}.", "{PRON} likes to {MASK}.", "A dancer is Jessica. She likes to <mask>."),
        ("", "a {ACT} likes to {MASK}.", "a smoke likes to <mask>."),
        ("{MASK} is {PROF}.", "", "<mask> is a dancer."),
        ("{NAME}, {NAME} likes {ODD} and {MASK}.", "", "Jessica, Jessica likes {ACT}\\1 and <mask>."),
    ],
)
def test_a_filler_has_a_capital_where_a_sentence_starts(context, target, text):
    pattern = Pattern("P", context, target)
    assert pattern.text({**FILLERS, "ODD": "{ACT}\\1"}, "<mask>") == text
    assert len(set(pattern.slots)) == len(pattern.slots)


SILENT = Beginnings(("a", "e", "h", "huî"), ("hurl", "hu"))
DE = Elision("de", (("d'", SILENT),))
IL = Elision("il", (("lo", Beginnings(("st", "z"))), ("l'", Beginnings(("a", "o")))))
SPELLED = {
    DE: ["d'aimer", "de fumer", "d'habiter", "de hurler", "d'huîtres", "d'Aimer"],  # the longest beginning decides
    IL: ["lo studente", "l'amico", "il cane"],  # the first form that fits
}


@pytest.mark.parametrize(("rule", "spelled"), [(rule, text) for rule, texts in SPELLED.items() for text in texts])
def test_the_word_before_a_filler_takes_its_form(rule, spelled):
    """In a text, and over a column; the word before the mask stays."""
    filler = spelled.replace("'", " ").split()[1]
    assert rule.spell(filler, capital=False) == spelled
    word = rule.word.title()
    pattern = Pattern("P", f"x {word} {{ACT}}. {word} {{ACT}}", f"{word} {{MASK}}", Role.SELECTING, (rule,))
    [written] = pl.DataFrame({"verb": [filler]}).select(sentence_texts(pattern, "[MASK]")).to_series()
    capital = spelled[0].upper() + spelled[1:]
    assert written == pattern.text({"ACT": filler}, "[MASK]") == f"x {capital}. {capital} {word} [MASK]"


def test_rules_that_apply_are_part_of_the_digest_and_kept_in_run_json():
    def one(*rules):
        return PatternSet("own", Pattern("P", "{NAME} dort de {ACT}.", "{MASK}.", Role.SELECTING, rules), ())

    assert one(IL).sha256 == one().sha256 != one(DE).sha256  # there is no `il` in it
    again = PatternSet.from_json(one(IL, DE).to_json())
    assert again.sha256 == one(DE).sha256
    assert again.selecting.text({"NAME": "Anne", "ACT": "aimer"}, "x") == "Anne dort d'aimer. x."
    assert "elisions" not in one(IL).to_json()
    with pytest.raises(InputError, match="holds no pattern set"):
        PatternSet.from_json({"name": "own"})
