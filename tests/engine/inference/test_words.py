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
from negengine.engine.inference.words import WordScores, expand, repeated_words, score_whole_words, score_words
from negengine.engine.text.token_ids import Bucket, TokenSequences
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.engine.text.word_marks import WordClass, WordMarks
from negengine.export.build import build
from scipy.special import softmax
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
    wanted, summed, told = score_whole_words(*asked).logprob, [], []
    put = words_module._put
    monkeypatch.setattr(words_module, "_put", lambda *own: (summed.append(len(own[3])), put(*own)))
    monkeypatch.setattr(words_module, "LOGITS_AT_ONCE", 1)
    found = score_whole_words(*asked, advance=told.append).logprob
    assert set(told) == {1}
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    monkeypatch.undo()
    monkeypatch.setattr(words_module, "_put", lambda *own: (summed.append(len(own[3])), put(*own)))
    monkeypatch.setattr(words_module, "SUMMED_AT_ONCE", 1)
    summed.clear()
    assert (score_whole_words(*asked).logprob == wanted).all()  # the same batches, in which one row is summed at a time
    assert set(summed) == {1}


def test_a_logarithm_that_is_not_a_number_stays_one():
    scores = WordScores.empty(TokenSequences.of([[5], [6, 7]]))
    scores.token_logprobs[1, 0] = -1.0
    assert np.isnan(scores.logprob).tolist() == [True, True]
    scores.token_logprobs[:, :] = [[-2.0, np.nan], [-1.0, -3.0]]  # nothing stands behind the first word
    assert scores.logprob.tolist() == [-2.0, -4.0]


def test_scores_are_the_same_however_many_words_are_in_memory(masked):
    asked = masked.engine, masked.buckets, masked.words, TargetMethod.LEFT_TO_RIGHT
    scores = finished(score_words(*asked))
    for at_once in (1, 5):
        divided = finished(score_words(*asked, at_once=at_once))
        np.testing.assert_allclose(scores.token_logprobs, divided.token_logprobs, atol=1e-4)
        assert (scores.choices == divided.choices).all()


def test_the_greedy_fill_is_the_top1_and_nothing_is_asked_after_a_wrong_token(masked):
    """The word that greedy filling gives is scored as top-1, and no other."""
    model, k = masked.engine, 2
    contexts = [masked.buckets[0]]
    group = next(expand(contexts, TokenSequences.of([[5] * k] * len(ITEMS))))
    filled, word = group.ids.copy(), []
    for i in range(k):
        found = model.decide(filled, group.first + i, np.zeros_like(group.first))
        filled[np.arange(len(filled)), group.first + i] = found.top1
        word.append(found.top1)
    rows = contexts[0].rows
    greedy, late, early = np.full((3, len(ITEMS), k), 5, np.int32)
    for tokens in (greedy, late, early):
        tokens[rows] = np.stack(word, axis=1)
    late[rows, -1] += 1
    early[rows, 0] += 1
    for tokens, expected, queries in ((greedy, True, k), (late, False, k), (early, False, 1)):
        words = TokenSequences(tokens, np.full(len(ITEMS), k))
        scores = finished(score_words(model, contexts, words, TargetMethod.LEFT_TO_RIGHT))
        told = []
        found = finished(repeated_words(model, contexts, words, advance=lambda *n, told=told: told.append(n)))
        assert (scores.top1[rows] == expected).all()
        assert (found.top1[rows] == expected).all()
        assert np.sum(told, axis=0).tolist() == [len(rows), found.queries] == [len(rows), queries * len(rows)]


def test_probabilities_of_all_whole_words_sum_to_one(causal):
    """Of a causal model, words of one token and longer ones; the rest is the probability of what begins no word."""
    model = open_language_model(causal("gpt2"))
    tokenizer = model.exported.tokenizer
    marks = WordMarks.of(tokenizer, model.exported.vocab_size)
    begins, continues = (np.flatnonzero(marks.classes == own) for own in (WordClass.BEGINS, WordClass.CONTINUES))
    (before,) = tokenizer.encode([f"Jessica likes to {tokenizer.mask_token}"])
    n, mask = len(begins), len(before) - 1
    asked = Bucket(np.arange(n), np.tile(before, (n, 1)), np.full(n, mask, np.int32))
    words = TokenSequences.of([[token] for token in begins.tolist()])
    alone = np.exp(score_whole_words(model, [asked], words, marks, causal=True).logprob).sum()
    first = softmax(model.logits(asked.ids[:1], asked.mask_position[:1])[0].astype(float))
    texts = np.column_stack([asked.ids[:, :mask], begins, asked.ids[:, mask]]).astype(np.int32)
    second = softmax(model.logits(texts, asked.mask_position + 1).astype(float), axis=1)
    longer = (first[begins] * second[:, continues].sum(axis=1)).sum()
    others = first[marks.breaks].sum() - first[begins].sum()
    assert alone + (longer + others) / first[marks.breaks].sum() == pytest.approx(1, abs=1e-5)


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
