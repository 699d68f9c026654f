"""Verbs of several tokens: apart from mono-token verbs, exact against PyTorch, the same bytes in any order of work."""

import json
import pickle
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import negengine as ng
import numpy as np
import polars as pl
import pytest
import torch
from fake_models import FakeScoring, FakeSelection
from negengine.engine.basics.choices import Precision, VerbConvention
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.plan import plan_of
from negengine.engine.experiments.negation.runs import ScoresRun, SelectionRun
from negengine.engine.experiments.negation.score import Scoring, read_selected
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.inference.device import CPU
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.mixed import SENTENCES, Calibration, Mixed
from negengine.engine.inference.model import Decisions
from negengine.engine.inference.words import expand, repeated_words
from negengine.engine.library.registry import publishers
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.merge import merge
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import Lexicon
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.text.token_ids import Bucket, TokenSequences
from small_stages import InterruptedAfter
from transformers import AutoModelForMaskedLM, AutoTokenizer

torch.set_num_threads(1)  # single sentences: threads would wait for each other on a busy machine

MINI = Path(__file__).parents[4] / "export" / "mini"
SINGLE = ("smoke", "dance", "sing", "swim", "walk")
SEVERAL = ("beware", "crackle", "rustle", "pant", "abdicate", "acetify", "alkalize", "ameliorate", "agglomerate")
LEXICON = Lexicon(
    names=("Jessica", "Maria", "John", "Peter"),
    genders=("f", "f", "m", "m"),
    professions=("a dancer", "an architect", "a doctor"),
    verbs=(*SINGLE[:3], *SEVERAL, *SINGLE[3:]),
)
LEXICONS = {
    "all": LEXICON,
    "few": Lexicon(("Jessica", "John"), ("f", "m"), ("a dancer",), ("smoke", "beware", "rustle", "abdicate")),
    "mono-token verbs": Lexicon(("Maria",), ("f",), ("a dancer",), SINGLE),
}
SMALL_PARTS = {"candidates_per_part": 12, "pairs_per_lazy_part": 3}


def execute(stage, folder, *, executor=None, shard=None, earlier=None, precision=Precision.FP32):
    options = Opening(precision=precision)
    execution = Execution(executor or ThisProcess(CPU), options, shard or Shard(), Reporter(silent=True))
    run_stage(stage, folder, execution, earlier=earlier)
    return folder


@cache
def planned(mini_folder, kind, settings, words="all"):
    """A plan is a pure function of what is chosen; to prove its composer takes most of a small run's time."""
    return kind.plan(load_exported(mini_folder), LEXICONS[words], load_patterns(), settings, **SMALL_PARTS)


def run_select(mini, folder, *, kind=FakeSelection, words="all", how=None, **settings):
    chosen = Settings(**{"max_verbs": 3, "verbs": VerbConvention.WHOLE_WORDS, **settings})
    stage = planned(mini.folder, kind, chosen, words)
    return execute(stage, folder, **(how or {}))


def plan_scores(mini, folder, kind=FakeScoring):
    return kind.plan(read_selected(folder), mini, triplets_per_part=5)


def run_score(plan, folder, source=None, **how):
    return execute(plan, folder, earlier={"select": source or folder}, **how)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".parquet"}


def document(folder):
    return json.loads((folder / "selection.json").read_text())


@pytest.fixture(scope="module")
def whole(mini, tmp_path_factory):
    """A run with verbs of several tokens and its scores; tests do not change it."""
    folder = run_select(mini, tmp_path_factory.mktemp("whole") / "run")
    return run_score(plan_scores(mini, folder), folder)


# ---------------------------------------------------------------- what is selected and scored


