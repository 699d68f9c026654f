"""Situations of results from public threads: natural names of groups and columns, few clusters, repeated items.

What is right is counted from the table itself and the answers of the model, row by row, and with SciPy.
"""

import csv
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import negengine as ng
import polars as pl
import pytest
from negengine.engine.experiments.registry import experiment
from negengine.engine.results.comparison.groups import by_group
from negengine.engine.results.report.citation import cite
from negengine.engine.views.formats import render
from scipy.stats import binomtest

PLACE = Path(__file__).parents[4] / "shared" / "cases" / "results" / "in"
COLUMN = {"condition": "condition", "wanted": "condition"}  # of the groups, where it is not `group`
TABLES = (
    *("quant_min", "pipe", "model_min", "colwhy", "groupsAB", "condition", "wanted", "longgroups", "repeats"),
    *("onecluster", "scripts", "arabic"),
)
METRICS = {"quant_min": ("accuracy", "accuracy"), "pipe": ("per_token", "per_token")}  # of the summary, of the items
pytestmark = [
    pytest.mark.everything,
    pytest.mark.skipif(not PLACE.exists(), reason="the tables of the situations are not here"),
]


@pytest.fixture(scope="module")
def made(model, tmp_path_factory):
    """A table's finished run."""

    @cache
    def run(name):
        function = ng.likelihood if name in METRICS else ng.probe
        given = {"group": COLUMN.get(name, "group"), "output": tmp_path_factory.mktemp("runs") / name}
        return function(model, PLACE / f"{name}.csv", progress=False, **given)

    return run


def rows_of(name):
    with (PLACE / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def shown(run):
    return [(figure, figure.plot.data) for part in experiment(run.stage).sections(run) for figure in part.figures]


@pytest.mark.parametrize("name", TABLES)
def test_each_group_has_its_rows_in_the_summary_and_in_figures_and_the_run_is_sound(name, made, tmp_path):
    run, rows, column = made(name), rows_of(name), COLUMN.get(name, "group")
    metric, of_items = METRICS.get(name, ("is_top1", "first"))
    values = dict(run.items.drop_nulls(of_items).select("row", of_items).iter_rows())
    groups = {}
    for number, row in enumerate(rows, 1):
        groups.setdefault(row[column], []).append(float(values[number]))
    found = run.summary.filter(pl.col("other_split").is_null(), metric=metric)
    told = {row["split"]: row for row in found.filter(pl.col("column") == column).to_dicts()}
    assert {group: (own["n"], pytest.approx(own["value"])) for group, own in told.items()} == {
        group: (len(own), sum(own) / len(own)) for group, own in groups.items()
    }
    assert found.filter(pl.col("column").is_null())["n"].to_list() == [len(rows)]
    for group, own in told.items():
        if metric != "per_token" and own["clusters"] is None:
            wilson = binomtest(int(sum(groups[group])), own["n"]).proportion_ci(method="wilson")
            assert (own["low"], own["high"]) == (pytest.approx(wilson.low), pytest.approx(wilson.high))
    assert all(data["place"].n_unique() == len(data) >= len(groups) for _, data in shown(run))
    assert cite(run).methods
    assert ng.verify(run, sample=20).damage == ()
    assert ng.report(run, tmp_path / "report.html").exists()
    names = ng.figures(run, tmp_path / "figures")
    assert len({str(path).casefold() for path in names}) == 4 * len(shown(run))
    svg = next(path for path in names if path.suffix == ".svg").read_text("utf-8")
    labels = re.findall("<text[^>]*>(.*?)</text>", svg)  # with its lines, where it has several
    assert len({*labels}) == len(labels)


def test_a_group_of_one_cluster_has_no_interval_nor_has_its_difference(made):
    found = made("onecluster").summary.filter(metric="is_top1")
    bare = {(row["split"], row["other_split"]) for row in found.to_dicts() if row["low"] is None}
    assert bare == {("negated", None), ("affirmative", "negated")}


def test_rates_of_rows_and_differences_of_items_are_told_apart_and_stay_in_their_range(made):
    run = made("repeats")
    by_item = {}
    for row, first in zip(rows_of("repeats"), run.items.sort("row")["first"], strict=True):
        by_item.setdefault(row["item"], {}).setdefault(row["group"], []).append(first)
    both = [own for own in by_item.values() if len(own) == 2]
    means = [
        sum(own["affirmative"]) / len(own["affirmative"]) - sum(own["negated"]) / len(own["negated"]) for own in both
    ]
    [row] = run.summary.filter(pl.col("other_split").is_not_null(), metric="is_top1").to_dicts()
    assert (row["value"], row["n"]) == (pytest.approx(sum(means) / len(means)), len(both))
    assert -1 <= row["low"] < row["value"] < row["high"] <= 1
    assert (run.summary.filter(pl.col("other_split").is_null(), metric="logprob")["high"] <= 0).all()
    assert "several rows of an item in a group count by their mean here" in render(run.tables(), "table", width=200)
    assert "several rows" not in render(made("condition").tables(), "table", width=200)


def test_a_column_of_the_table_comes_first_in_by_and_a_digit_is_not_a_name(made, tmp_path):
    found = by_group(made("condition"), by="condition").frame.filter(metric="is_top1")
    assert set(found["group"]) == {"affirmative", "negated"}
    page = ng.report(made("groupsAB"), tmp_path / "report.html").read_text("utf-8")
    assert not re.search(r"\d<abbr|<abbr[^>]*>\d+</abbr>\.\d", page)
    data = unquote(re.search('href="data:text/csv;charset=utf-8,([^"]*)"', page)[1])
    assert max(len(digits.lstrip("0")) for digits in re.findall(r"\d*\.(\d+)", data) or ["0"]) <= 6


def test_names_from_right_to_left_keep_the_order_of_a_difference_and_of_a_sentence(made, tmp_path):
    run = made("arabic")
    first, second = dict.fromkeys(row["group"] for row in rows_of("arabic"))
    differences = render(run.tables()[1:2], "markdown")
    assert f"\u2068{first}\u2069 − \u2068{second}\u2069" in differences
    page = ng.report(run, tmp_path / "report.html").read_text("utf-8")
    assert f"<bdi>{rows_of('arabic')[0]['sentence']}</bdi>" in page
