"""Verbs of several tokens: their queries, and what a user sees of them; `test_main_job` runs them end to end."""

import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.choices import VerbConvention
from negengine.engine.experiments.negation.negation_runs import ScoresRun, SelectionRun
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.experiments.negation.selection_plan import plan_of
from negengine.engine.inference.mixed import SENTENCES, Calibration, Mixed
from negengine.engine.inference.model import Decisions
from negengine.engine.inference.words import repeated_words
from negengine.engine.runs.shard import Shard
from negengine.engine.text.token_ids import Bucket, TokenSequences
from select_and_score import SEVERAL, SINGLE, plan_scores, planned, score, select


@pytest.fixture(scope="module")
def whole(mini, tmp_path_factory):
    """A run with verbs of several tokens and its scores; tests do not change it."""
    return score(plan_scores(mini, select(mini, tmp_path_factory.mktemp("whole") / "run")))


class Narrow:
    """A low-precision model whose decisions are wrong within a margin of 1, and a reference model that is right."""

    def __init__(self, *, is_right):
        self.is_right = is_right
        self.asked = 0

    def decide(self, ids, mask_position, expected, advance=lambda _: None):
        self.asked += len(ids)
        bits = (ids.astype(np.int64) * np.arange(7, 7 + ids.shape[1])).sum(axis=1)
        repeats, is_close = bits % 3 != 0, bits % 5 == 0
        margin = np.where(is_close, 0.5, 10.0) * np.where(repeats, 1, -1)
        if not self.is_right:
            margin = np.where(is_close, -margin, margin)
        found = Decisions.empty(len(ids), "fp32" if self.is_right else "int8")
        found.ids[:, 0] = np.where(margin > 0, expected, expected + 1)
        found.ids[:, 1] = np.where(margin > 0, 1, 2)
        found.logits[:] = np.stack([np.maximum(margin, 0), np.minimum(margin, 0) * 0, margin, margin * 0 + 11], axis=1)
        return found


def test_a_candidate_is_decided_again_if_any_of_its_queries_is_close():
    random = np.random.default_rng(0)
    n, length = 400, 9
    ids = random.integers(10, 1000, (n, length)).astype(np.int32)
    ids[:, 4] = 3
    bucket = Bucket(np.arange(n), ids, np.full(n, 4, np.int32))
    words = TokenSequences.of([random.integers(10, 1000, k).tolist() for k in random.integers(2, 5, n)])
    calibration = Calibration(bias=0.0, deviation=0.2, bound=1.0, never=(), close=0.2, sentences=n)
    reference = Narrow(is_right=True)
    mixed = Mixed(SENTENCES, Narrow(is_right=False), reference, calibration)
    wanted = repeated_words(Narrow(is_right=True), [bucket], words).top1
    found = repeated_words(mixed, [bucket], words)
    assert (found.top1 == wanted).all()
    assert 0 < wanted.sum() < n
    assert 0 < reference.asked < found.queries / 3


# ---------------------------------------------------------------- what a user sees


def test_tables_and_remarks_say_what_is_apart(whole):
    run = ScoresRun.open(whole)
    titles = [table.title for table in run.tables()]
    assert titles == [
        "Selection of triplets: mini, CpTp",
        "Drop of ACT repetition: mini",
        "Selection of triplets: mini, CpTp, verbs of several tokens",
        "Repetition by number of tokens: mini, CpTp",
        "Drop of ACT repetition: mini, verbs of several tokens",
        "Drop by number of tokens: mini",
    ]
    assert "paper" not in [column.heading for table in run.tables()[2:] for column in table.columns]
    assert run.remarks()[1].startswith("Verbs of several tokens, apart from the paper's test: the drops of ")
    selection = SelectionRun.open(whole)
    assert [table.title for table in selection.tables()] == [titles[0], titles[2], titles[3]]
    for rows in (selection.sentences(), run.sentences()):
        masks = rows["sentence"].str.count_matches(r"\[MASK\]")  # one for each token
        assert (masks == rows["tokens"].fill_null(1)).all()
        assert masks.max() > 1
    verbs = dict(run.outcomes().group_by("condition").agg(pl.col("verb").unique()).iter_rows())
    assert set(verbs) == {"pronoun", "pronoun, verbs of several tokens"}
    assert set(verbs["pronoun"]) <= set(SINGLE)


def test_a_changed_run_is_refuted_by_its_recounts(whole):
    run, selection = ScoresRun.open(whole), SelectionRun.open(whole)
    assert not [recount for own in (run, selection) for recount in own.recounts() if recount.wrong]
    run.__dict__["token_rates"] = run.token_rates.with_columns(repetitions=pl.col("repetitions") + 1)
    rows = [{**row, "tested": row["tested"] + 1} for row in selection.summary["by_tokens"]]
    selection.__dict__["summary"] = {**selection.summary, "by_tokens": rows}
    for own in (run, selection):
        assert [recount.wrong for recount in own.recounts() if recount.wrong]


def test_a_plan_says_how_many_sentences_verbs_of_several_tokens_need(mini, tmp_path):
    stage = planned(mini.folder, Selection, Settings(max_verbs=3, verbs=VerbConvention.WHOLE_WORDS))
    work = plan_of(stage, tmp_path / "run", Shard()).work
    assert work["verbs that are one token"] == len(SINGLE)
    assert work["verbs of several tokens"] == len(SEVERAL)
    assert work["verbs of several tokens: sentences, at least"] == 12 * len(SEVERAL)
    assert work["verbs of several tokens: sentences, at most"] > 24 * len(SEVERAL)
    single = planned(mini.folder, Selection, Settings(max_verbs=3))
    for name, value in plan_of(single, tmp_path / "run", Shard()).work.items():
        assert work[name] == value
