"""Words of several tokens: each method equals a plain PyTorch loop over the texts; causal models: experiments/probe."""

import numpy as np
import pytest
import torch
from negengine.engine.basics.choices import TargetMethod
from negengine.engine.inference import tally
from negengine.engine.inference import words as words_module
from negengine.engine.inference.batches import finished
from negengine.engine.inference.causal import CausalLM, open_language_model
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.free_text import encode_texts
from negengine.engine.inference.model import MaskedLM
from negengine.engine.inference.words import WordScores, score_whole_words, score_words
from negengine.engine.text.token_ids import Bucket, TokenSequences
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.engine.text.word_marks import WordMarks
from negengine.export.build import build
from tiny_encoder import save_encoder
from transformers import AutoModelForMaskedLM, PreTrainedTokenizerFast

torch.set_num_threads(1)  # single sentences: threads would wait for each other on a busy machine

ITEMS = [
    ("Jessica is a dancer who likes to [MASK].", "oversleep"),
    ("She is very happy to [MASK] there.", "smoke"),
    ("John doesn't like to [MASK]. He is a dancer.", "disagree"),
    ("Maria is happy to [MASK].", "disagree"),
    ("She is very happy to [MASK] there.", "daydream"),
    ("A dancer is [MASK] happy.", "very"),
]


@pytest.fixture(scope="module")
def byte_level_folder(once, small_tokenizers):
    """A tiny encoder with random weights and byte-level BPE: its checkpoint, and beside it its export."""

    def make(folder):
        special = {f"{name}_token": f"<{name}>" for name in ("mask", "pad", "unk")}
        words = PreTrainedTokenizerFast(tokenizer_object=small_tokenizers["byte-level BPE"].backend, **special)
        save_encoder(folder / "checkpoint", pooler=False, words=words, initializer_range=0.5)
        build(str(folder / "checkpoint"), folder / "export")

    return once("byte-level-encoder-of-words", make)


class Masked:
    """A masked model: the engine's and PyTorch's, with the items as the engine takes them."""

    def __init__(self, exported, checkpoint):
        self.tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
        self.engine = MaskedLM(exported)
        self.pytorch = AutoModelForMaskedLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
        contexts = [tuple(text.split("[MASK]")) for text, _ in ITEMS]
        self.sequences = self.tokenizer.word_sequences(contexts, [word for _, word in ITEMS])
        self.words = TokenSequences.of(self.sequences)
        self.buckets = encode_texts(exported, self.tokenizer, [text for text, _ in ITEMS])
        self.marks = WordMarks.of(self.tokenizer, self.logits([[0, 1]]).shape[-1])

    def logits(self, ids):
        with torch.inference_mode():
            return self.pytorch(torch.tensor(ids)).logits[0].double()

    def ids(self, row, filled):
        """The ids of one item with a mask for each token of its word, of which the first ones are filled."""
        (found,) = self.tokenizer.encode([ITEMS[row][0].replace("[MASK]", self.tokenizer.mask_token)])
        ids = found.tolist()
        mask, word = ids.index(self.tokenizer.mask_id), list(self.sequences[row])
        inside = word[:filled] + [self.tokenizer.mask_id] * (len(word) - filled)
        return ids[:mask] + inside + ids[mask + 1 :], mask


@pytest.fixture(scope="module", params=["WordPiece", "byte-level BPE"])
def masked(request, mini, byte_level_folder):
    if request.param == "WordPiece":
        from negengine.export.mini import __path__ as path

        return Masked(mini, next(iter(path)))
    return Masked(load_exported(byte_level_folder / "export"), byte_level_folder / "checkpoint")


@pytest.mark.parametrize("method", TargetMethod)
def test_scores_of_a_masked_model_equal_pytorch(masked, method):
    """`whole-word` is renormalised over the tokens of the same class."""
    is_whole = method is TargetMethod.WHOLE_WORD
    if is_whole:
        scores = score_whole_words(masked.engine, masked.buckets, masked.words, masked.marks)
    else:
        scores = finished(score_words(masked.engine, masked.buckets, masked.words, method))
    for row, word in enumerate(masked.sequences):
        total = 0.0
        for i, token in enumerate(word):
            ids, mask = masked.ids(row, 0 if method is TargetMethod.ALL_MASKS else i)
            logits = masked.logits([ids])[mask + i]
            if is_whole:
                own = torch.from_numpy(masked.marks.classes == masked.marks.classes[token])
                logits = torch.where(own, logits, -torch.inf)
            logprob = torch.log_softmax(logits, 0)[token].item()
            assert scores.token_logprobs[row, i] == pytest.approx(logprob, abs=1e-4)
            assert scores.ranks[row, i] == 1 + (logits > logits[token]).sum()
            assert scores.choices[row, i] == logits.argmax()
            total += logprob
        assert scores.logprob[row] == pytest.approx(total, abs=1e-4 * len(word))


def test_whole_word_scores_hold_a_bounded_number_of_logits(masked, monkeypatch):
    """Also with a vocabulary of 250,000 tokens, of which a batch of sentences for every core is gigabytes."""
    asked = masked.engine, masked.buckets, masked.words, masked.marks
    wanted, summed, told, put = score_whole_words(*asked).logprob, [], [], words_module._put
    monkeypatch.setattr(words_module, "_put", lambda *own: (summed.append(len(own[3])), put(*own)))
    monkeypatch.setattr(words_module, "SUMMED_AT_ONCE", 1)
    assert (score_whole_words(*asked).logprob == wanted).all()  # the same batches, in which one row is summed at a time
    assert set(summed) == {1}
    monkeypatch.setattr(words_module, "LOGITS_AT_ONCE", 1)
    monkeypatch.setattr(words_module, "WORDS_AT_ONCE", 5)
    np.testing.assert_allclose(score_whole_words(*asked, advance=told.append).logprob, wanted, atol=1e-4)
    assert set(told) == {1}


def test_a_logarithm_that_is_not_a_number_stays_one():
    scores = WordScores.empty(TokenSequences.of([[5], [6, 7]]))
    scores.token_logprobs[:, :] = [[np.nan, np.nan], [-1.0, -3.0]]
    assert [np.isnan(scores.logprob[0]), scores.logprob[1]] == [True, -4.0]


@pytest.mark.parametrize("method", [TargetMethod.LEFT_TO_RIGHT, TargetMethod.WHOLE_WORD])
def test_all_tokens_of_a_word_take_one_run_of_a_causal_model(causal, method, monkeypatch):
    model = open_language_model(causal("gpt2"))
    (ids,) = model.exported.tokenizer.encode(["Jessica likes to [MASK]"])
    buckets = [Bucket(np.arange(2), np.stack([ids, ids]), np.full(2, len(ids) - 1, np.int32))]
    words = TokenSequences.of([[7, 8, 9], [7, 8]])
    marks = WordMarks.of(model.exported.tokenizer, model.exported.vocab_size)

    def scored():
        tally.take()
        if method is TargetMethod.WHOLE_WORD:
            return score_whole_words(model, buckets, words, marks, causal=True), tally.take().sentences
        return finished(score_words(model, buckets, words, method, causal=True)), tally.take().sentences

    found, runs = scored()
    monkeypatch.setattr(CausalLM, "answers", lambda *_: False)  # as of an old export
    wanted, single_runs = scored()
    assert (runs, single_runs) == (2, 5 if method is TargetMethod.LEFT_TO_RIGHT else 7)
    for name in ("token_logprobs", "end_logprob", "ranks", "choices", "choice_logprobs", "margins", "precision"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-4)
