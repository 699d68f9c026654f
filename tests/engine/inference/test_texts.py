"""Texts, pairs and words of several tokens: encoded, refused with their place, scored as by PyTorch.

A model whose numbers are not finite for a text says nothing about it, and about others what it says without it.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from negengine.engine.basics.choices import TargetMethod
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import tally
from negengine.engine.inference import words as words_module
from negengine.engine.inference.batches import finished
from negengine.engine.inference.causal import CausalLM, open_language_model
from negengine.engine.inference.classifier import PairClassifier, encode_pairs
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.free_text import encode_texts, predict_texts, reduce_logits
from negengine.engine.inference.judge import top_tokens
from negengine.engine.inference.model import MaskedLM
from negengine.engine.inference.session import Device
from negengine.engine.inference.words import WordScores, score_whole_words, score_words
from negengine.engine.text.token_ids import Bucket, TokenSequences, in_buckets
from negengine.engine.text.tokenizer import MaskTokenizer
from negengine.engine.text.word_marks import WordClass, WordMarks
from negengine.export.build import build
from onnx import numpy_helper
from plain_calls import logits_at
from scipy.special import logsumexp
from tiny_checkpoints import WORDS, save_classifier, save_encoder
from transformers import AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerFast

MINI = Path(__file__).parents[3] / "export" / "mini"
TEXTS = [
    "Jessica is a dancer who likes to smoke. She is happy to [MASK].",
    "A robin is not a [MASK].",
    "[MASK] is a doctor.",
    "Peter is an architect who doesn't like to swim, and he said so to everybody at the [MASK] last week.",
]


def test_a_bad_text_is_told(mini, mini_tokenizer):
    for text, reason in {
        "nothing": r"no masks, where one \[MASK\] is needed",
        "[MASK] [MASK]": "2 masks",
        "a " * 600 + "[MASK]": r"\d+ tokens, but mini takes at most \d+: shorten it",
        "[PAD] [MASK]": "contains the padding token",
    }.items():
        counting = replace(mini, padding_id=0)  # as of a family that counts positions by its padding token
        with pytest.raises(InputError, match=f"^{re.escape(repr(text))[:40]}.*: {reason}"):
            encode_texts(counting, mini_tokenizer, ["[MASK].", text])


@given(
    arrays(np.float32, st.tuples(st.integers(1, 3), st.just(30)), elements=st.integers(0, 5)),
    st.integers(0, 28),
    st.sets(st.integers(0, 29), max_size=2),
)
def test_top_tokens_are_those_of_a_stable_sort(logits, k, excluded):
    """Few and many are found in two ways; the logits here have many ties."""
    before = logits.copy()
    wanted = [[i for i in np.lexsort((range(30), -row)) if i not in excluded][:k] for row in logits]
    assert top_tokens(logits, k, sorted(excluded)).tolist() == wanted
    np.testing.assert_array_equal(logits, before)


def test_tokens_and_probabilities_are_pytorchs(mini, mini_tokenizer):
    tokenizer, reference = AutoTokenizer.from_pretrained(MINI), AutoModelForMaskedLM.from_pretrained(MINI).eval()
    found = predict_texts(MaskedLM(mini), mini_tokenizer, TEXTS, top=4)
    assert [(row["text"], row["rank"]) for row in found] == [(text, rank) for text in TEXTS for rank in (1, 2, 3, 4)]
    for number, text in enumerate(TEXTS):
        encoded = tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            logits = reference(**encoded).logits[0, encoded["input_ids"][0].tolist().index(tokenizer.mask_token_id)]
        best, own = logits.topk(4), found[4 * number : 4 * number + 4]
        assert [row["token"] for row in own] == [mini_tokenizer.token_text(int(token)) for token in best.indices]
        np.testing.assert_allclose([row["logit"] for row in own], best.values, atol=1e-4)
        np.testing.assert_allclose([row["probability"] for row in own], logits.softmax(0)[best.indices], atol=1e-5)


torch.set_num_threads(1)  # single sentences: threads would wait for each other on a busy machine

ITEMS = [
    ("Jessica is a dancer who likes to [MASK].", "oversleep"),
    ("She is very happy to [MASK] there.", "smoke"),
    ("John doesn't like to [MASK]. He is a dancer.", "disagree"),
    ("Maria is happy to [MASK].", "disagree"),
    ("She is very happy to [MASK] there.", "daydream"),
    ("A dancer is [MASK] happy.", "very"),
]


class Masked:
    """A masked model: the engine's and PyTorch's, with the items as the engine takes them."""

    def __init__(self, exported, checkpoint):
        self.tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
        self.engine = MaskedLM(exported)
        self.pytorch = AutoModelForMaskedLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
        contexts = [tuple(text.split("[MASK]")) for text, _ in ITEMS]
        self.sequences = self.tokenizer.word_sequences(contexts, [word for _, word in ITEMS])
        self.words = TokenSequences.of(self.sequences)
        encoded = encode_texts(exported, self.tokenizer, [text for text, _ in ITEMS])
        self.buckets = list(in_buckets(encoded, self.tokenizer.mask_id))
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
def masked(request, mini, once, small_tokenizers):
    """mini, or a tiny encoder with random weights and byte-level BPE."""

    def make(folder):
        special = {f"{name}_token": f"<{name}>" for name in ("mask", "pad", "unk")}
        words = PreTrainedTokenizerFast(tokenizer_object=small_tokenizers["byte-level BPE"].backend, **special)
        save_encoder(folder / "checkpoint", pooler=False, words=words, initializer_range=0.5)
        build(str(folder / "checkpoint"), folder / "export")

    if request.param == "WordPiece":
        return Masked(mini, MINI)
    folder = once("byte-level-encoder-of-words", make)
    return Masked(load_exported(folder / "export"), folder / "checkpoint")


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
    wanted, summed, told, judge = score_whole_words(*asked).logprob, [], [], words_module.judge

    def counted(logits, *of, **how):
        summed.append(len(logits))
        return judge(logits, *of, **how)

    monkeypatch.setattr(words_module, "judge", counted)
    monkeypatch.setattr(words_module, "SUMMED_AT_ONCE", 1)
    assert (score_whole_words(*asked).logprob == wanted).all()  # the same batches, in which one row is summed at a time
    assert set(summed) == {1}
    monkeypatch.setattr(words_module, "LOGITS_AT_ONCE", 1)
    monkeypatch.setattr(Device, "at_once", 5)
    np.testing.assert_allclose(score_whole_words(*asked, advance=told.append).logprob, wanted, atol=1e-4)
    assert set(told) == {1}


def test_a_logarithm_that_is_not_a_number_stays_one():
    scores = WordScores.empty(TokenSequences.of([[5], [6, 7]]))
    scores.token_logprobs[:, :] = [[np.nan, np.nan], [-1.0, -3.0]]
    assert [np.isnan(scores.logprob[0]), scores.logprob[1]] == [True, -4.0]


def test_all_tokens_of_a_word_take_one_run_of_a_causal_model(causal, monkeypatch):
    model = open_language_model(causal("gpt2"))
    (ids,) = model.exported.tokenizer.encode(["Jessica likes to [MASK]"])
    buckets = [Bucket(np.arange(2), np.stack([ids, ids]), np.full(2, len(ids) - 1, np.int32))]
    words = TokenSequences.of([[7, 8, 9], [7, 8]])

    def scored():
        tally.take()
        shown, method = [], TargetMethod.LEFT_TO_RIGHT
        found = finished(score_words(model, buckets, words, method, causal=True, advance=shown.append))
        run = tally.take().sentences
        assert sum(shown) == run  # the progress counts what the record counts
        return found, run

    found, runs = scored()
    monkeypatch.setattr(CausalLM, "follows", False)  # as of a low-precision model
    wanted, single_runs = scored()
    assert (runs, single_runs) == (2, 5)
    for name in ("token_logprobs", "end_logprob", "ranks", "choices", "choice_logprobs", "margins", "precision"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-4)


def test_whole_words_of_a_causal_model_have_the_probabilities_of_a_plain_loop(causal):
    """The first token competes with those that begin as it does, later ones with all, and the end of a word counts."""
    model, asked = open_language_model(causal("gpt2")), [[7, 8, 9], [7, 8]]
    (ids,) = model.exported.tokenizer.encode(["Jessica likes to [MASK]"])
    buckets = [Bucket(np.arange(2), np.stack([ids, ids]), np.full(2, len(ids) - 1, np.int32))]
    marks = WordMarks.of(model.exported.tokenizer, model.exported.vocab_size)
    tally.take()
    shown = []
    found = score_whole_words(model, buckets, TokenSequences.of(asked), marks, advance=shown.append)
    assert tally.take().sentences == sum(shown) == 2
    for row, word in enumerate(asked):
        for number in range(len(word) + 1):
            text = np.array([[*ids[:-1], *word[:number], 0]], np.int32)
            exact = logits_at(model, text, np.array([text.shape[1] - 1], np.int32))[0].astype(np.float64)
            if number == len(word):
                ended = logsumexp(exact[marks.breaks]) - logsumexp(exact)
                assert found.end_logprob[row] == pytest.approx(ended, abs=1e-4)
                continue
            begins = marks.unmarked if marks.classes[word[0]] == WordClass.CONTINUES else marks.breaks
            allowed = begins if number == 0 else np.ones(len(exact), bool)
            wanted = exact[word[number]] - logsumexp(exact[allowed])
            assert found.token_logprobs[row, number] == pytest.approx(wanted, abs=1e-4)


LONGEST = 24
SHORT, MIDDLE, LONG = " ".join(WORDS[:3]), " ".join(WORDS[3:15]), " ".join(WORDS * 4)


PAIRS = [(SHORT, MIDDLE), (LONG, SHORT), (SHORT, LONG), (LONG, LONG), (MIDDLE, MIDDLE), (SHORT, SHORT)]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A checkpoint and its export."""
    folder, task, names = tmp_path_factory.mktemp("tiny"), "text-classification", ["entailment", "not_entailment"]
    checkpoint = save_classifier(folder / "checkpoint", "bert", names, max_position_embeddings=LONGEST)
    return checkpoint, load_exported(build(str(checkpoint), folder / "tiny", task=task), task=task)


