"""Faults of the program's own reading, joining, encoding and loading are found by PyTorch in `verify --torch`."""

import re
import shutil
import unicodedata
from dataclasses import replace
from functools import partial

import negengine as ng
import numpy as np
import pytest
import torch
from negengine.engine.inference import spans
from negengine.engine.requests import span
from negengine.engine.results.verification import reference
from negengine.engine.text import tokenizer
from negengine.export import checkpoint as reading
from negengine.export import inventory
from negengine.export.build import build
from tokenizers import AddedToken, normalizers
from transformers import AutoModelForMaskedLM

from .families import ROWS

pytestmark = pytest.mark.everything

SMOKE = {"sentence": ["She likes to [MASK].", "Anna isn't a  [MASK]."] * 2, "target": ["smoke", "dancer"] * 2}
CLOSED = {"sentence": ["Le cafe\u0301 est [MASK]."], "target": ["ferme\u0301"]}
PAIR = {"sentence_good": ["The dancer is happy. "], "sentence_bad": ["The dancer are happy."]}
ANSWERS = {"prefix": ["Question: is it true? Answer:"], "sentence_good": [" yes."], "sentence_bad": ["no."]}
JAPANESE = {"prefix": ["彼は"], "sentence": ["笑った。"]}
LONG = {"sentence": ["The key to the cabinets is rusty. " * 12, "Jessica likes Anna."]}
SMOKERS = {"prefix": ["Maria is", "Anna likes"], "sentence": ["Jessica likes to smoke.", "the rusty cabinets  ."]}
TRUE = {"context": ["Is it true? Answer:"], "choices": [["no.", "never, café."]], "answer": ["no."]}
LISTS = partial(ng.likelihood, per_token=True, per_word=True)
RUNS = {
    "probe roberta": (ng.probe, SMOKE),
    "accents roberta": (partial(ng.probe, method="left-to-right"), CLOSED),
    "likelihood roberta": (ng.likelihood, PAIR),
    "long roberta": (partial(ng.likelihood, windows=True, method="within-word-l2r"), LONG),
    "lists roberta": (LISTS, PAIR),
    "choice roberta": (ng.choice, TRUE),
    "words gpt2": (partial(ng.probe, method="whole-word", bos=True), SMOKE),
    "continuation gpt2": (ng.likelihood, ANSWERS),
    "joined gpt2": (partial(ng.likelihood, joiner="\n"), ANSWERS),
    "long gpt2": (partial(ng.likelihood, windows=True, bos=True), LONG),
    "lists gpt2": (LISTS, SMOKERS),
    "ends gpt2": (partial(ng.likelihood, bow_correction=True, per_word=True, bos=True), SMOKERS),
    "choice gpt2": (partial(ng.choice, bos=True), TRUE),
    "japanese llama": (ng.likelihood, JAPANESE),
}


def composed(text, *_):
    return unicodedata.normalize("NFC", text.strip())


def changed(function, change):
    """A function whose result is another."""
    return lambda *given: change(function(*given))


def nothing_around(_, sentence):
    """A candidate alone is read without the special tokens of its text."""
    n, own = len(sentence.scored), sentence.scored
    arrays = {"ids": sentence.ids[own], "word": sentence.word[own], "start": sentence.start[own]}
    return replace(sentence, **arrays, scored=np.arange(1, n), content=slice(0, n))


def a_neighbours_score(found):
    return replace(found, logprobs=np.roll(found.logprobs, 1))


def a_token_in_the_word_before(found):
    word = np.append(found.word[:1], found.word[:-1])
    by_word = np.bincount(word, found.logprobs.astype(np.float64), minlength=len(found.spelled))
    return replace(found, word=word, by_word=by_word)


def without_last_correction(every):
    return [np.append(own[:-1], 0) for own in every]


