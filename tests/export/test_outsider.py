"""Faults of the program's own reading, joining, encoding and loading are found by PyTorch in `verify --torch`."""

import importlib.util
import re
import shutil
import sys
import unicodedata
from dataclasses import replace
from functools import partial
from pathlib import Path

import negengine as ng
import numpy as np
import pytest
import regex
import torch
from negengine.engine.inference import spans
from negengine.engine.requests import span
from negengine.engine.results.verification import reference
from negengine.engine.text import spelling, tokenizer
from negengine.export import checkpoint, inventory
from negengine.export.build import build
from tokenizers import AddedToken, normalizers
from transformers import AutoModelForMaskedLM, RobertaTokenizer

MAKE = Path(__file__).parents[2] / "../shared/cases/scoring/make_models.py"
ROBINS = {"sentence": ["A robin is a [MASK].", "A robin is not a  [MASK]."] * 2, "target": ["bird"] * 2 + ["fish"] * 2}
SMOKE = {"sentence": ["She likes to [MASK].", "Anna is a [MASK]."], "target": ["smoke", "dancer"]}
WORDS = {"sentence": ["The bird is not a [MASK]."] * 3, "target": ["fish", "woodpecker", "cabinets"]}
PAIR = {"sentence_good": ["The dancer is happy. "], "sentence_bad": ["The dancer are happy."]}
ANSWERS = {"prefix": ["Question: is it true? Answer:"], "sentence_good": [" yes."], "sentence_bad": ["no."]}
JAPANESE = {"prefix": ["彼は"], "sentence": ["笑った。"]}
LONG = {"sentence": ["The key to the cabinets is rusty. " * 12, "Jessica likes Anna."]}
JOINED = {"prefix": ["Question: is it true?"], "sentence": ["Answer: no."]}
ACCENTS = {"sentence": ["Le cafe\u0301 est ferme\u0301."]}
CLOSED = {"sentence": ["Le cafe\u0301 est [MASK]."], "target": ["ferme\u0301"]}
UNBROKEN = {"sentence": ["A robin is not a\u00a0[MASK]."], "target": ["bird"]}
JESSICA = {"sentence": ["Jessica likes to dance."]}
SMOKERS = {"prefix": ["Maria is", "Anna likes"], "sentence": ["Jessica likes to smoke.", "the rusty cabinets  ."]}
TRUE = {"context": ["Is it true? Answer:"], "choices": [["no.", "never, café."]], "answer": ["no."]}
RUNS = {
    "probe roberta": (ng.probe, ROBINS),
    "probe babylm-eos": (ng.probe, SMOKE),
    "likelihood roberta": (ng.likelihood, PAIR),
    "likelihood gpt2": (ng.likelihood, PAIR),
    "continuation gpt2": (ng.likelihood, ANSWERS),
    "japanese llama": (ng.likelihood, JAPANESE),
    "long gpt2": (partial(ng.likelihood, windows=True, bos=True), LONG),
    "long roberta": (partial(ng.likelihood, windows=True, method="within-word-l2r"), LONG),
    "words roberta": (partial(ng.probe, method="left-to-right"), WORDS),
    "joined gpt2": (partial(ng.likelihood, joiner="\n"), JOINED),
    "accents gpt2": (ng.likelihood, ACCENTS),
    "accents roberta": (partial(ng.probe, method="left-to-right"), CLOSED),
    "unbroken roberta": (ng.probe, UNBROKEN),
    "jessica gpt2": (ng.likelihood, JESSICA),
    "lists gpt2": (partial(ng.likelihood, per_token=True, per_word=True), SMOKERS),
    "alone gpt2": (partial(ng.likelihood, per_token=True, per_word=True), JESSICA),
    "lists roberta": (partial(ng.likelihood, per_token=True, per_word=True), PAIR),
    "ends gpt2": (partial(ng.likelihood, bow_correction=True, per_word=True, bos=True), JESSICA),
    "behind gpt2": (partial(ng.likelihood, bow_correction=True, per_word=True), SMOKERS),
    "choice roberta": (ng.choice, TRUE),
    "choice gpt2": (partial(ng.choice, bos=True), TRUE),
    "words gpt2": (partial(ng.probe, method="whole-word", bos=True), WORDS),
}
WITH_MASK, BEFORE_MASK, BEHIND = tokenizer.with_mask, tokenizer.before_mask, span.behind
READ_WORDS, ANSWER, BEGINNINGS = span._Text.of, span.Span.answer, span.log_beginnings