def rows_of(encoded):
    return {
        int(row): (ids.tolist(), segments.tolist())
        for part in encoded.buckets
        for row, ids, segments in zip(part.rows, part.ids, part.segments, strict=True)
    }


@pytest.mark.parametrize("longest", [None, 24, 11, 5])
def test_ids_segments_and_cuts_are_those_of_transformers(longest, classifier):
    checkpoint, exported = classifier
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    encoded = encode_pairs(exported, PAIRS, max_length=longest)
    for row, found in rows_of(encoded).items():
        wanted = tokenizer(*PAIRS[row], truncation="longest_first", max_length=longest or LONGEST)
        assert found == (wanted["input_ids"], wanted["token_type_ids"])
    lengths = [part.ids.shape[1] for part in encoded.buckets]
    assert lengths == sorted(set(lengths))
    assert sorted(np.concatenate([part.rows for part in encoded.buckets]).tolist()) == list(range(len(PAIRS)))
    if longest is not None:
        return
    assert encoded.truncated.tolist() == [False, True, True, True, True, False]  # three special tokens leave 21
    # Some tokenizers cut at the start; tokenizer.json alone does not say so.
    tokenizer = AutoTokenizer.from_pretrained(checkpoint, truncation_side="left")
    assert exported.info["truncation_side"] == "right"
    left = replace(exported, info=exported.info | {"truncation_side": "left"})
    ((ids, _),) = rows_of(encode_pairs(left, [(LONG, SHORT)])).values()
    assert ids == tokenizer(LONG, SHORT, truncation=True, max_length=LONGEST)["input_ids"]


