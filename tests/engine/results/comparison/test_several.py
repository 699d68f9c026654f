"""Several models: the table of a paper, the differences of every two, one family of tests; rates by group."""

from itertools import combinations
from pathlib import Path

import negengine as ng
import numpy as np
import polars as pl
import pytest
from negengine.engine.library.run import Run
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
        made = cls(Path("runs") / name, StageRecord(identity={"model": name}, metadata={}, parts=1))
        object.__setattr__(made, "given", outcomes)
        return made

    def outcomes(self):
        return self.given


def made(splits="ab"):
    """A run of each model: items in 10 clusters with a gender each; the second kind of clusters crosses them."""
    schema = ("dataset", "condition", "split", "metric", "item", "value", "cluster", "crossed", "gender")
    runs = []
    for seed, name in enumerate(NAMES):
        rng = np.random.default_rng(seed)
        rows = [
            ("D", "c", split, "accuracy", f"item {i}", float(rng.random() < 0.5), f"{i // 4}", f"v{i % 4}", "fm"[i % 2])
            for split in splits
            for i in range(40)
        ]
        runs.append(Plain.of(name, pl.DataFrame(rows, schema=schema, orient="row")))
    return runs


@pytest.fixture(scope="module")
def runs():
    return made()


def test_every_two_models_are_tested_in_every_condition(runs):
    found = ng.compare(*runs).frame
    assert found.select("first", "second").rows() == [pair for pair in combinations(NAMES, 2) for _ in "ab"]
    two = ng.compare(runs[0], runs[2]).frame
    assert found.filter(first="small", second="large")["difference"].to_list() == two["difference"].to_list()
    assert found["tests"].to_list() == [6] * 6  # one family
    assert found["p_holm"].to_list() == pytest.approx(list(holm(found["p"].to_numpy())))
    apart = Plain.of("apart", runs[2].given.with_columns(item=pl.lit("other ") + pl.col("item")))
    found = ng.compare(*runs[:2], apart)
    assert len(found.frame) == 2
    assert "without an item in common: middle and apart; small and apart" in found.table.notes


def test_models_are_rows_and_conditions_are_columns_where_there_is_room(runs):
    table = ng.compare(*runs).tables()[0]
    assert [column.heading for column in table.columns] == ["model", "a", "b"]
    for run, row in zip(runs, table.frame.to_dicts(), strict=True):
        rate = 100 * run.given.filter(split="b")["value"].mean()
        assert (row["model"], row["b"]) == (run.model_name, pytest.approx(rate))
        assert row["b low"] < rate < row["b high"]
    many = ng.compare(*made("abcdef"))
    assert (len(many.main_tables()[0].frame), len(many.tables()[0].frame)) == (6 * 3, 3)
    assert max(map(len, render(many.main_tables(), "table", width=80).splitlines())) <= 80
    # Numbers that are not rates have a table of their own.
    numbers = runs[0].given.with_columns(metric=pl.lit("spearman"), value=pl.Series(np.linspace(-1, 1, 80)))
    both = pl.concat([runs[0].given, numbers])
    found = ng.compare(Plain.of("one", both), Plain.of("two", both))
    assert [table.title for table in found.tables()[:2]] == ["Models: rates, %", "Models: values, in their own unit"]
    assert {row["model"] for row in found.document()["rates"]} == {"one", "two"}


def test_groups_have_rates_counts_and_intervals_and_a_terminal_shows_those_that_move_most(runs):
    found = ng.by_group(*runs, by="gender").frame
    assert len(found) == 3 * 2 * 2
    [row] = found.filter(model="middle", gender="f", split="a").to_dicts()
    rate = 100 * runs[1].given.filter(gender="f", split="a")["value"].mean()
    assert (row["n"], row["clusters"], row["value"]) == (20, 10, pytest.approx(rate))
    assert row["low"] < row["value"] < row["high"]
    moves = found.group_by("model", "split").agg(pl.col("moves").sum())["moves"]
    assert moves.to_list() == pytest.approx([0] * 6)
    assert set(ng.by_group(runs[0], by="split").frame["split"]) == {"a", "b"}
    with pytest.raises(ng.InputError, match=r"--by gendre: .*did you mean 'gender'\? give condition, dataset, gender"):
        ng.by_group(runs[0], by="gendre")
    many = ng.by_group(Plain.of("one", runs[0].given.with_columns(gender="item")), by="gender")
    (table,) = many.main_tables()
    assert table.frame.group_by("split").len()["len"].to_list() == [10, 10]
    assert len(many.tables()[0].frame) == 80
    assert "--format csv and --json have all" in table.notes[-1]


def test_figures_are_of_all_items_where_there_is_such_a_split(runs):
    """Other splits hold the same items again: their rates are in the tests, and in groups by split."""
    split = pl.col("split").replace("a", "all")
    whole = [Plain.of(run.model_name, run.given.with_columns(split)) for run in runs]
    found = ng.compare(*whole)
    assert set(found.rates["split"]) == {"all"}
    assert set(found.frame["split"]) == {"all", "b"}
    assert set(ng.by_group(*whole, by="gender").frame["split"]) == {"all"}
    assert set(ng.by_group(*whole, by="split").frame["split"]) == {"all", "b"}


# ---------------------------------------------------------------- the main job


def test_drops_of_groups_are_those_of_their_triplets_and_items_are_tidy(scored_run):
    scored = ng.open(scored_run)
    found = ng.by_group(scored, by="gender").frame
    wanted = (
        scored.items.join(scored.selection.triplets, on="triplet")
        .filter(pl.col("pattern") != "CpTp")
        .group_by("pattern", "gender")
        .agg(pl.len().cast(pl.Int64), drop=100 - 100 * pl.col("repeated").mean())
    )
    told = {(row["split"], row["gender"]): (row["n"], row["drop"]) for row in found.to_dicts()}
    assert told == {row[:2]: (row[2], pytest.approx(row[3])) for row in wanted.rows()}
    every = dict(scored.rates.select("pattern", "drop").iter_rows())
    for row in found.to_dicts():  # a group with a larger drop raises the drop of all
        share = row["n"] / found.filter(split=row["split"])["n"].sum()
        assert row["moves"] == pytest.approx((row["drop"] - every[row["split"]]) * share)
    # With one group, the interval is that of the whole run: pairs and verbs are clusters.
    whole = ng.by_group(scored, by="dataset").frame.sort("split")
    rates = scored.rates.filter(pl.col("pattern") != "CpTp").sort("pattern")
    assert whole["drop"].to_list() == pytest.approx(rates["drop"].to_list())
    assert whole["drop_low"].to_list() == pytest.approx(rates["drop_low_two_way"].to_list())
    tidy = ng.items(scored)
    assert tidy.columns[:9] == ["model", "pattern", "role", "name", "gender", "profession", "verb", "pair", "repeated"]
    assert (len(tidy), tidy["repeated"].sum()) == (len(scored.items), scored.items["repeated"].sum())
    assert set(tidy["repeated"]) <= {0, 1}
    assert tidy["pair"].n_unique() == tidy.select("name", "profession").n_unique()