def _composed(text, *_):
    return unicodedata.normalize("NFC", text.strip())


def _without_first_word(*read):
    """The first word counts as a whole one, though its first token has no score."""
    found = READ_WORDS(*read)
    return replace(found, whole=np.ones_like(found.whole))


def _nothing_around(_, sentence):
    """A candidate alone is read without the special tokens of its text."""
    n, own = len(sentence.scored), sentence.scored
    arrays = {"ids": sentence.ids[own], "word": sentence.word[own], "start": sentence.start[own]}
    return replace(sentence, **arrays, scored=np.arange(1, n), content=slice(0, n))


def _characters_for_bytes(*asked):
    found = ANSWER(*asked)
    return {**found, "bytes": found["characters"].alias("bytes")}


def _a_neighbours_score(*read):
    found = READ_WORDS(*read)
    return replace(found, logprobs=np.roll(found.logprobs, 1))


def _word_of(change):
    """The tokens of a text belong to other words, and so do their scores."""

    def read(*given):
        found = READ_WORDS(*given)
        word = np.clip(change(found), 0, len(found.spelled) - 1)
        by_word = np.bincount(word, found.logprobs.astype(np.float64), minlength=len(found.spelled))
        return replace(found, word=word, by_word=by_word)

    return read


def _last_token_in_next_word(text):
    return np.append(text.word[1:], text.word[-1])


def _first_token_in_word_before(text):
    return np.append(text.word[:1], text.word[:-1])


def _without_correction(place):
    """The probability of a word's beginning is left out at one place."""

    def found(*given):
        every = [own.copy() for own in BEGINNINGS(*given)]
        for own in every:
            own[place] = 0
        return every

    return found


TOKENIZER_IN = checkpoint.tokenizer_in
UNTRIMMED = {(span, "trimmed"): str, (reference, "trimmed"): str}
pytestmark = pytest.mark.everything


def untied(folder: Path) -> None:
    """A model whose files hold a head of its own, though config.json says that it shares the embeddings."""
    model = AutoModelForMaskedLM.from_pretrained(folder, tie_word_embeddings=False)
    torch.nn.init.normal_(model.lm_head.decoder.weight)
    model.config.tie_word_embeddings = True
    model.save_pretrained(folder, state_dict={name: own.clone() for name, own in model.state_dict().items()})


def _roberta_tokenizer(*, vocab_file: str, merges_file: str) -> RobertaTokenizer:
    return RobertaTokenizer(vocab_file, merges_file)


