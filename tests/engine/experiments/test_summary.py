"""From items to the rows of summary.parquet, on items whose figures can be checked by hand."""

from dataclasses import replace
from math import inf

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.requests import summary
from negengine.engine.requests.contrast import Contrast, contrast_rows, paired_differences
from negengine.engine.requests.items import ALL, ORIGINAL, OWN, collected
from negengine.engine.results.comparison.estimates import GROUP, estimates
from negengine.engine.statistics.intervals import proportion
from scipy import stats

BOTH = [Contrast("right", summary.Cell("D", ORIGINAL), summary.Cell("D", "b"), by="item")]


def items(rows):
    """From (condition, item, splits, cluster, right); splits are `NAME` or `all` and `NAME`."""
    names = ("condition", "item", "splits", "cluster", "right")
    own = pl.DataFrame(rows, schema=names, orient="row").select(pl.lit("D").alias("dataset"), *names)
    return own.with_columns(pl.col("splits").str.split("|")) if own["splits"].dtype == pl.String else own


def plain(outcomes, condition=ORIGINAL, clusters=None):
    """Items that count in all and in H, each a cluster of its own by default."""
    own = clusters or [str(i) for i in range(len(outcomes))]
    return [(condition, str(i), f"{ALL}|H", own[i], right) for i, right in enumerate(outcomes)]


@given(st.lists(st.tuples(*(st.sampled_from("aäz") for _ in range(4)), st.none() | st.booleans()), min_size=1))
def test_keys_that_are_numbers_in_memory_give_the_summary_of_keys_that_are_texts(made):
    rows = [(condition, item, [ALL, split], cluster, right) for condition, item, split, cluster, right in made]
    texts = items(rows)
    numbers = collected(texts.lazy(), texts.columns)
    assert numbers.cast(texts.schema).equals(texts)
    found = [[str(row) for row in summary.means(own, ["right"])] for own in (texts, numbers)]
    assert found[0] == found[1]
    assert summary.numbered(numbers["cluster"]).tolist() == summary.numbered(texts["cluster"]).tolist()


