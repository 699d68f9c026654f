"""A finished run is verified, and the lies of one item are found by plain recounts or by a sample of all queries."""

import json

import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie

FACTS = [("paris", "France"), ("rome", "Italy"), ("london", "England"), ("oslo", "Norway")]


@pytest.fixture(scope="module", params=["all", "words", "list"])
def run(mini, request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lama")
    rows = [
        {
            "relation": "P36",
            "sub_label": land,
            "obj_label": answer,
            "masked_sentence": f"The capital of {land} is [MASK] .",
            "masked_negation": f"The capital of {land} is not [MASK] .",
            "misprimed_low": f"Berlin? The capital of {land} is [MASK] .",
        }
        for answer, land in FACTS
    ]
    (folder / "TREx.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    vocabulary = request.param
    if vocabulary == "list":
        vocabulary = folder / "words.txt"
        vocabulary.write_text("".join(f"{answer}\n" for answer, _ in [*FACTS, ("water", ""), ("fire", "")]))
    data, output = folder / "TREx.jsonl", folder / "run"
    return ng.lama(mini.folder, data=data, vocabulary=str(vocabulary), output=output, progress=False)


@pytest.fixture
def folder(run, tmp_path):
    return copy_without_parts(run.folder, tmp_path / "run")


def test_a_finished_run_has_no_damage(run):
    found = ng.verify(run, sample=100)
    assert not found.damage
    samples = {check.what: check.n for check in found.checks if "again by" in check.what}
    assert samples == {
        "items decided again by the reference model": len(run.sentences()),
        "correlations decided again by the reference model": run.items["spearman"].count(),
    }


LIES = {
    "precision@5": "precision@5 follows from the ranks and the first choices",
    "gold_logprob": "log-probabilities are at most 0, and the answer's is that of the first choice where its rank is 1",
    "top2_logprob": "top1_logprob is not below top2_logprob",
    "spearman": "correlations are between -1 and 1",
}


@pytest.mark.parametrize(("column", "what"), LIES.items())
def test_items_that_contradict_themselves_are_found(folder, column, what):
    items = pl.read_parquet(folder / "items.parquet")
    value = {"precision@5": not items["precision@5"][0], "gold_logprob": 1.0, "top2_logprob": 0.0, "spearman": 1.5}
    lie(folder, "lama", "items.parquet", changed(items, 0, **{column: value[column]}))
    assert what in damage(ng.verify(folder, sample=0))


def test_a_correlation_that_the_model_does_not_give_is_found(folder):
    items = pl.read_parquet(folder / "items.parquet")
    lie(folder, "lama", "items.parquet", changed(items, 0, spearman=items["spearman"][0] - 0.01))
    found = damage(ng.verify(folder, sample=100))
    assert "correlations decided again by the reference model" in found
    assert "tables follow from items.parquet" in found
