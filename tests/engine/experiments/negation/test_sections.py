"""What a report says about a scored run, the same figures as other code counts; the sentences of its rows."""

import negengine as ng
import polars as pl
import pytest
from negengine.engine.experiments.negation import negation_views
from negengine.engine.experiments.negation.negation_runs import ScoresRun
from negengine.engine.experiments.negation.triplet_sentences import scored_sentences
from negengine.engine.text.pattern_files import load_patterns
from pages import drawn_figures

ENDS = ("drop_low_two_way", "drop_high_two_way")


@pytest.fixture(scope="module")
def run(scored_run):
    return ng.open(scored_run)


@pytest.fixture(scope="module")
def frames(run):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(negation_views, "TOP", 2)  # a model of few words gives fewer answers than are shown otherwise
        return {name: figure.table.frame for name, figure in drawn_figures(run).items()}


def test_a_figure_has_one_interval_wherever_it_stands(run, frames):
    """In the table of rates, the report's figure, and `compare`; the selecting pattern has no error."""
    rates = run.rates.filter(pl.col("pattern") != "CpTp").select("pattern", *ENDS)
    drops = frames["drops"].filter(pl.col("pattern") != "CpTp").select("pattern", *ENDS)
    compared = ng.by_group(run, by="dataset").frame.select("split", "drop_low", "drop_high")
    for found in (drops, compared):
        assert sorted(row[0] for row in found.rows()) == sorted(row[0] for row in rates.rows())
        wanted = {row[0]: pytest.approx(row[1:]) for row in rates.rows()}
        assert {row[0]: row[1:] for row in found.rows()} == wanted
    [interval] = [column for column in run.tables()[1].columns if column.low]
    assert (interval.low, interval.high) == ENDS


def test_ranks_and_replacements_are_those_of_the_scores(run, frames):
    for (pattern,), own in run.items.group_by("pattern"):
        shown = {name: frames[name].filter(pattern=pattern) for name in ("ranks", "replacements")}
        assert shown["ranks"]["n"].sum() == len(own)
        upto_five = shown["ranks"].filter(rank="4–5")["cumulative"].item()
        assert upto_five == pytest.approx((own["expected_rank"] <= 5).mean())
        counts = dict(own.filter(~pl.col("repeated"))["top1"].value_counts().iter_rows())
        answers = dict(shown["replacements"].select("top1", "n").iter_rows())
        assert answers.items() <= counts.items()
        assert list(answers.values()) == sorted(counts.values(), reverse=True)[:2]


def test_every_score_is_one_sentence_with_its_answer_that_fails_where_the_negation_forbids_it(scored_run, selected_run):
    run = ScoresRun.open(scored_run)
    run.selection.record.metadata["model folder"] = "/gone"  # no model is needed
    sentences = run.sentences()
    columns = ["item", "condition", "sentence", "expected", "answer", "repeated", "failed", "rank", "logprob"]
    assert sentences.columns[: len(columns)] == columns
    kept = {"item": "triplet", "condition": "pattern", "answer": "top1", "rank": "expected_rank"}
    kept |= {"repeated": "repeated", "logprob": "expected_logprob", "answer_logprob": "top1_logprob"}
    found = sentences.select(**{there: here for here, there in kept.items()}).sort("triplet", "pattern")
    assert found.equals(run.items.select(kept.values()).sort("triplet", "pattern"))
    words = ("name", "profession", "verb", pl.col("pronoun").str.to_titlecase())
    wanted = pl.format("{} is {} who doesn't like to {}. {} is happy to [MASK].", *words)
    shown = sentences.filter(condition="CnTp").with_columns(wanted=wanted)
    assert shown["sentence", "expected"].rows() == shown["wanted", "verb"].rows()
    forbidden, triplets = pl.col("role") == "forbidden", run.selection.triplets
    fails = pl.when(pl.col("role") != "control").then(pl.col("repeated") == forbidden)  # in a control nothing is wrong
    assert sentences.select(pl.col("failed").eq_missing(fails).all()).item()
    # As if the target was about another person: nothing is forbidden.
    pieces = scored_sentences([run.items.lazy()], triplets.lazy(), load_patterns(), "other-gender", "[MASK]")
    rows = pl.concat(pieces).collect()
    assert rows.select((pl.col("failed").is_null() == (pl.col("role") != "selecting")).all()).item()
    rows, unknown = ng.open(selected_run).sentences(), ("logprob", "answer_logprob", "precision")
    assert rows.columns == sentences.columns
    assert rows.select(unknown).null_count().row(0) == (len(rows),) * 3
    assert rows.drop(unknown).equals(sentences.filter(condition="CpTp").drop(unknown))
