"""Select and score from end to end: against a slow PyTorch loop, and however the run is cut, batched or interrupted."""

import json
from functools import cache
from pathlib import Path

import polars as pl
import pytest
import torch
from fake_models import LEXICON, FakeScoring, FakeSelection, NeverSelection
from hypothesis import given, settings
from hypothesis import strategies as st
from negengine.engine.basics.choices import Coreference, Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.score import Scoring, read_selected
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.inference.device import CPU
from negengine.engine.inference.exported import load_exported
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.merge import merge
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import Lexicon
from negengine.engine.text.pattern_files import load_patterns
from small_stages import InterruptedAfter
from transformers import AutoModelForMaskedLM, AutoTokenizer

pytestmark = pytest.mark.long

MINI = Path(__file__).parents[2] / "export" / "mini"
SMALL_PARTS = {"candidates_per_part": 12, "pairs_per_lazy_part": 3}  # one pair, or three
PUBLISHERS = {"select": Selection.publish, "score": Scoring.publish}


def execute(stage, folder, *, executor=None, shard=None, earlier=None, **options):
    execution = Execution(
        executor or ThisProcess(CPU),
        Opening(**{"precision": Precision.FP32, **options}),
        shard or Shard(),
        Reporter(silent=True),
    )
    run_stage(stage, folder, execution, earlier=earlier)
    return folder


@cache
def plan_selection(mini_folder, kind, chosen):
    """A plan is a pure function of what is chosen; to prove its composer takes most of a small run's time."""
    return kind.plan(load_exported(mini_folder), LEXICON, load_patterns(), chosen, **SMALL_PARTS)


def run_select(mini, folder, *, kind=FakeSelection, how=None, **settings):
    chosen = Settings(**{"max_verbs": 3, **settings})
    return execute(plan_selection(mini.folder, kind, chosen), folder, **(how or {}))


def plan_scores(mini, folder, kind=FakeScoring):
    return kind.plan(read_selected(folder), mini, triplets_per_part=7)


def run_score(plan, output=None, **how):
    source = plan.selected.folder
    return execute(plan, output or source, earlier={"select": source}, **how)


def triplets(folder) -> pl.DataFrame:
    return pl.read_parquet(folder / "triplets.parquet")


def words(folder) -> set[tuple[str, ...]]:
    return set(triplets(folder).select("name", "profession", "verb").iter_rows())


def summary(folder) -> dict:
    return json.loads((folder / "selection.json").read_text())


def files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


