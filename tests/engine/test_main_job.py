"""Select and score from end to end: against a slow PyTorch loop, and however the run is cut, batched or interrupted."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from negengine.engine.errors import InputError
from negengine.engine.inference.device import CPU
from negengine.engine.inference.model import Decisions, MaskedLM
from negengine.engine.negation import score, select
from negengine.engine.negation.grid import Coreference
from negengine.engine.runs.folder import Shard
from negengine.engine.runs.merge import merge
from negengine.engine.sentences.lexicon import Lexicon
from negengine.engine.sentences.patterns import load_patterns
from transformers import AutoModelForMaskedLM, AutoTokenizer

MINI = Path(__file__).parents[2] / "export" / "mini"
LEXICON = Lexicon(
    names=("Jessica", "Maria", "John", "Peter"),
    genders=("f", "f", "m", "m"),
    professions=("a dancer", "an architect", "a doctor"),
    verbs=("smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt", "dig", "laugh", "agree", "cook"),
)


class HashDecider:
    """A model that is a pure function of the sentence: quick, and the same in every batch."""

    def decide(self, ids, mask_position, expected):  # noqa: ARG002
        weights = np.arange(1, ids.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        noise = (ids.astype(np.uint64) * weights).sum(axis=1)
        repeats = (noise >> np.uint64(20)) % np.uint64(3) == 0
        decisions = Decisions.empty(len(ids))
        decisions.ids[:, 0] = np.where(repeats, expected, expected + 1)
        decisions.ids[:, 1] = np.where(repeats, 1, 2)
        decisions.logits[:] = np.where(repeats[:, None], [2, 1, 2, 3], [2, 1, 1, 3])
        return decisions


class InterruptedDecider(HashDecider):
    """Ctrl-C after a number of calls."""

    def __init__(self, calls):
        self.calls = calls

    def decide(self, ids, mask_position, expected):
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return super().decide(ids, mask_position, expected)


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of one pair, or of 7 triplets, so that a small run has many."""
    monkeypatch.setattr(select, "_CANDIDATES_PER_PART", 12)
    monkeypatch.setattr(select, "_PAIRS_PER_LAZY_PART", 3)
    monkeypatch.setattr(score, "_TRIPLETS_PER_PART", 7)


def run_select(mini, folder, *, decider=None, shard=None, **settings):
    settings = {"max_verbs": 3, **settings}
    plan = select.plan(mini, LEXICON, load_patterns(), select.Settings(**settings))
    return select.select(plan, decider or HashDecider(), folder, shard=shard, session={})


def run_score(mini, folder, *, decider=None, output=None, shard=None):
    plan = score.plan(score.read_selected(folder), mini)
    deciders = {pattern.pattern.name: decider or HashDecider() for pattern in plan.patterns}
    return score.score(plan, deciders, output or folder, shard=shard, session={})


def files(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


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
    plan = select.plan(mini, lexicon, load_patterns(), select.Settings(max_verbs=100))
    summary = select.select(plan, MaskedLM(mini, CPU), tmp_path / "run", session={})
    triplets = pl.read_parquet(tmp_path / "run" / "triplets.parquet")
    assert set(triplets.select("name", "profession", "verb").iter_rows()) == repeating
    assert (summary["repeating"], summary["selected"]) == (len(repeating), len(repeating))
    assert summary["verbs"] == sum(len(tokenizer.tokenize(verb)) == 1 for verb in lexicon.verbs)

    rates = run_score(mini, tmp_path / "run", decider=MaskedLM(mini, CPU))
    scores = pl.read_parquet(tmp_path / "run" / "scores.parquet")
    for pattern in forms:
        guesses = [top1(pattern, *row) for row in triplets.select("name", "profession", "pronoun", "verb").iter_rows()]
        ours = scores.filter(pl.col("pattern") == pattern).sort("triplet")
        assert ours["top1"].to_list() == guesses
        repeated = [guess == verb for guess, verb in zip(guesses, triplets["verb"], strict=True)]
        assert ours["repeated"].to_list() == repeated
        row = rates.row(by_predicate=pl.col("pattern") == pattern, named=True)
        assert row["repetitions"] == sum(repeated)
        assert row["drop"] == pytest.approx(100 - 100 * sum(repeated) / len(repeated))


@settings(max_examples=6)
@given(count=st.integers(1, 5), order=st.randoms(use_true_random=False))
def test_shards_merge_to_the_bytes_of_the_whole_run(mini, tmp_path_factory, count, order):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "_CANDIDATES_PER_PART", 12)
        patch.setattr(score, "_TRIPLETS_PER_PART", 7)
        base = tmp_path_factory.mktemp("shards")
        run_select(mini, base / "whole")
        run_score(mini, base / "whole")
        shards = [Shard(index, count) for index in range(1, count + 1)]
        order.shuffle(shards)
        if count == 1:
            return
        for shard in shards:
            assert run_select(mini, base / f"select-{shard.index}", shard=shard) is None
        merge([base / f"select-{shard.index}" for shard in shards], base / "merged")
        for shard in shards:
            run_score(mini, base / "merged", output=base / f"score-{shard.index}", shard=shard)
        merge([base / f"score-{shard.index}" for shard in shards], base / "merged")
        assert files(base / "merged") == files(base / "whole")


