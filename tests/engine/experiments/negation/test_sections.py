"""What a report says about a scored run: the same figures as other code counts."""

import msgspec
import negengine as ng
import polars as pl
import pytest
from negengine.engine.experiments.negation.negation_runs import ScoresRun
from negengine.engine.experiments.negation.negation_views import scored
from negengine.engine.experiments.negation.rates import differences
from pages import drawn_figures


@pytest.fixture(scope="module")
def run(scored_run):
    return ng.open(scored_run)


@pytest.fixture(scope="module")
def between(run):
    return differences(run.items.lazy(), run.selection.triplets.lazy(), run.rates["pattern"].to_list())


@pytest.fixture(scope="module")
def figures(run):
    return drawn_figures(run)


def test_differences_are_those_of_compare_and_have_the_other_sign_the_other_way_round(run, between):
    for row in ng.compare(run).frame.iter_rows(named=True):
        own = between.filter((pl.col("first") == row["first"]) & (pl.col("second") == row["second"])).row(0, named=True)
        assert own["n"] == row["n"]
        assert own["difference"] == pytest.approx(row["difference"])
        assert own["p"] == pytest.approx(row["p"])
        assert (own["low"], own["high"]) == pytest.approx((row["low_two_way"], row["high_two_way"]))
    rows = {(row["first"], row["second"]): row for row in between.iter_rows(named=True)}
    for (first, second), row in rows.items():
        other = rows[second, first]
        assert (other["difference"], other["low"], other["high"]) == (-row["difference"], -row["high"], -row["low"])
        assert (other["only_first"], other["only_second"]) == (row["only_second"], row["only_first"])
        assert row["both"] + row["only_first"] + row["only_second"] + row["neither"] == row["n"]


def test_ranks_quantiles_and_replacements_are_those_of_the_scores(run, figures):
    def shown(figure, pattern):
        return figures[figure].table.frame.filter(pl.col("pattern") == pattern)

    for (pattern,), own in run.items.group_by("pattern"):
        ranks = shown("ranks", pattern)
        assert ranks["n"].sum() == len(own)
        first_five = ranks.filter(pl.col("rank") == "4–5")["cumulative"].item()
        assert first_five == pytest.approx((own["expected_rank"] <= 5).mean())
        median = shown("log-probabilities", pattern)["q50"].item()
        assert median == own["expected_logprob"].cast(pl.Float64).quantile(0.5, "nearest")
        counts = dict(own.filter(~pl.col("repeated"))["top1"].value_counts().iter_rows())
        answers = shown("replacements", pattern)
        assert [counts[answer] for answer in answers["top1"]] == answers["n"].to_list()
        assert answers["n"].to_list() == sorted(counts.values(), reverse=True)[: len(answers)]


def test_rates_by_word_are_those_of_the_scores(run, figures):
    items = run.items.join(run.selection.triplets, on="triplet").filter(pl.col("pattern") != "CpTp")
    for word in ("verb", "profession", "name"):
        expected = items.group_by("pattern", word).agg(rate=pl.col("repeated").mean(), n=pl.len().cast(pl.Int64))
        shown = figures[f"by-{word}"].table.frame
        both = shown.join(expected, on=["pattern", word], suffix="_counted")
        assert len(both) == len(shown) > 0
        assert both["rate"].to_list() == pytest.approx(both["rate_counted"].to_list())
        assert both["n"].to_list() == both["n_counted"].to_list()
    by_gender = figures["by-gender"].table.frame
    assert by_gender["n"].sum() == len(items)


def test_the_share_of_other_tokens_with_the_verbs_text_is_told(run):
    n = dict(run.rates.select("pattern", "n").iter_rows())["CpTn"]
    named = {"CpTn: other token with the verb's text": n}
    done = msgspec.structs.replace(run.record.done, counts={**run.record.counts, **named})
    found = ScoresRun(run.folder, msgspec.structs.replace(run.record, done=done))
    assert run.remarks() == [run.reading] == [scored(run)[0].sentences[0]]
    assert found.remarks()[-1] == (
        "The first choice reads like the verb but is another token, and is not counted: CpTn 100.0 %."
    )