def test_a_fraction_has_wilsons_interval_and_a_mean_students_and_clusters_widen_it():
    """3 of 4: centre (3 + z²/2) / (4 + z²), after Wilson 1927. What does not apply does not count.

    0, 1, 2: mean 1, standard error 1 / √3, 2 degrees of freedom.
    """
    z2 = stats.norm.ppf(0.975) ** 2
    (whole, part) = summary.means(items(plain([True, True, None, True, False])), ["right"])
    assert whole[:4] == ("D", ORIGINAL, ALL, "right")
    assert (part.split, part.column, part[4:11]) == ("H", OWN, whole[4:11])
    assert (whole.value, whole.n, whole.clusters) == (0.75, 4, None)
    assert (whole.low + whole.high) / 2 == pytest.approx((3 + z2 / 2) / (4 + z2))
    (whole, _) = summary.means(items(plain([0.0, 1.0, 2.0])), ["right"])
    width = stats.t.ppf(0.975, 2) / 3**0.5
    assert whole[4:8] == (1, pytest.approx(1 - width), pytest.approx(1 + width), 3)
    # Ten clusters of four equal outcomes say what ten outcomes say: a design effect of 4 · 10/9 · 39/40.
    outcomes = [i < 20 for i in range(40)]
    own, _ = summary.means(items(plain(outcomes, clusters=[str(i // 4) for i in range(40)])), ["right"])
    lone, _ = summary.means(items(plain(outcomes)), ["right"])
    assert (own.value, own.n, own.clusters, lone.clusters) == (0.5, 40, 10, None)
    assert own.design_effect == pytest.approx(4 * 10 / 9 * 39 / 40)
    assert own.low < lone.low < 0.5 < lone.high < own.high


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30))
def test_items_of_one_cluster_have_no_interval_and_no_p_unless_the_group_is_the_cluster(outcomes):
    """Whatever the outcomes; the same in summaries, differences, and the estimates of comparisons."""
    right, other = (list(own) for own in zip(*outcomes, strict=True))
    same, crossed = (pl.Series([name] * len(right)) for name in ("A", "verb"))
    rows = [(condition, str(i), f"{ALL}|A", "A", own) for condition, side in ((ORIGINAL, right), ("b", other))
            for i, own in enumerate(side)]  # fmt: skip
    whole, named, *_ = summary.means(items(rows), ["right"], OWN)
    assert (whole.low, whole.high, whole.clusters) == (None, None, 1)
    assert named[4:7] == proportion(sum(right), len(right))  # of the column of clusters: items are draws
    (difference,) = contrast_rows(items(rows), BOTH)
    assert (difference.low, difference.high, difference.p) == (None, None, 1)
    each = pl.Series([str(i) for i in range(len(right))])
    for kinds in ((same, None), (same, each), (each, crossed)):
        found = summary.paired(pl.Series(right), pl.Series(other), *kinds)
        assert (found.low, found.high, found.p) == (None, None, 1)
        assert summary.estimated(pl.Series(right), kinds[0], crossed=kinds[1])[1:3] == (None, None)
    frame = pl.DataFrame({**dict(zip(GROUP, ("D", "c", None, ALL, "right"), strict=True)), "item": each,
                          "value": pl.Series(right).cast(pl.Float64), "cluster": "A", "crossed": None})  # fmt: skip
    assert estimates({"m": frame}, GROUP).select("low", "high").row(0) == (None, None)


METRICS = {
    "right": (st.booleans(), 0, 1),
    "spearman": (st.sampled_from([-1.0, -0.9, 0.0, 0.3, 0.99, 1.0]), -1, 1),
    "logprob": (st.sampled_from([-30.0, -2.0, -0.5, -1e-9, 0.0]), -inf, 0),
}


@given(st.data(), st.sampled_from([*METRICS]), st.integers(1, 12), st.integers(1, 4), st.booleans())
def test_no_interval_leaves_what_its_quantity_can_be_on_any_path(data, metric, n, size, as_groups):
    """Of means, of means of clusters, of differences (also of several rows of an item), of models and of two models."""
    known, low, high = METRICS[metric]
    sides = [data.draw(st.lists(known, min_size=n, max_size=n)) for _ in "ab"]
    clusters = [str(i // size) for i in range(n)]
    rows = pl.concat(items([(name, str(i % (n - n // 3)), [ALL, "H"], clusters[i], own) for i, own in enumerate(side)])
                     for name, side in zip("ab", sides, strict=True)).rename({"right": metric})  # fmt: skip
    by = "other" if as_groups else "item"
    contrast = Contrast(metric, summary.Cell("D", "a"), summary.Cell("D", "b"), by)
    found = [*summary.means(rows, [metric]), *summary.cluster_means(rows, [metric], "-by-cluster")]
    differences = [*contrast_rows(rows.with_columns(other=pl.lit(None, pl.String)), [contrast])]
    models = {name: rows.filter(condition=name).unique("item", maintain_order=True).select(
        "item", "cluster", dataset=pl.lit("D"), condition=pl.lit("c"), column=pl.lit(None, pl.String),
        split=pl.lit(ALL), metric=pl.lit(metric), value=pl.col(metric).cast(pl.Float64), crossed=pl.lit(None),
    ) for name in "ab"}  # fmt: skip
    told = estimates(models, GROUP)
    compared = paired_differences({("D", "c", None, ALL, metric): [*models.values()]}, GROUP)
    assert {told["unit"][0], compared["unit"][0]} == {"fraction" if metric == "right" else ""}
    assert len(differences) == len(compared) == 1
    found = [(own.value, own.low, own.high) for own in (*found, *differences)]
    ends = [*[(low, high)] * (len(found) - 1), (low - high, high - low)]
    shown = [*told.select("value", "low", "high").rows(), *compared.select("difference", "low", "high").rows()]
    found += shown
    ends += [*[(low, high)] * len(told), (low - high, high - low)]
    for (value, *own), (least, most) in zip(found, ends, strict=True):
        assert own == [None, None] or least <= own[0] <= value + 1e-9 <= own[1] + 2e-9 <= most + 2e-9


def test_clusters_count_the_same_whatever_their_size():
    """A has 1 1 0, B has 0: (⅔ + 0) / 2. One cluster, as in B's own split, has no such mean, and no cluster is none."""
    outcomes = [("A", 1), ("A", 1), ("A", 0), ("B", 0), (None, 1)]
    rows = [(ORIGINAL, str(i), f"{ALL}|{name}", name, right) for i, (name, right) in enumerate(outcomes)]
    (row,) = summary.cluster_means(items(rows), ["right"], "-by-cluster", OWN)
    assert (row.split, row.metric, row.value, row.n) == (ALL, "right-by-cluster", pytest.approx(1 / 3), 2)


def test_fewer_than_five_clusters_of_several_items_have_no_interval_anywhere():
    """Of a rate, a mean, a mean of clusters, differences of the same items and of groups; independent items do."""
    random = np.random.default_rng(0)
    for clusters in (2, 4, 5):
        of = [str(i % clusters) for i in range(20)]
        yes, numbers = (random.random(20) < 0.5).tolist(), random.normal(size=20).tolist()
        found = []
        for values in (yes, numbers):
            both = items([*plain(values, clusters=of), *plain(values[::-1], "b", of)])
            found += [*summary.means(both, ["right"])[:1], *contrast_rows(both, BOTH)]
            found += [*summary.cluster_means(both, ["right"], "-by-cluster", OWN)[:1]]
            found += contrast_rows(both.with_columns(other=pl.lit(None, pl.String)), [replace(BOTH[0], by="other")])
        assert len(found) == 8
        assert {row.low is None for row in found} == {clusters < 5}, clusters
    assert summary.means(items(plain([True, False])), ["right"])[0].low is not None


def test_a_contrast_takes_the_items_that_both_sides_have_and_flips_the_signs_of_whole_clusters():
    """Items 0 to 4 in both: four right in the first alone, none in the second alone. p = 2 / 2⁴.

    Ten items of five clusters, right in the first alone: p = 2 / 2⁵, not McNemar's 2 / 2¹⁰; and not a point.
    """
    (row,) = contrast_rows(items([*plain([True] * 4 + [False] * 3), *plain([False] * 5, "b")]), BOTH)
    assert row[:5] == ("D", ORIGINAL, ALL, "right", pytest.approx(4 / 5))
    assert (row.n, row.p, row.other_condition, row.other_split, row.other_column) == (5, 1 / 8, "b", ALL, None)
    assert [*contrast_rows(items(plain([True])), BOTH)] == []
    clusters = [str(i // 2) for i in range(10)]
    rows = [*plain([True] * 10, clusters=clusters), *plain([False] * 10, "b", clusters)]
    (difference,) = contrast_rows(items(rows), BOTH)
    assert (difference.value, difference.clusters) == (1, 5)
    assert difference.low < 1 == difference.high
    assert difference.p == pytest.approx(2 / 2**5)
    # Of five positive differences of numbers p = 2 / 2⁵; the last two are of one cluster: p = 2 / 2⁴.
    first, second = pl.Series([1.0, 2, 3, 4, 5]), pl.Series([0.9, 1.8, 2.7, 3.6, 4.5])
    alone, clustered = (summary.paired(first, second, pl.Series(list(clusters))) for clusters in ("abcde", "abcdd"))
    assert (alone.value, alone.p, clustered.p) == pytest.approx((0.3, 2 / 2**5, 2 / 2**4))


def test_holm_adjusts_over_all_tests():
    """0.01 and 0.04 of three are 0.03 and, ranked second, 0.08; 0.05 is raised to that.

    The same test under another name, and one without a difference, do not count.
    """
    tests = {"a": 0.05, "b": 0.01, "c": 0.04}
    rows = [
        summary.Row("D", "x", ALL, name, 0.1, None, None, 9, p=p, least_p=0.0, test=name) for name, p in tests.items()
    ]
    rows += [rows[0]._replace(metric="again"), rows[0]._replace(metric="same", p=1.0, least_p=1.0, test="same")]
    found = summary.frame(summary.with_holm([summary.Row("D", "x", ALL, "right", 0.5, 0.1, 0.9, 9), *rows]))
    assert found.schema == summary.SCHEMA
    assert found["metric"].to_list() == ["right", *tests, "again", "same"]
    assert found["tests"].to_list() == [None, 3, 3, 3, 3, 3]
    assert found["p_holm"].to_list() == [None, *map(pytest.approx, [0.08, 0.03, 0.08, 0.08, 1])]


@pytest.mark.parametrize(
    ("low", "high", "p", "holm", "said"),
    [
        (0.9, 52.0, 0.12, 0.24, "1 row has an interval without 0, but p is 0.05 or more: the interval is an approx"),
        (-0.1, 3.0, 0.04, 0.04, "1 row has an interval with 0, but p is below 0.05: p asks only"),
        (-3.0, -0.1, 0.04, 0.08, "1 row has an interval without 0, but p (Holm) is 0.05 or more: an interval is about"),
        (None, None, 1.0, 1.0, ""),
    ],
)
def test_where_interval_and_p_disagree_a_line_says_why(low, high, p, holm, said):
    found = summary.disagreements(summary.frame([summary.Row("D", "a", "b", "x", 1.0, low, high, 9, p=p, p_holm=holm)]))
    assert [line[: len(said)] for line in found] == ([said] if said else [])
