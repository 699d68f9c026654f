"""The layout of norakassner/LAMA_primed_negated becomes ours, and what contradicts itself is told."""

import json
from pathlib import Path

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.data_sets.misprimed import CORPORA, corpus_of, merge
from negengine.engine.experiments.lama.facts import Corpus

PARIS = "The capital of France is [MASK] ."
NEGATED = "The capital of France is not [MASK] ."


def line(prime, **changes):
    row = {"sub_label": "France", "obj_label": "Paris", "masked_sentences": [PARIS], "masked_negations": [NEGATED]}
    return json.dumps(row | {"masked_misprimed": [f"{prime}? {PARIS}"]} | changes).encode() + b"\n"


def test_lines_of_one_fact_become_one_line():
    members = {
        "data/TREx/high_ranked/P36.jsonl": line("Rome"),
        "data/TREx/random/P36_random.jsonl": line("cat"),
        "data/TREx/README": b"not data",
        "scripts/other.jsonl": b"not data",
    }
    (content,) = (merged := merge(members, "them")).values()
    assert list(merged) == ["TREx.jsonl"]
    assert json.loads(content) == {
        "relation": "P36",
        "sub_label": "France",
        "obj_label": "Paris",
        "masked_sentence": PARIS,
        "masked_negation": NEGATED,
        "misprimed_high": f"Rome? {PARIS}",
        "misprimed_low": None,
        "misprimed_random": f"cat? {PARIS}",
    }


def test_relations_and_identifiers_of_conceptnet_are_in_its_lines():
    members = {"data/ConceptNet/low_ranked/test.jsonl": line("Rome", pred="AtLocation", uuid="8c99")}
    (content,) = merge(members, "them").values()
    assert json.loads(content)["relation"] == "AtLocation"
    assert json.loads(content)["source_id"] == "8c99"


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (
            ("data/TREx/random/P36.jsonl", {"masked_negations": ["No."]}),
            "random/P36.jsonl:1: the negation of .* differs",
        ),
        (("data/TREx/other/P36.jsonl", {}), "must be named high_ranked or low_ranked or random"),
        (("data/other/random/P36.jsonl", {}), "must have the name of a corpus: GoogleRE, TREx"),
        (("data/TREx/random/P36.jsonl", {"masked_sentences": PARIS}), "masked_sentences is .* a list of one text is"),
    ],
)
def test_what_cannot_be_merged_is_told_with_its_file(second, reason):
    path, changes = second
    with pytest.raises(InputError, match=reason):
        merge({"data/TREx/high_ranked/P36.jsonl": line("Rome"), path: line("cat", **changes)}, "them")


def test_corpora_are_those_of_the_probe():
    assert tuple(corpus.value for corpus in Corpus) == CORPORA
    assert corpus_of(Path("data/Google_RE/date_of_birth.jsonl")) == "GoogleRE"
