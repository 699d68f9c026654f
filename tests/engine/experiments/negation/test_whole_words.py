"""Verbs of several tokens: their queries, and what a user sees of them; `test_main_job` runs them end to end."""

import pickle
from dataclasses import replace

import negengine as ng
import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.choices import VerbConvention
from negengine.engine.experiments.negation.negation_runs import ScoresRun, SelectionRun
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.experiments.negation.selection_plan import plan_of
from negengine.engine.inference.mixed import SENTENCES, Calibration, Mixed
from negengine.engine.inference.model import Decisions
from negengine.engine.inference.words import expand, repeated_words
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import Lexicon
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.token_ids import Bucket, TokenSequences
from select_and_score import SEVERAL, SINGLE, plan_scores, planned, score, select

FEW = Lexicon(("Jessica", "John"), ("f", "m"), ("a dancer",), ("smoke", "beware", "rustle", "abdicate"))


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


def test_stages_travel_to_other_processes(mini):
    settings = Settings(max_verbs=3, verbs=VerbConvention.WHOLE_WORDS)
    stage = planned(mini.folder, Selection, settings)
    there = pickle.loads(pickle.dumps(stage))  # noqa: S301 - our own
    assert there.identity == stage.identity
    last = len(stage.sizes) - 1
    (buckets, _), (others, _) = stage.prepare(last), there.prepare(last)
    for one, other in zip(buckets, others, strict=True):
        assert (one.ids == other.ids).all()


def test_queries_of_a_causal_model_are_the_growing_text(mini):
    """The tokenizer of the bundled model, read as that of a causal one; no model is opened."""
    causal = replace(mini, task="text-generation")
    settings = Settings(verbs=VerbConvention.WHOLE_WORDS)
    stage = Selection.plan(causal, FEW, load_patterns(), settings)
    number, several = next((i, verbs) for i, (verbs, _) in enumerate(stage.parts) if verbs.apart)
    name, profession, verb = several.grid.part_indices(stage.parts[number][1])
    buckets, words = stage.prepare(number)
    asked = {row: [] for row in range(len(words))}
    for group in expand(buckets, words, causal=True):
        for token in range(group.words.widest):
            bucket, expects = group.queries(token, np.flatnonzero(group.words.counts > token))
            for row, ids, position, expected in zip(
                bucket.rows, bucket.ids, bucket.mask_position, expects, strict=True
            ):
                asked[row].append([*ids[:position].tolist(), int(expected)])
    for row, texts in asked.items():
        slots = {slot: own.word(int(name[row]), int(profession[row])) for slot, own in stage.fillers.items()}
        text = stage.lexicon.verbs[several.index[verb[row]]]
        whole = load_patterns().selecting.text({**slots, "ACT": text}, text)
        ids = causal.tokenizer.backend.encode(whole).ids[:-2]  # without the full stop and [SEP]
        assert texts == [ids[: len(ids) - len(texts) + i + 1] for i in range(len(texts))]
    assert max(map(len, asked.values())) > 1


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
    assert [table.title for table in SelectionRun.open(whole).tables()] == [titles[0], titles[2], titles[3]]


def test_sentences_have_a_mask_for_each_token(whole):
    for run in (SelectionRun.open(whole), ScoresRun.open(whole)):
        rows = run.sentences()
        masks = rows["sentence"].str.count_matches(r"\[MASK\]")
        assert (masks == rows["tokens"].fill_null(1)).all()
        assert masks.max() > 1


def test_outcomes_of_verbs_of_several_tokens_have_a_condition_of_their_own(whole):
    outcomes = ScoresRun.open(whole).outcomes()
    verbs = dict(outcomes.group_by("condition").agg(pl.col("verb").unique()).iter_rows())
    assert set(verbs) == {"pronoun", "pronoun, verbs of several tokens"}
    assert set(verbs["pronoun"]) <= set(SINGLE)


def test_recounts_confirm_a_run_and_refute_a_changed_one(whole):
    for run in (SelectionRun.open(whole), ScoresRun.open(whole)):
        found = list(run.recounts())
        assert not [recount.wrong for recount in found if recount.wrong]
        assert any(recount.what.startswith("verbs of several tokens: ") for recount in found)
    run = ScoresRun.open(whole)
    run.__dict__["token_rates"] = run.token_rates.with_columns(repetitions=pl.col("repetitions") + 1)
    assert [recount.wrong for recount in run.recounts() if recount.wrong]
    selection = SelectionRun.open(whole)
    summary = selection.summary
    rows = [{**row, "tested": row["tested"] + 1} for row in summary["by_tokens"]]
    selection.__dict__["summary"] = {**summary, "by_tokens": rows}
    assert [recount.wrong for recount in selection.recounts() if recount.wrong]


def test_verify_makes_the_tables_again_also_without_parts(mini, tmp_path):
    folder = score(plan_scores(mini, select(mini, tmp_path)))
    for name in ("select", "score"):
        for part in (folder / "parts" / name).iterdir():
            part.unlink()
    found = ng.verify(folder, sample=0)
    assert not found.damage
    made_again = {check.of: check.n for check in found.checks if check.what.startswith("tables follow from")}
    kinds = {"select": "triplets", "score": "scores"}
    assert made_again == {
        stage: sum(len(pl.read_parquet(path)) for path in folder.glob(f"{name}*.parquet"))
        for stage, name in kinds.items()
    }


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
