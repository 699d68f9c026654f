"""The Self-Contained Negation Test on a causal model: verbs of one and of several tokens, up to the verification."""

import negengine as ng
import numpy as np
import polars as pl
import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.text.pattern_files import load_patterns
from transformers import AutoModelForCausalLM, AutoTokenizer

VERBS = ["smoke", "smoked", "danced", "dance", "unsung"]
FILES = ("triplets.parquet", "triplets_several_tokens.parquet")


@pytest.fixture(scope="module")
def lexicon(small_lexicon, tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    for path in small_lexicon.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "verbs.txt").write_text("".join(f"{verb}\n" for verb in VERBS), "utf-8")
    return folder


@pytest.fixture(scope="module")
def select(causal, lexicon, tmp_path_factory):
    """Selects with a model that continues every text with `smoked`, which is two of its tokens."""

    def run(precision="fp32", **options):
        model = ng.load(causal("gpt2", "smoked").folder, device="cpu", precision=precision)
        options = {"lexicon": lexicon, "verbs": "whole-words", "progress": False, **options}
        return ng.select(model, output=tmp_path_factory.mktemp("runs") / "run", **options)

    return run


@pytest.fixture(scope="module")
def model(causal):
    return ng.load(causal("gpt2", "smoked").folder, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def scored(select):
    return ng.score(select(), progress=False)


@pytest.fixture(scope="module")
def logprobs(causal_checkpoint, one_thread):
    """PyTorch: a text and a word → the word's tokens, and the log-probabilities before each of them, float64 [k, V]."""
    folder = causal_checkpoint("gpt2", "smoked")
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()

    @torch.inference_mode()
    def rows(before, word):
        context, tokens = tokenizer(before)["input_ids"], tokenizer(f" {word}")["input_ids"]
        logits = network(input_ids=torch.tensor([context + tokens])).logits[0, len(context) - 1 : -1]
        return tokens, logits.double().log_softmax(-1).numpy()

    return rows


def test_words_of_both_kinds_are_selected_apart(scored):
    single, several = (pl.read_parquet(scored.folder / name) for name in FILES)
    assert set(single["verb"]) == {"smoke"}
    assert set(several["verb"]) == {"smoked"}
    assert set(several["tokens"]) == {2}
    assert min(len(single), len(several)) > 5
    rates = dict(scored.rates.select("pattern", "repetition_rate").iter_rows())
    assert rates["CpTp"] == 100
    assert set(rates) == {"CpTp", "CnTn", "CpTn", "CnTp", "CpTv"}
    assert scored.record.metadata["call"]["model"]["task"] == "text-generation"
    sentences = scored.sentences().filter(pl.col("tokens") == 2)
    assert set(sentences["expected"]) == {"smoked"}
    assert sentences["sentence"].str.contains(" [MASK][MASK].", literal=True).all()


def test_scores_are_what_pytorch_says(scored, logprobs):
    triplets = pl.read_parquet(scored.folder / FILES[1])
    scores = pl.read_parquet(scored.folder / "scores_several_tokens.parquet").join(triplets, on="triplet")
    patterns = {pattern.name: f"{pattern.context} {pattern.target}" for pattern in load_patterns().all}
    assert set(scores["pattern"]) == set(patterns)
    for row in scores.iter_rows(named=True):
        words = {
            "NAME": row["name"],
            "PROF": row["profession"],
            "ACT": row["verb"],
            "PRON": row["pronoun"].capitalize(),
        }
        before = patterns[row["pattern"]].format(**words, MASK="|").partition(" |")[0]
        tokens, rows = logprobs(before, row["verb"])
        own = rows[np.arange(2), tokens]
        assert row["expected_logprob"] == pytest.approx(own.sum(), abs=1e-4)
        assert row["top1_logprob"] == pytest.approx(rows.max(axis=1).sum(), abs=1e-4)
        assert row["expected_rank"] == 1 + (rows > own[:, None]).sum(axis=1).max()
        assert row["repeated"] == (rows.argmax(axis=1) == tokens).all()


def test_every_kind_is_decided_again(scored, causal_checkpoint):
    found = ng.verify(scored.folder, sample=30, torch=str(causal_checkpoint("gpt2", "smoked")))
    assert not found.damage
    several = [check for check in found.checks if check.what.startswith("verbs of several tokens decided again")]
    assert [(check.of, check.wrong) for check in several] == [
        (stage, 0) for stage in ("select", "select", "score", "score")
    ]
    assert all(check.n for check in several)


def test_a_lazy_selection_in_shards_and_mixed_precision_give_the_same_triplets(scored, select, tmp_path):
    shards = [select(lazy=True, shard=f"{i}/2").folder for i in (1, 2)]
    mixed = select(precision="mixed")
    assert mixed.record.counts["decided"] > 0, mixed.record.counts
    for run in (ng.merge(shards, tmp_path / "merged"), mixed):
        for name in FILES:
            assert pl.read_parquet(run.folder / name).equals(pl.read_parquet(scored.folder / name))


def test_a_text_is_continued(model):
    found = ng.predict(model, ["Jessica is a dancer. She is happy to", "She is happy to [MASK]."], top=2)
    assert found["text"].unique(maintain_order=True).to_list() == [
        "Jessica is a dancer. She is happy to [MASK]",
        "She is happy to [MASK].",
    ]
    assert found.filter(pl.col("rank") == 1)["token"][0] == "smoke"
    with pytest.raises(InputError, match=r"words follow the mask in 'She is \[MASK\] today\.'"):
        ng.predict(model, ["She is [MASK] today."])