@settings(max_examples=10)
@given(stops=st.lists(st.integers(0, 6), min_size=1, max_size=4), lazy=st.booleans())
def test_a_run_interrupted_anywhere_resumes_to_the_same_bytes(mini, tmp_path_factory, stops, lazy):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "_CANDIDATES_PER_PART", 12)
        patch.setattr(select, "_PAIRS_PER_LAZY_PART", 3)
        base = tmp_path_factory.mktemp("interrupted")
        run_select(mini, base / "whole")
        for calls in stops:
            try:
                run_select(mini, base / "cut", decider=InterruptedDecider(calls), lazy=lazy)
            except KeyboardInterrupt:
                continue
        run_select(mini, base / "cut", lazy=lazy)
        assert files(base / "cut") == files(base / "whole")


@pytest.mark.parametrize("coreference", Coreference)
def test_every_coreference_variant_selects_and_scores(coreference, mini, tmp_path):
    run_select(mini, tmp_path, coreference=coreference)
    rates = run_score(mini, tmp_path)
    triplets = pl.read_parquet(tmp_path / "triplets.parquet")
    same = (triplets["name"] == triplets["pronoun"]).to_list()
    assert all(same) if coreference is Coreference.SAME_NAME else not any(same)
    assert rates["pattern"].to_list() == ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"]


def test_batch_size_does_not_change_the_triplets_of_the_bundled_model(mini, tmp_path):
    for tokens in (17, 300, 100_000):
        run_select(mini, tmp_path / str(tokens), decider=MaskedLM(mini, CPU, batch_tokens=tokens), pairs=2)
    assert files(tmp_path / "17") == files(tmp_path / "300") == files(tmp_path / "100000")


def test_another_sample_of_pairs_is_part_of_a_larger_one(mini, tmp_path):
    few, more = (
        set(pl.read_parquet(tmp_path / str(n) / "triplets.parquet").select("name", "profession", "verb").iter_rows())
        for n in (3, 7)
        if run_select(mini, tmp_path / str(n), pairs=n)
    )
    assert few < more


def test_the_kept_verbs_depend_on_the_seed_and_on_no_other_pair(mini, tmp_path):
    run_select(mini, tmp_path / "all")
    run_select(mini, tmp_path / "some", pairs=4)
    run_select(mini, tmp_path / "other", seed=1)
    everything, some, other = (
        pl.read_parquet(tmp_path / name / "triplets.parquet") for name in ("all", "some", "other")
    )
    keys = ["name", "profession", "verb"]
    assert set(some.select(keys).iter_rows()) < set(everything.select(keys).iter_rows())
    assert set(other.select(keys).iter_rows()) != set(everything.select(keys).iter_rows())


def test_at_most_max_verbs_of_a_pair_are_kept(mini, tmp_path):
    summary = run_select(mini, tmp_path, max_verbs=2)
    triplets = pl.read_parquet(tmp_path / "triplets.parquet")
    assert triplets.group_by("name", "profession").len()["len"].max() == 2
    assert summary["repeating"] > summary["selected"] == len(triplets)
    assert triplets["triplet"].to_list() == list(range(len(triplets)))


@pytest.mark.parametrize(("change", "told"), [({"seed": 1}, "seed 0, now 1"), ({"max_verbs": 5}, "max verbs 3, now 5")])
def test_a_run_made_otherwise_is_refused_with_the_difference(change, told, mini, tmp_path):
    run_select(mini, tmp_path)
    before = files(tmp_path)
    with pytest.raises(InputError, match=told):
        run_select(mini, tmp_path, **change)
    assert files(tmp_path) == before


def test_scoring_an_unfinished_selection_is_refused(mini, tmp_path, small_parts):
    with pytest.raises(KeyboardInterrupt):
        run_select(mini, tmp_path, decider=InterruptedDecider(2))
    with pytest.raises(InputError, match="select is not finished"):
        score.read_selected(tmp_path)


def test_a_model_that_repeats_nothing_leaves_nothing_to_score(mini, tmp_path):
    class Never(HashDecider):
        def decide(self, ids, mask_position, expected):
            decisions = super().decide(ids, mask_position, expected)
            decisions.ids[:, 0] = expected + 1
            return decisions

    assert run_select(mini, tmp_path, decider=Never())["selected"] == 0
    with pytest.raises(InputError, match="nothing to score"):
        score.read_selected(tmp_path)


def test_another_model_at_the_place_of_the_first_is_refused(mini, tmp_path, monkeypatch):
    run_select(mini, tmp_path)
    selected = score.read_selected(tmp_path)
    assert selected.exported().sha256 == mini.sha256
    monkeypatch.setitem(selected.facts, "model sha256", "0" * 64)
    with pytest.raises(InputError, match="is not the model that selected"):
        selected.exported()
    monkeypatch.setitem(selected.facts, "model folder", str(tmp_path / "gone"))
    with pytest.raises(InputError, match="give --model"):
        selected.exported()


def test_a_pattern_longer_than_the_model_takes_is_refused(mini, tmp_path):
    words = " ".join(["very"] * 600)
    (tmp_path / "long.toml").write_text(
        f'name = "long"\n[[pattern]]\nname = "L"\nrole = "selecting"\n'
        f'context = "{{NAME}} is {{PROF}} who likes to {{ACT}}."\ntarget = "{{PRON}} is {words} happy to {{MASK}}."\n'
    )
    with pytest.raises(InputError, match=r"L: a sentence has 6\d\d tokens, mini takes 512"):
        select.plan(mini, LEXICON, load_patterns(tmp_path / "long.toml"))
