"""A finished run is verified, and the lies of one item are found by plain recounts or by a sample of all items."""

import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie


@pytest.fixture
def folder(in_parts, tmp_path):
    return copy_without_parts(in_parts.folder, tmp_path / "run")


def test_a_finished_run_has_no_damage(in_parts):
    found = ng.verify(in_parts, sample=10_000)
    assert not found.damage
    samples = {check.what: check.n for check in found.checks if "again by" in check.what}
    assert samples == {
        "items decided again by the reference model": len(in_parts.items),
        "ACTs decided again by the reference model": len(in_parts.acts),
    }


LIES = {
    "expected_rank": "the ACT is repeated where its rank is 1, and nowhere else",
    "expected_logprob": "log-probabilities are at most 0, and the ACT's at most that of the first choice",
    "name": "ACTs are those of acts.parquet",
}


@pytest.mark.parametrize(("column", "what"), LIES.items())
def test_items_that_contradict_themselves_are_found(folder, column, what):
    items = pl.read_parquet(folder / "items.parquet")
    row = int((~items["repeated"]).arg_max())
    value = {"expected_rank": 0, "expected_logprob": 0.5, "name": "Nobody"}[column]
    lie(folder, "gh22", "items.parquet", changed(items, row, **{column: value}))
    assert what in damage(ng.verify(folder, sample=0))


def test_rates_and_drops_are_counted_again(folder):
    summary = pl.read_parquet(folder / "summary.parquet")
    row = int((summary["metric"] == "drop").arg_max())
    lie(folder, "gh22", "summary.parquet", changed(summary, row, value=summary["value"][row] + 0.01))
    found = damage(ng.verify(folder, sample=0))
    assert "rates and drops of summary.parquet are those of the items" in found


def test_a_rank_that_the_model_does_not_give_is_found(folder):
    items = pl.read_parquet(folder / "items.parquet")
    row = int(items["expected_rank"].arg_max())
    lie(folder, "gh22", "items.parquet", changed(items, row, expected_rank=items["expected_rank"][row] - 5))
    assert not ng.verify(folder, sample=0).damage
    assert damage(ng.verify(folder, sample=10_000)) == ["items decided again by the reference model"]
