"""`ng.probe` on causal models: targets at the end of a sentence, against PyTorch one token at a time."""

from itertools import pairwise

import negengine as ng
import numpy as np
import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.causal import open_language_model
from plain_calls import token_logprobs
from transformers import AutoModelForCausalLM, AutoTokenizer

SENTENCES = [
    "Jessica is a dancer who likes to smoke. She is happy to [MASK].",
    "Jessica is a dancer who does not like to smoke. She is happy to [MASK].",
    "Paris is the capital of [MASK]",
    "John is an architect. He is happy to [MASK]!",
]
ONE, SEVERAL = ["smoke", "dance", "France", "sing"], ["smoked", "unsung", "Francesca", "hunter"]
DATA = {"sentence": SENTENCES, "one": ONE, "several": SEVERAL}
BAD = {
    "She is [MASK] today.": "words follow the answer, which a causal model does not read",
    "to " * 200 + "[MASK]": r"\d+ tokens, but .* takes at most 130: shorten it",
}


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def family(request):
    return request.param


@pytest.fixture(scope="module")
def model(causal, family):
    return ng.load(causal(family).folder, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def plain(causal_checkpoint, family):
    """PyTorch: a sentence and a word → the word's tokens, and the log-probabilities before each of them, [k, V]."""
    folder = causal_checkpoint(family)
    tokenizer, network = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()

    @torch.inference_mode()
    def logprobs(sentence, word):
        before = sentence.partition("[MASK]")[0]
        context = tokenizer(before.removesuffix(" "))["input_ids"]
        ids = tokenizer(before + word)["input_ids"]
        assert ids[: len(context)] == context
        rows = network(input_ids=torch.tensor([ids])).logits[0, len(context) - 1 : -1]
        return ids[len(context) :], rows.double().log_softmax(-1).numpy()

    return logprobs


def test_targets_of_one_and_several_tokens_are_what_pytorch_says(ask, plain, causal_checkpoint, family):
    run = ask(DATA, target=["one", "several"], top=3)
    assert run.items["tokens"].filter(run.items["condition"] == "several").min() > 1
    for row in run.items.iter_rows(named=True):
        tokens, rows = plain(row["text"], row["word"])
        own = rows[np.arange(len(tokens)), tokens]
        assert row["tokens"] == len(tokens)
        assert row["logprob"] == pytest.approx(own.sum(), abs=1e-4 * len(tokens))
        assert row["rank"] == 1 + (rows > own[:, None]).sum(axis=1).max()
        assert row["is_top1"] == (rows.argmax(axis=1) == tokens).all()
        assert row["top1_logprob"] == pytest.approx(rows.max(axis=1).sum(), abs=1e-4 * len(tokens))
        if len(tokens) == 1:
            assert row["top3_logprob"] == pytest.approx(np.sort(rows[0])[-3], abs=1e-4)
    alone, same = ask(DATA, target="one").items, run.items.filter(condition="one")  # decided on the device
    columns = ["row", "word", "rank", "is_top1", "top1"]
    assert alone.select(columns).equals(same.select(columns))
    assert alone["logprob"].to_list() == pytest.approx(same["logprob"].to_list(), abs=1e-5)
    assert not ng.verify(run, sample=20, torch=str(causal_checkpoint(family))).damage


def test_what_cannot_be_asked_is_one_line_or_skipped(ask, model):
    """Llama begins each text with a token of its own; GPT-2 does not, unless its export was made with --bos."""
    for sentence, message in BAD.items():
        with pytest.raises(InputError, match=rf"^the frame, row 2: target 'smoke': {message}$"):
            ask({"sentence": [SENTENCES[0], sentence], "target": ["smoke", "smoke"]})
    found = ask({"sentence": [SENTENCES[0], *BAD], "target": ["smoke"] * 3}, skip_bad=True)
    assert found.items["why"].is_null().to_list() == [True, False, False]
    first = {"sentence": ["[MASK].", SENTENCES[0]], "target": ["Jessica", "smoke"]}
    if len(model.exported.tokenizer.prefix):
        assert ask(first).items["logprob"].is_not_null().all()
        return
    with pytest.raises(InputError, match=r"^the frame, row 1: target 'Jessica': nothing stands .*, or bos=True$"):
        ask(first)
    begun, target = ask(first, bos=True), model.exported.tokenizer.backend.encode("Jessica").ids
    ids = [model.exported.tokenizer.backend.token_to_id(model.exported.info["bos_token"]), *target]
    wanted = token_logprobs(open_language_model(model.exported), np.array([ids], np.int32)).sum()
    assert begun.items["logprob"][0] == pytest.approx(float(wanted), abs=1e-4 * len(target))
    assert begun.items["logprob"][1] != ask({"sentence": SENTENCES[:1], "target": ["smoke"]}).items["logprob"][0]
    assert not ng.verify(begun, sample=20).damage
    (token,) = ng.predict(model, ["[MASK]"], top=1, bos=True)["token"]
    assert token == ask({"sentence": ["[MASK]"], "target": ["a"]}, bos=True).items["top1"][0]


def test_likelihoods_can_begin_with_the_bos_token_of_the_command(model, family, tmp_path):
    """LLaMA's tokenizer puts it there anyway."""
    exported, text = model.exported, "Jessica likes to smoke."
    backend = exported.tokenizer.backend
    bos, ids = backend.token_to_id(exported.info["bos_token"]), backend.encode(text).ids
    with_bos = ids if family == "llama" else [bos, *ids]
    found = ng.likelihood(model, {"text": [text]}, bos=True, per_token=True, output=tmp_path / "run", progress=False)
    wanted = token_logprobs(open_language_model(exported), np.array([with_bos], np.int32))[0]
    np.testing.assert_allclose(found.frame("tokens.parquet")["logprob"], wanted, rtol=0, atol=1e-4)
    assert not ng.verify(found, sample=20).damage
    plain = ng.likelihood(model, {"text": [text]}, output=tmp_path / "plain", progress=False)
    assert plain.items["tokens"][0] == len(wanted) - (family == "gpt2")


def test_words_can_have_the_probability_of_their_own_end(model, causal_checkpoint, family, tmp_path):
    """By the formula of Pimentel and Meister (2024), theorem 2, and that of their section 4.2 for the first word."""
    data = {"prefix": ["Maria is", "Jessica"], "text": ["Jessica likes to smoke.", "likes to smoke."]}
    if family != "gpt2":
        with pytest.raises(InputError, match="with per_word=True and without windows"):
            ng.likelihood(model, data, bow_correction=True, output=tmp_path / "run")
        return
    backend = model.exported.tokenizer.backend
    network = AutoModelForCausalLM.from_pretrained(causal_checkpoint(family)).eval()
    end = {network.config.eos_token_id} - {None}
    marked = {token for word, token in backend.get_vocab().items() if word.startswith("Ġ")}
    begins, others = sorted(marked | end), sorted({*range(network.config.vocab_size)} - marked | end)
    given = backend.encode(data["prefix"][1]).ids
    bos = backend.token_to_id(model.exported.info["bos_token"])
    for name, own, options, before in (
        ("bos", {"text": data["text"][:1]}, {"bos": True}, [bos]),
        ("plain", {"text": data["text"][:1]}, {}, []),
        ("prefix", {"prefix": data["prefix"][1:], "text": data["text"][1:]}, {}, given),
    ):
        text = own["text"][0] if name != "prefix" else f"Jessica {own['text'][0]}"
        ids = [*(before if name == "bos" else []), *backend.encode(text).ids]
        with torch.inference_mode():
            rows = network(input_ids=torch.tensor([ids])).logits[0].double().log_softmax(-1)
        starts = [i for i in range(len(ids)) if ids[i] in marked and i >= len(before)]
        starts = starts if name == "prefix" else [len(before), *starts]
        wanted = []
        for start, stop in pairwise([*starts, len(ids)]):
            if not start:  # nothing stands before it
                wanted.append(None)
                continue
            total = sum(rows[i - 1, ids[i]] for i in range(start, stop))
            chosen = begins if ids[start] in marked else others
            wanted.append(float(total + rows[stop - 1, begins].logsumexp(-1) - rows[start - 1, chosen].logsumexp(-1)))
        found = ng.likelihood(
            model, own, per_word=True, bow_correction=True, progress=False, output=tmp_path / name, **options
        )
        assert found.frame("words.parquet")["logprob"].to_list() == pytest.approx(wanted, abs=1e-4)
        assert not ng.verify(found, sample=20).damage