def make(names: list[str], folder: Path) -> None:
    """Write the checkpoints by the outsider's script, which was written for transformers 4.

    transformers 5 ignores the names `vocab_file` and `merges_file`, and makes a tokenizer without words.
    """
    spec = importlib.util.spec_from_file_location("make_models", shutil.copy(MAKE, folder))
    script = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [str(MAKE), "gpt2"])  # without a name, it makes all
        spec.loader.exec_module(script)
    script.RobertaTokenizerFast = _roberta_tokenizer
    for name in names:
        script.KINDS[name]()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Checkpoints, and their exports beside them."""
    if not MAKE.exists():
        pytest.skip(f"{MAKE} is not here")
    folder = tmp_path_factory.mktemp("outsider")
    names = ["roberta", "gpt2", "llama", "babylm-eos"]
    make(names, folder)
    shutil.copytree(folder / "models/roberta", folder / "models/untied")
    untied(folder / "models/untied")
    for name in names:
        build(str(folder / "models" / name), folder / "exports" / name)
    return folder


def damage(made, name, target, exported=None):
    """The checks that find damage, by what they compare with."""
    exported = exported or made / "exports" / name
    model = {} if target is None else {"model": exported}
    found = ng.verify(target or exported, torch=str(made / "models" / name), sample=50, seed=0, **model)
    assert any("PyTorch" in check.what and check.n for check in found.checks)
    return ["PyTorch" in check.what for check in found.damage]


def run(made, name, output):
    ask, data = RUNS[name]
    model = ng.load(made / "exports" / name.split()[1], device="cpu", precision="fp32")
    return ask(model, data, output=output, progress=False).folder


@pytest.mark.parametrize("name", RUNS)
def test_the_program_as_it_is_agrees(made, name, tmp_path):
    assert not damage(made, name.split()[1], run(made, name, tmp_path / "run"))


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("probe roberta", {(tokenizer, "with_mask"): lambda text, _: text, (tokenizer, "before_mask"): str}),
        ("likelihood roberta", UNTRIMMED),
        ("likelihood gpt2", UNTRIMMED),
        ("continuation gpt2", UNTRIMMED),
        ("continuation gpt2", {(span, "behind"): lambda before, text, _joiner: (f"{before} {text}", 0)}),
        ("japanese llama", {(spans, "usual_joiner"): lambda _before, _after: " "}),
        ("joined gpt2", {(span, "behind"): lambda before, text, _: BEHIND(before, text)}),
        ("accents gpt2", {(span, "trimmed"): _composed}),
        (
            "accents roberta",
            {
                (tokenizer, "with_mask"): lambda text, mask: _composed(WITH_MASK(text, mask)),
                (tokenizer, "before_mask"): lambda text: _composed(BEFORE_MASK(text)) + " ",
            },
        ),
        ("unbroken roberta", {(spelling, "_SPACE_AT_END"): regex.compile(r" +\Z")}),
        ("jessica gpt2", {(span._Text, "of"): _without_first_word}),
        ("lists gpt2", {(span._Text, "of"): _a_neighbours_score}),
        ("lists gpt2", {(span._Text, "of"): _word_of(_last_token_in_next_word)}),
        ("lists gpt2", {(span._Text, "of"): _word_of(_first_token_in_word_before)}),
        ("lists gpt2", {(span, "_WORD"): re.compile(r"[\w ]+|\S+")}),
        ("alone gpt2", {(span._Text, "of"): _a_neighbours_score}),
        ("lists roberta", {(span._Text, "of"): _a_neighbours_score}),
        ("lists roberta", {(span._Text, "of"): _word_of(_first_token_in_word_before)}),
        *(
            (name, {(span, "log_beginnings"): _without_correction(place)})
            for name in ("ends gpt2", "behind gpt2")
            for place in (0, 1, -1)
        ),
        ("ends gpt2", {(span, "beginnings"): lambda exported: spans.beginnings(exported)[::-1]}),
        ("choice roberta", {(spans.Encoder, "alone"): _nothing_around}),
        ("choice gpt2", {(spans.Encoder, "alone"): lambda _, sentence: sentence}),
        ("choice roberta", {(span.Span, "answer"): _characters_for_bytes}),
    ],
)
def test_a_fault_in_reading_is_found(made, name, faults, tmp_path, monkeypatch):
    for (module, own), fault in faults.items():
        monkeypatch.setattr(module, own, fault)
    assert any(damage(made, name.split()[1], run(made, name, tmp_path / "run")))


def test_a_mask_that_does_not_take_its_space_is_found(made, monkeypatch):
    assert not damage(made, "babylm-eos", None)
    monkeypatch.setattr(tokenizer, "AddedToken", lambda mask, **flags: AddedToken(mask, **flags | {"lstrip": False}))
    assert damage(made, "babylm-eos", None) == [True]


def overwritten(_name, model, *_):
    """The head of a model is its embeddings, as transformers 4 loaded it."""
    with torch.no_grad():
        model.lm_head.decoder.weight.copy_(model.get_input_embeddings().weight)


def test_a_head_that_is_overwritten_when_the_checkpoint_is_loaded_is_found(made, tmp_path, monkeypatch):
    checkpoint = str(made / "models/untied")
    assert not damage(made, "untied", None, build(checkpoint, tmp_path / "right"))
    monkeypatch.setattr(inventory, "refuse_unsound", overwritten)
    assert damage(made, "untied", None, build(checkpoint, tmp_path / "wrong")) == [True]


def in_lower_case(*given):
    """A tokenizer that is read with another normalisation than the one in its file."""
    found = TOKENIZER_IN(*given)
    found.backend_tokenizer.normalizer = normalizers.Lowercase()
    return found


@pytest.mark.parametrize("name", ["roberta", "gpt2", "babylm-eos"])
def test_a_tokenizer_that_is_read_wrongly_is_found(made, name, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "tokenizer_in", in_lower_case)
    assert any(damage(made, name, None, build(str(made / "models" / name), tmp_path / "wrong")))