class PyTorch:
    """One text, one forward pass; nothing of composing, queries or parts."""

    def __init__(self):
        self.tokenizer = AutoTokenizer.from_pretrained(MINI)
        self.model = AutoModelForMaskedLM.from_pretrained(MINI, dtype=torch.float32).eval()
        self.forms = {p.name: f"{p.context} {p.target}" for p in load_patterns().all}

    def greedy(self, pattern, words, k):
        """The tokens that filling k masks one by one gives."""
        text = self.forms[pattern].format(**words, MASK=" ".join(["[MASK]"] * k))
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        found = []
        for position in torch.nonzero(ids[0] == self.tokenizer.mask_token_id).flatten().tolist():
            with torch.inference_mode():
                ids[0, position] = self.model(input_ids=ids).logits[0, position].argmax()
            found.append(int(ids[0, position]))
        return found

    def logprob(self, pattern, words, tokens):
        """The sum of log-probabilities of tokens, filled from left to right."""
        text = self.forms[pattern].format(**words, MASK=" ".join(["[MASK]"] * len(tokens)))
        ids = self.tokenizer(text, return_tensors="pt")["input_ids"]
        total = 0.0
        for position, token in zip(
            (ids[0] == self.tokenizer.mask_token_id).nonzero().flatten().tolist(), tokens, strict=True
        ):
            with torch.inference_mode():
                logits = self.model(input_ids=ids).logits[0, position]
            total += float(torch.log_softmax(logits.double(), 0)[token])
            ids[0, position] = token
        return total


def test_a_slow_pytorch_loop_selects_and_scores_the_same(mini, tmp_path):
    folder = run_select(mini, tmp_path, kind=Selection, words="few", max_verbs=100)
    run_score(plan_scores(mini, folder, Scoring), folder)
    slow = PyTorch()
    wanted = {}
    for name, pronoun in (("Jessica", "She"), ("John", "He")):
        for verb in LEXICONS["few"].verbs:
            tokens = slow.tokenizer(verb, add_special_tokens=False)["input_ids"]
            words = {"NAME": name, "PROF": "a dancer", "ACT": verb, "PRON": pronoun}
            if slow.greedy("CpTp", words, len(tokens)) == tokens:
                wanted[name, verb] = (words, tokens)
    several = pl.read_parquet(folder / "triplets_several_tokens.parquet")
    single = pl.read_parquet(folder / "triplets.parquet")
    for kind, is_several in ((single, False), (several, True)):
        found = set(kind.select("name", "verb").iter_rows())
        assert found == {key for key, (_, tokens) in wanted.items() if (len(tokens) > 1) == is_several}
    assert len(several) > 2
    scores = pl.read_parquet(folder / "scores_several_tokens.parquet").join(several, on="triplet")
    for row in scores.iter_rows(named=True):
        words, tokens = wanted[row["name"], row["verb"]]
        greedy = slow.greedy(row["pattern"], words, len(tokens))
        assert row["tokens"] == len(tokens)
        assert row["repeated"] == (greedy == tokens) == (row["expected_rank"] == 1)
        assert row["expected_logprob"] == pytest.approx(
            slow.logprob(row["pattern"], words, tokens), abs=1e-4 * len(tokens)
        )
        first_wrong = next((i for i in range(len(tokens)) if greedy[i] != tokens[i]), len(tokens) - 1)
        assert row["top1"] == slow.tokenizer.decode(greedy[: first_wrong + 1])


def test_mono_token_verbs_have_the_files_of_a_run_without_the_others(mini, whole, tmp_path):
    folder = run_select(mini, tmp_path, verbs=VerbConvention.IN_CONTEXT)
    run_score(plan_scores(mini, folder), folder)
    found, own = files(whole), files(folder)
    assert {name: found[name] for name in own} == own
    assert set(found) - set(own) == {
        "triplets_several_tokens.parquet",
        "scores_several_tokens.parquet",
        "rates_by_tokens.parquet",
    }
    figures = document(whole)
    assert {name: figures[name] for name in document(folder)} == document(folder)


def test_kinds_are_kept_apart_with_figures_by_number_of_tokens(whole):
    several = pl.read_parquet(whole / "triplets_several_tokens.parquet")
    assert set(several["verb"]) <= set(SEVERAL)
    assert set(pl.read_parquet(whole / "triplets.parquet")["verb"]) <= set(SINGLE)
    assert (several["tokens"] > 1).all()
    assert several.group_by("name", "profession").len()["len"].max() <= 3
    figures = document(whole)
    # A third of all queries repeat (see `fake_models`), so a third of the candidates need a second one.
    assert figures["several_tokens"]["tested"] < figures["several_tokens"]["queries"] < 2 * 12 * len(SEVERAL)
    assert [row["tokens"] for row in figures["by_tokens"]][:2] == [1, 2]
    assert sum(row["verbs"] for row in figures["by_tokens"]) == len(LEXICON.verbs)
    assert figures["by_tokens"][0]["repeating"] == figures["repeating"]
    assert figures["several_tokens"]["verbs"] == len(SEVERAL)
    assert figures["several_tokens"]["tested"] == 12 * len(SEVERAL)
    rates = pl.read_parquet(whole / "rates_by_tokens.parquet")
    several = rates.filter(pl.col("tokens") == "several")
    assert several["pattern"].to_list() == ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"]
    parts = rates.filter(pl.col("tokens") != "several").group_by("pattern").agg(pl.col("n", "repetitions").sum())
    joined = several.join(parts, on="pattern", suffix="_parts")
    assert (joined["n"] == joined["n_parts"]).all()
    assert (joined["repetitions"] == joined["repetitions_parts"]).all()