FAULTS = [
    ("probe roberta", {(tokenizer, "with_mask"): lambda text, _: text, (tokenizer, "before_mask"): str}),
    (
        "accents roberta",
        {
            (tokenizer, "with_mask"): changed(tokenizer.with_mask, composed),
            (tokenizer, "before_mask"): changed(tokenizer.before_mask, lambda text: composed(text) + " "),
        },
    ),
    *(
        (name, {(span, "trimmed"): str, (reference, "trimmed"): str})
        for name in ("likelihood roberta", "continuation gpt2")
    ),
    ("continuation gpt2", {(span, "behind"): lambda before, text, _joiner: (f"{before} {text}", 0)}),
    ("joined gpt2", {(span, "behind"): lambda before, text, _, own=span.behind: own(before, text)}),
    ("japanese llama", {(spans, "usual_joiner"): lambda _before, _after: " "}),
    *(
        (name, {(span._Text, "of"): changed(span._Text.of, change)})
        for name in ("lists gpt2", "lists roberta")
        for change in (a_neighbours_score, a_token_in_the_word_before)
    ),
    ("lists gpt2", {(span, "_WORD"): re.compile(r"[\w ]+|\S+")}),
    ("ends gpt2", {(span, "log_beginnings"): changed(span.log_beginnings, without_last_correction)}),
    ("choice roberta", {(spans.Encoder, "alone"): nothing_around}),
    ("choice gpt2", {(spans.Encoder, "alone"): lambda _, sentence: sentence}),
    (
        "choice roberta",
        {
            (span.Span, "answer"): changed(
                span.Span.answer, lambda found: {**found, "bytes": found["characters"].alias("bytes")}
            )
        },
    ),
]


@pytest.fixture
def made(checkpoint, exported, causal_checkpoint, causal):
    """Name → a checkpoint, and its export."""

    def make(name):
        if name in ROWS:
            return checkpoint(name), exported(name)
        return causal_checkpoint(name), causal(name).folder

    return make


def damage(checkpoint, target, **given):
    """The checks that find damage: whether they compare with PyTorch."""
    found = ng.verify(target, torch=str(checkpoint), sample=50, seed=0, **given)
    assert any("PyTorch" in check.what and check.n for check in found.checks)
    return ["PyTorch" in check.what for check in found.damage]


@pytest.fixture
def damage_of_run(made, tmp_path):
    def run(name):
        (ask, data), (checkpoint, folder) = RUNS[name], made(name.split()[1])
        model = ng.load(folder, device="cpu", precision="fp32")
        ran = ask(model, data, output=tmp_path / "run", progress=False).folder
        return damage(checkpoint, ran, model=folder)

    return run


@pytest.mark.parametrize("name", RUNS)
def test_the_program_as_it_is_agrees(name, damage_of_run):
    assert not damage_of_run(name)


@pytest.mark.parametrize(("name", "faults"), FAULTS)
def test_a_fault_in_reading_is_found(name, faults, damage_of_run, monkeypatch):
    for (module, own), fault in faults.items():
        monkeypatch.setattr(module, own, fault)
    assert any(damage_of_run(name))


def test_a_mask_that_does_not_take_its_space_is_found(made, tmp_path, monkeypatch):
    """In tokenizer.json it does not, so the program says it."""
    checkpoint = shutil.copytree(made("modernbert")[0], tmp_path / "own")
    for path in checkpoint.glob("tokenizer*.json"):
        path.write_text(path.read_text("utf-8").replace('"lstrip": true', '"lstrip": false'), "utf-8")
    folder = build(str(checkpoint), tmp_path / "out")
    assert not damage(checkpoint, folder)
    monkeypatch.setattr(tokenizer, "AddedToken", lambda mask, **flags: AddedToken(mask, **flags | {"lstrip": False}))
    assert damage(checkpoint, folder) == [True]


def test_a_head_that_is_overwritten_when_the_checkpoint_is_loaded_is_found(made, tmp_path, monkeypatch):
    """The files hold a head of its own, though config.json says that it shares the embeddings."""
    checkpoint = shutil.copytree(made("roberta")[0], tmp_path / "untied")
    model = AutoModelForMaskedLM.from_pretrained(checkpoint, tie_word_embeddings=False)
    torch.nn.init.normal_(model.lm_head.decoder.weight)
    model.config.tie_word_embeddings = True
    model.save_pretrained(checkpoint, state_dict={name: own.clone() for name, own in model.state_dict().items()})

    def overwritten(_name, model, *_):
        model.lm_head.decoder.weight.data.copy_(model.get_input_embeddings().weight)

    assert not damage(checkpoint, build(str(checkpoint), tmp_path / "right"))
    monkeypatch.setattr(inventory, "refuse_unsound", overwritten)
    assert damage(checkpoint, build(str(checkpoint), tmp_path / "wrong")) == [True]


@pytest.mark.parametrize("name", ["modernbert", "gpt2"])
def test_a_tokenizer_that_is_read_in_lower_case_is_found(made, name, tmp_path, monkeypatch):
    def in_lower_case(*given, read=reading.tokenizer_in):
        found = read(*given)
        found.backend_tokenizer.normalizer = normalizers.Lowercase()
        return found

    checkpoint, _ = made(name)
    monkeypatch.setattr(reading, "tokenizer_in", in_lower_case)
    assert any(damage(checkpoint, build(str(checkpoint), tmp_path / "wrong")))
