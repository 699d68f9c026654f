"""Several models: the table of a paper, the differences of every two, one family of tests."""

from itertools import combinations
from pathlib import Path

import negengine as ng
import numpy as np
import polars as pl
import pytest
from negengine.engine.library.run import Run
from negengine.engine.results.comparison.estimates import estimates_tables
from negengine.engine.runs.record import StageRecord
from negengine.engine.statistics.p_values import holm
from negengine.engine.views.formats import render

NAMES = ("small", "middle", "large")


class Plain(Run):
    """A run of a probe with outcomes that a test gives."""

    stage = "plain"
    given: pl.DataFrame

    @classmethod
    def of(cls, name, outcomes):
        record = StageRecord(identity={"model": name}, metadata={}, parts=1)
        made = cls(Path("runs") / name, record)
        object.__setattr__(made, "given", outcomes)
        return made

    def outcomes(self):
        return self.given


def outcomes(seed, splits=("a", "b"), items=40):
    """Items in 10 clusters with a gender each; the second kind of clusters crosses them."""
    rng = np.random.default_rng(seed)
    rows = [
        ("D", "c", split, "accuracy", f"item {i}", float(rng.random() < 0.5), f"{i // 4}", f"v{i % 4}", "fm"[i % 2])
        for split in splits
        for i in range(items)
    ]
    schema = ("dataset", "condition", "split", "metric", "item", "value", "cluster", "crossed", "gender")
    return pl.DataFrame(rows, schema=schema, orient="row")


@pytest.fixture(scope="module")
def runs():
    return [Plain.of(name, outcomes(seed)) for seed, name in enumerate(NAMES)]


def test_every_two_models_are_tested_in_every_condition(runs):
    found = ng.compare(*runs).frame
    assert found.select("first", "second").unique(maintain_order=True).rows() == list(combinations(NAMES, 2))
    assert len(found) == 6
    two = ng.compare(runs[0], runs[2]).frame
    own = found.filter((pl.col("first") == "small") & (pl.col("second") == "large"))
    assert own["difference"].to_list() == two["difference"].to_list()
    assert found["tests"].to_list() == [6] * 6  # one family
    assert found["p_holm"].to_list() == pytest.approx(list(holm(found["p"].to_numpy())))


def test_models_are_rows_and_conditions_are_columns_where_there_is_room(runs):
    table = ng.compare(*runs).tables()[0]
    assert [column.heading for column in table.columns] == ["model", "a", "b"]
    for run, row in zip(runs, table.frame.to_dicts(), strict=True):
        rate = 100 * run.given.filter(split="b")["value"].mean()
        assert (row["model"], row["b"]) == (run.model_name, pytest.approx(rate))
        assert row["b low"] < rate < row["b high"]
    many = ng.compare(*(Plain.of(name, outcomes(seed, splits="abcdef")) for seed, name in enumerate(NAMES)))
    assert (len(many.main_tables()[0].frame), len(many.tables()[0].frame)) == (6 * 3, 3)
    assert max(map(len, render(many.main_tables(), "table", width=80).splitlines())) <= 80
    other = runs[2].given.with_columns(item=pl.lit("other ") + pl.col("item"))
    found = ng.compare(*runs[:2], Plain.of("apart", other))
    assert len(found.frame) == 2
    assert "without an item in common: middle and apart; small and apart" in found.table.notes


def test_numbers_that_are_not_rates_have_a_table_of_their_own(runs):
    numbers = runs[0].given.with_columns(metric=pl.lit("spearman"), value=pl.Series(np.linspace(-1, 1, 80)))
    both = pl.concat([runs[0].given, numbers])
    found = ng.compare(Plain.of("one", both), Plain.of("two", both)).tables()
    assert [table.title for table in found[:2]] == ["Models: rates, %", "Models: values, in their own unit"]
    document = ng.compare(*runs).document()
    assert {row["model"] for row in document["rates"]} == set(NAMES)
    assert estimates_tables(pl.DataFrame(document["rates"]), "pairs")


# ---------------------------------------------------------------- groups


def test_groups_have_rates_counts_and_intervals(runs):
    found = ng.by_group(*runs, by="gender").frame
    assert len(found) == 3 * 2 * 2
    row = found.row(
        by_predicate=(pl.col("model") == "middle") & (pl.col("gender") == "f") & (pl.col("split") == "a"), named=True
    )
    own = runs[1].given.filter((pl.col("gender") == "f") & (pl.col("split") == "a"))
    assert row["n"] == 20
    assert row["clusters"] == 10
    assert row["value"] == pytest.approx(100 * own["value"].mean())
    assert row["low"] < row["value"] < row["high"]
    for (_,), block in ng.by_group(runs[0], by="gender").frame.group_by("split"):
        assert block["moves"].sum() == pytest.approx(0)
    assert set(ng.by_group(runs[0], by="split").frame["split"]) == {"a", "b"}
    with pytest.raises(ng.InputError, match=r"--by gendre: .*did you mean 'gender'\? give condition, dataset, gender"):
        ng.by_group(runs[0], by="gendre")


def test_of_many_groups_a_terminal_shows_those_that_move_most(runs):
    many = runs[0].given.with_columns(gender=pl.col("item"))
    found = ng.by_group(Plain.of("one", many), by="gender")
    (table,) = found.main_tables()
    assert table.frame.group_by("split").len()["len"].to_list() == [10, 10]
    assert len(found.tables()[0].frame) == 80
    assert "--format csv and --json have all" in table.notes[-1]


# ---------------------------------------------------------------- the main job


@pytest.fixture(scope="module")
def scored(scored_run):
    return ng.open(scored_run)


def test_drops_of_groups_are_those_of_their_triplets(scored):
    found = ng.by_group(scored, by="gender").frame
    wanted = (
        scored.items.join(scored.selection.triplets, on="triplet")
        .filter(pl.col("pattern") != "CpTp")
        .group_by("pattern", "gender")
        .agg(drop=100 - 100 * pl.col("repeated").mean(), n=pl.len().cast(pl.Int64))
    )
    both = found.join(wanted, left_on=["split", "gender"], right_on=["pattern", "gender"], suffix="_wanted")
    assert len(both) == len(found) == len(wanted)
    assert both["drop"].to_list() == pytest.approx(both["drop_wanted"].to_list())
    assert both["n"].to_list() == both["n_wanted"].to_list()
    # With one group, the interval is that of the whole run: pairs and verbs are clusters.
    whole = ng.by_group(scored, by="dataset").frame.sort("split")
    rates = scored.rates.filter(pl.col("pattern") != "CpTp").sort("pattern")
    assert whole["drop"].to_list() == pytest.approx(rates["drop"].to_list())
    assert whole["drop_low"].to_list() == pytest.approx(rates["drop_low_two_way"].to_list())


def test_items_are_tidy(scored):
    found = ng.items(scored)
    assert found.columns[:9] == [
        *("model", "pattern", "role", "name", "gender", "profession", "verb", "pair", "repeated"),
    ]
    assert len(found) == len(scored.items)
    assert set(found["repeated"].unique()) <= {0, 1}
    assert found["repeated"].sum() == scored.items["repeated"].sum()
    assert found["pair"].n_unique() == found.select("name", "profession").n_unique()
