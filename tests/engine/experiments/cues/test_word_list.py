"""What counts as a negation cue."""

import pytest
from negengine.engine.experiments.cues.cue_words import WORDS, Kind, find_cues, has_cue

ENTRIES = [(word, kind) for kind in Kind for word in WORDS[kind]]


def test_every_entry_is_found_as_itself():
    texts = {word: "They don't." if word == "n't" else f"{word.capitalize()}, they said." for word, _ in ENTRIES}
    found = [(word, [(cue.word, cue.kind) for cue in find_cues(texts[word])]) for word, _ in ENTRIES]
    assert found == [(word, [(word, kind)]) for word, kind in ENTRIES]


def test_no_entry_stands_twice():
    words = [word for word, _ in ENTRIES]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    "text", ["He isn't here.", "He isn’t here.", "He is n't here.", "HE ISN'T HERE", "dont go", "I can't.", "I ca n't."]
)
def test_contracted_not_in_all_its_spellings(text):
    assert [cue.word for cue in find_cues(text)] == ["n't"]


@pytest.mark.parametrize(
    "text", ["a note on knots", "an uncle", "Norman", "a no-fly zone", "See No. 4", "no 12", "isn'tabout", "Nottingham"]
)
def test_words_that_only_look_like_cues(text):
    assert not has_cue(text)


def test_of_overlapping_cues_the_longer_one_counts():
    assert [cue.word for cue in find_cues("No one was there, by  no\tmeans.")] == ["no one", "by no means"]


def test_the_added_negations_of_the_benchmark_are_found(shared):
    """Each row negates T, H or both. Of 2,000 negated texts a benchmark, those missed hold no cue from the list.

    RTE: rows 240-242 were never negated (4 texts), `notbassassinated` (2), `prevented` (2). SNLI: 112-113 not negated,
    `inot` (2 each). MNLI: `lack` (2), 1246-1247 and 1264-1265 not negated or another way (2 each).
    """
    missed = {}
    for source in ("RTE", "SNLI", "MNLI"):
        text = (shared / "data/datasets/negation-nli" / f"{source}.txt").read_text("cp1252")
        rows = [line.split("\t") for line in text.split("\n")[1:] if line]
        negated = [row[1] for row in rows if int(row[0]) % 3 != 1] + [row[2] for row in rows if int(row[0]) % 3 != 0]
        missed[source] = sum(not has_cue(sentence) for sentence in negated)
    assert missed == {"RTE": 8, "SNLI": 4, "MNLI": 6}