@pytest.fixture
def one_torch_thread():
    """Threads that wait for each other on a busy machine make single sentences ten times as slow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_torch_thread")
def test_a_slow_pytorch_loop_gives_the_same_selection_and_the_same_rates(mini, tmp_path):
    """The reference knows nothing of composing, slices, parts or ONNX: one sentence, one forward pass."""
    tokenizer = AutoTokenizer.from_pretrained(MINI)
    model = AutoModelForMaskedLM.from_pretrained(MINI, dtype=torch.float32).eval()
    forms = {p.name: (p.context, p.target) for p in load_patterns().all}

    def top1(pattern, name, profession, pronoun, verb):
        text = " ".join(forms[pattern]).format(
            NAME=name, PROF=profession, ACT=verb, PRON=pronoun.capitalize(), MASK="[MASK]"
        )
        inputs = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            logits = model(**inputs).logits[0]
        return tokenizer.convert_ids_to_tokens(int(logits[inputs["input_ids"][0] == tokenizer.mask_token_id].argmax()))

    pronouns = {"f": "she", "m": "he"}
    people = list(zip(LEXICON.names, LEXICON.genders, strict=True))[1:3]
    lexicon = Lexicon(tuple(n for n, _ in people), tuple(g for _, g in people), LEXICON.professions[:2], LEXICON.verbs)
    repeating = {
        (name, profession, verb)
        for name, gender in people
        for profession in lexicon.professions
        for verb in lexicon.verbs
        if len(tokenizer.tokenize(verb)) == 1 and top1("CpTp", name, profession, pronouns[gender], verb) == verb
    }
    run = execute(Selection.plan(mini, lexicon, load_patterns(), Settings(max_verbs=100), **SMALL_PARTS), tmp_path)
    assert words(run) == repeating
    assert (summary(run)["repeating"], summary(run)["selected"]) == (len(repeating), len(repeating))
    assert summary(run)["verbs"] == sum(len(tokenizer.tokenize(verb)) == 1 for verb in lexicon.verbs)

    run_score(plan_scores(mini, run, Scoring))
    scores, rates = pl.read_parquet(run / "scores.parquet"), pl.read_parquet(run / "rates.parquet")
    for pattern in forms:
        rows = triplets(run).select("name", "profession", "pronoun", "verb").iter_rows()
        guesses = [top1(pattern, *row) for row in rows]
        ours = scores.filter(pl.col("pattern") == pattern).sort("triplet")
        assert ours["top1"].to_list() == guesses
        repeated = [guess == verb for guess, verb in zip(guesses, triplets(run)["verb"], strict=True)]
        assert ours["repeated"].to_list() == repeated
        row = rates.row(by_predicate=pl.col("pattern") == pattern, named=True)
        assert row["repetitions"] == sum(repeated)
        assert row["drop"] == pytest.approx(100 - 100 * sum(repeated) / len(repeated))


# ---------------------------------------------------------------- cut, interrupted, batched


@pytest.fixture(scope="module")
def whole(mini, tmp_path_factory):
    """A run that nothing disturbed, with its scores."""
    return run_score(plan_scores(mini, run_select(mini, tmp_path_factory.mktemp("whole") / "run")))


@settings(max_examples=2)
@given(count=st.integers(2, 14), order=st.randoms(use_true_random=False))
def test_shards_merge_to_the_bytes_of_the_whole_run(mini, whole, tmp_path_factory, count, order):
    """Also where there are more shards than parts: 12 parts of the selection, 6 of the scores."""
    base = tmp_path_factory.mktemp("shards")
    shards = [Shard(index, count) for index in range(1, count + 1)]
    order.shuffle(shards)
    merge(
        [run_select(mini, base / f"select-{shard.index}", how={"shard": shard}) for shard in shards],
        base / "merged",
        PUBLISHERS,
    )
    plan = plan_scores(mini, base / "merged")
    merge(
        [run_score(plan, base / f"score-{shard.index}", shard=shard) for shard in shards], base / "merged", PUBLISHERS
    )
    assert files(base / "merged") == files(whole)


@settings(max_examples=4)
@given(stops=st.lists(st.integers(0, 6), min_size=1, max_size=3), lazy=st.booleans())
def test_a_run_interrupted_anywhere_resumes_to_the_same_bytes(mini, whole, tmp_path_factory, stops, lazy):
    folder = tmp_path_factory.mktemp("interrupted") / "run"
    for parts in stops:
        try:
            run_select(mini, folder, how={"executor": InterruptedAfter(parts)}, lazy=lazy)
        except KeyboardInterrupt:
            continue
    run_select(mini, folder, lazy=lazy)
    assert triplets(folder).equals(triplets(whole))
    assert files(folder)["triplets.parquet"] == files(whole)["triplets.parquet"]


def test_scores_interrupted_anywhere_resume_to_the_same_bytes(mini, whole, tmp_path):
    plan = plan_scores(mini, whole)
    assert len(plan.parts) > 3
    for parts in range(len(plan.parts)):
        with pytest.raises(KeyboardInterrupt):
            run_score(plan, tmp_path / str(parts), executor=InterruptedAfter(parts))
        run_score(plan, tmp_path / str(parts))
        assert files(tmp_path / str(parts)) == files(whole)


def test_batch_size_does_not_change_the_triplets_of_the_bundled_model(mini, tmp_path):
    for tokens in (17, 300, 100_000):
        run_select(mini, tmp_path / str(tokens), kind=Selection, how={"batch_tokens": tokens}, pairs=2)
    assert files(tmp_path / "17") == files(tmp_path / "300") == files(tmp_path / "100000")


# ---------------------------------------------------------------- what is selected


def test_every_coreference_variant_selects_and_scores(mini, tmp_path):
    for coreference in Coreference:
        run = run_score(plan_scores(mini, run_select(mini, tmp_path / coreference, coreference=coreference)))
        same = (triplets(run)["name"] == triplets(run)["pronoun"]).to_list()
        assert all(same) if coreference is Coreference.SAME_NAME else not any(same)
        assert pl.read_parquet(run / "rates.parquet")["pattern"].to_list() == ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"]


def test_the_kept_verbs_depend_on_the_seed_and_on_no_other_pair(mini, whole, tmp_path):
    """So a sample of pairs gives a part of what a larger one gives."""
    few, more = (words(run_select(mini, tmp_path / str(n), pairs=n)) for n in (3, 7))
    assert few < more < words(whole)
    assert words(run_select(mini, tmp_path / "other", seed=1)) != words(whole)


def test_at_most_max_verbs_of_a_pair_are_kept(mini, tmp_path):
    run = run_select(mini, tmp_path, max_verbs=2)
    kept = triplets(run)
    assert kept.group_by("name", "profession").len()["len"].max() == 2
    assert summary(run)["repeating"] > summary(run)["selected"] == len(kept)
    assert kept["triplet"].to_list() == list(range(len(kept)))


def test_a_lazy_selection_gives_the_same_triplets_with_fewer_sentences(mini, tmp_path):
    whole, lazy = (run_select(mini, tmp_path / str(lazy), lazy=lazy, max_verbs=1) for lazy in (False, True))
    assert files(whole) == files(lazy)
    assert summary(lazy)["tested"] < summary(whole)["tested"] / 2
    assert summary(lazy)["lazy"]["candidates"] == summary(whole)["tested"]
    assert summary(lazy)["lazy"]["ratio_low"] <= summary(whole)["ratio"] <= summary(lazy)["lazy"]["ratio_high"]


def test_a_lazy_selection_is_calibrated_for_what_it_will_run(mini):
    """Some verbs of each pair, not the whole grid; and never more than the grid.

    The audit is for the fewest tests that a share of repetitions allows: if all verbs repeat, as many as are kept.
    """
    totals = []
    for max_verbs in (2, 100):
        settings = Settings(lazy=True, max_verbs=max_verbs)
        (work,) = Selection.plan(mini, LEXICON, load_patterns(), settings).workloads()
        totals.append((work.total, work.at_least(1.0), work.at_least(0.0)))
    assert totals == [(2 * 2 * 12, 2 * 12, 12 * 12), (12 * 12, 12 * 12, 12 * 12)]


# ---------------------------------------------------------------- refused


def test_a_run_made_otherwise_is_refused_with_the_difference(mini, tmp_path):
    before = files(run_select(mini, tmp_path))
    for change, told in (({"seed": 1}, "seed 0, now 1"), ({"max_verbs": 5}, "max verbs 3, now 5")):
        with pytest.raises(InputError, match=told):
            run_select(mini, tmp_path, **change)
    assert files(tmp_path) == before


def test_numbers_below_the_smallest_are_refused():
    with pytest.raises(InputError, match="--seed -1: give a number from 0"):
        Settings(seed=-1)
    with pytest.raises(InputError, match="--max-verbs 0: give a number from 1"):
        Settings(max_verbs=0)


def test_scoring_an_unfinished_selection_is_refused(mini, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run_select(mini, tmp_path, how={"executor": InterruptedAfter(2)})
    with pytest.raises(InputError, match="select is not finished"):
        read_selected(tmp_path)


def test_a_model_that_repeats_nothing_leaves_nothing_to_score(mini, tmp_path):
    assert summary(run_select(mini, tmp_path, kind=NeverSelection))["selected"] == 0
    with pytest.raises(InputError, match="nothing to score"):
        read_selected(tmp_path)


def test_another_model_at_the_place_of_the_first_is_refused(mini, whole, tmp_path, monkeypatch):
    selected = read_selected(whole)
    assert selected.exported().sha256 == mini.sha256
    monkeypatch.setitem(selected.metadata, "model sha256", "0" * 64)
    with pytest.raises(InputError, match="is not the model that selected"):
        selected.exported()
    monkeypatch.setitem(selected.metadata, "model folder", str(tmp_path / "gone"))
    with pytest.raises(InputError, match="give --model"):
        selected.exported()


def test_a_pattern_longer_than_the_model_takes_is_refused_before_a_model_is_opened(mini, tmp_path):
    long = " ".join(["so"] * 600)
    (tmp_path / "long.toml").write_text(
        f'name = "long"\n[[pattern]]\nname = "L"\nrole = "selecting"\n'
        f'context = "{{NAME}} is {{PROF}} who likes to {{ACT}}."\ntarget = "{{PRON}} is {long} happy to {{MASK}}."\n'
    )
    plan = Selection.plan(mini, LEXICON, load_patterns(tmp_path / "long.toml"))
    with pytest.raises(InputError, match=r"L: 6\d\d tokens, but mini takes at most 512: shorten it"):
        execute(plan, tmp_path / "run")