# ---------------------------------------------------------------- the same bytes in any order of work


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.MIXED])
def test_shards_merge_to_the_bytes_of_the_whole_run(precision, mini, tmp_path):
    how = {"precision": precision}
    run = run_select(mini, tmp_path / "run", how=how)
    run_score(plan_scores(mini, run), run, **how)
    shards = [Shard(index, 3) for index in (3, 1, 2)]
    merged = tmp_path / "merged"
    own = [run_select(mini, tmp_path / f"a{s.index}", how={**how, "shard": s}) for s in shards]
    with suppress(InputError):  # an audit in one shard can ask for a wider margin, and the run decides parts again
        merge(own, merged, publishers())
    run_select(mini, merged, how=how)
    plan = plan_scores(mini, merged)
    own = [run_score(plan, tmp_path / f"b{s.index}", merged, shard=s, **how) for s in shards]
    with suppress(InputError):
        merge(own, merged, publishers())
    run_score(plan, merged, **how)
    assert files(merged) == files(run)
    assert document(merged) == document(run)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_run_interrupted_anywhere_resumes_to_the_same_bytes(lazy, mini, whole, tmp_path):
    for parts in (0, 2, 5):
        with pytest.raises(KeyboardInterrupt):
            run_select(mini, tmp_path, lazy=lazy, how={"executor": InterruptedAfter(parts)})
    run_select(mini, tmp_path, lazy=lazy)
    selected = {name: content for name, content in files(whole).items() if name.startswith(("triplets", "answers"))}
    assert files(tmp_path) == selected
    with pytest.raises(KeyboardInterrupt):
        run_score(plan_scores(mini, tmp_path), tmp_path, executor=InterruptedAfter(3))
    assert files(run_score(plan_scores(mini, tmp_path), tmp_path)) == files(whole)


def test_a_lazy_selection_keeps_the_same_triplets_with_fewer_sentences(mini, tmp_path):
    exhaustive, lazy = (run_select(mini, tmp_path / str(lazy), lazy=lazy, max_verbs=1) for lazy in (False, True))
    assert files(exhaustive) == files(lazy)
    more, fewer = (document(folder)["several_tokens"] for folder in (exhaustive, lazy))
    assert fewer["tested"] < more["tested"]
    assert fewer["queries"] < more["queries"]
    assert fewer["lazy"]["ratio_low"] <= more["ratio"] <= fewer["lazy"]["ratio_high"]


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
    stage = Selection.plan(mini, LEXICON, load_patterns(), settings, **SMALL_PARTS)
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
    stage = Selection.plan(causal, LEXICONS["few"], load_patterns(), settings)
    number, several = next((i, verbs) for i, (verbs, _) in enumerate(stage.parts) if verbs.apart)
    name, profession, verb = several.grid.part_indices(stage.parts[number][1])
    buckets, words = stage.prepare(number)
    asked = {row: [] for row in range(len(words))}
    for group in expand(buckets, words, causal=True):
        for token in range(group.words.widest):
            queries = group.queries(token, np.flatnonzero(group.words.counts > token))
            for row, ids, position, expected in zip(
                queries.rows, queries.ids, queries.mask_position, queries.expected, strict=True
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
    folder = run_select(mini, tmp_path)
    run_score(plan_scores(mini, folder), folder)
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


def test_a_lexicon_without_verbs_of_several_tokens_is_refused(mini):
    with pytest.raises(InputError, match="no verb is of several tokens; use --verbs in-context"):
        run_select(mini, Path("never"), words="mono-token verbs")


def test_runs_with_and_without_verbs_of_several_tokens_do_not_share_a_folder(mini, tmp_path):
    run_select(mini, tmp_path, verbs=VerbConvention.IN_CONTEXT)
    with pytest.raises(InputError, match="verbs in-context, now whole-words"):
        run_select(mini, tmp_path)