def test_what_a_classifier_does_not_take_is_refused(mini, classifier):
    _, exported = classifier
    for longest in (4, 25):
        with pytest.raises(InputError, match=rf"--max-length {longest}: .* takes 5 to 24 tokens"):
            encode_pairs(exported, PAIRS, max_length=longest)
    padded = encode_pairs(replace(exported, padding_id=0), [(SHORT, "a [PAD] dog"), (SHORT, LONG)]).padded
    assert padded.tolist() == [True, False]
    with pytest.raises(InputError, match="is exported for fill-mask, text-classification is needed"):
        PairClassifier(mini)


SENTENCES = ["A dancer is a [MASK].", "A doctor is a [MASK].", "A bird is a [MASK]."]


@pytest.fixture(scope="module")
def damaged(mini, tmp_path_factory):
    """The bundled model with an embedding that is not a number."""
    graph = onnx.load(mini.folder / "model.onnx")
    [weights] = [own for own in graph.graph.initializer if own.name.endswith("word_embeddings.weight")]
    rows = numpy_helper.to_array(weights).copy()
    rows[mini.tokenizer.backend.token_to_id("doctor")] = np.nan
    graph.graph.initializer.append(numpy_helper.from_array(rows, "damaged"))
    [read] = [node for node in graph.graph.node if node.op_type == "Gather" and node.input[0] == weights.name]
    read.input[0] = "damaged"  # the decoder, which has the same weights, stays as it is
    path = tmp_path_factory.mktemp("damaged") / "model.onnx"
    onnx.save(graph, path)
    return MaskedLM(mini, graph=path)


def test_a_text_with_numbers_that_are_not_finite_is_refused_by_its_words(mini, damaged):
    tokenizer, sound = mini.tokenizer, MaskedLM(mini)
    message = r"^mini computes numbers that are not finite \(NaN or infinite\) for .*doctor.*, which say nothing: "
    for texts in (SENTENCES, SENTENCES[1:2]):
        encoded = encode_texts(mini, tokenizer, texts)
        [bucket] = in_buckets(encoded, tokenizer.mask_id)
        asked = bucket.ids, bucket.mask_position, np.zeros(len(bucket.ids), np.int32)
        for ask in (
            lambda asked=asked: finished(damaged.deciding(*asked)),
            lambda asked=asked: logits_at(damaged, *asked[:2]),
            lambda own=encoded: reduce_logits(damaged, own, tokenizer.mask_id, lambda _, logits: logits),
        ):
            with pytest.raises(InputError, match=message) as told:
                ask()
            assert "doctor" in str(told.value)
    [bucket] = in_buckets(encode_texts(mini, tokenizer, [SENTENCES[0], SENTENCES[2]]), tokenizer.mask_id)
    asked = bucket.ids, bucket.mask_position, np.zeros(2, np.int32)
    np.testing.assert_allclose(logits_at(damaged, *asked[:2]), logits_at(sound, *asked[:2]), rtol=0, atol=1e-4)
