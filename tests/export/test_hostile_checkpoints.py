"""A checkpoint of elsewhere can hold anything: what cannot be used is one line, and nothing is left behind."""

import json
import os
import struct
from pathlib import Path

import pytest
from negengine.engine.basics.errors import InputError
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.tasks import TASKS
from negengine.export.training.base import Base

DIGITS = "9" * 10_000
CONFIGS = {
    "empty": b"",
    "NUL": b"\0" * 100,
    "not UTF-8": b"\xff\xfe{}",
    "nested": b"[" * 100_000,
    "nested objects": b'{"a": ' * 900 + b"1" + b"}" * 900,
    "a list": b"[]",
    "null": b"null",
    "a number": b"5",
    "10,000 digits": DIGITS.encode(),
    "17 MB": b" " * 2**24 + b"{}",
    "no type": b"{}",
    "a type of 5,000 letters": json.dumps({"model_type": "x" * 5_000}).encode(),
    "a type that is a list": b'{"model_type": []}',
    "a type that is null": b'{"model_type": null}',
}
CHANGES = {
    "10**9 layers": {"num_hidden_layers": 10**9},
    "layers below 0": {"num_hidden_layers": -1},
    "null layers": {"num_hidden_layers": "many"},
    "a vocabulary of 10**15": {"vocab_size": 10**15},
    "a vocabulary that is a word": {"vocab_size": "x"},
    "a hidden size of 0": {"hidden_size": 0},
    "a hidden size of 1.5": {"hidden_size": 1.5},
    "another hidden size": {"hidden_size": 32},
    "no heads": {"num_attention_heads": 0},
    "an activation that is none": {"hidden_act": "x"},
    "a padding id beyond the vocabulary": {"pad_token_id": 10**9},
    "positions of 10**12": {"max_position_embeddings": 10**12},
}
TOKENIZERS = {
    "empty": b"",
    "null": b"null",
    "nested": b"[" * 100_000,
    "not UTF-8": b"\xff",
    "an unknown model": b'{"version": "1.0", "model": {"type": "x"}}',
}
WEIGHTS = {
    "empty": b"",
    "a header without end": struct.pack("<Q", 2**63) + b"{",
    "a header that is none": struct.pack("<Q", 4) + b"null",
    "a nested header": struct.pack("<Q", 100_000) + b"[" * 100_000,
    "a header of numbers": struct.pack("<Q", 9) + b'{"a": 1 }',
    "no tensors": struct.pack("<Q", 2) + b"{}",
    "text": b"not weights at all, but a text",
}


def refused(copy: Path, said: str = "") -> None:
    with pytest.raises(InputError, match=said) as caught:
        build(str(copy), copy.parent / "out")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 600
    assert [path.name for path in copy.parent.iterdir()] == ["tiny"]


@pytest.mark.parametrize("content", CONFIGS)
def test_a_configuration_that_is_not_one(copy, content):
    (copy / "config.json").write_bytes(CONFIGS[content])
    refused(copy, r"config\.json|tiny")


@pytest.mark.parametrize("change", CHANGES)
def test_a_configuration_that_no_model_has(copy, change):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | CHANGES[change]))
    refused(copy, "tiny")


@pytest.mark.parametrize("content", TOKENIZERS)
def test_a_tokenizer_that_is_not_one(copy, content):
    (copy / "tokenizer.json").write_bytes(TOKENIZERS[content])
    refused(copy, "tiny: no fast tokenizer could be loaded")


@pytest.mark.parametrize("content", WEIGHTS)
def test_weights_that_are_none(copy, content):
    (copy / "model.safetensors").write_bytes(WEIGHTS[content])
    refused(copy, "tiny")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_file_that_is_a_pipe(copy, name):
    (copy / name).unlink()
    os.mkfifo(copy / name)
    refused(copy, r"cannot be read \(it is a pipe, not a file\)|holds no config\.json")


@pytest.fixture
def own_code(copy, monkeypatch):
    """Writes a configuration that names code beside it; running the code, or asking whether to, fails."""
    code = "raise AssertionError('the code of the checkpoint was run')"
    for name in ("configuration_mine.py", "modeling_mine.py", "tokenization_mine.py"):
        (copy / name).write_text(code)

    def asked(*_):
        raise AssertionError("a question on the terminal")

    monkeypatch.setattr("builtins.input", asked)

    def write(name, **content):
        known = json.loads((copy / name).read_text())
        (copy / name).write_text(json.dumps(known | content))

    return write


MAP = {"AutoConfig": "configuration_mine.Mine", "AutoModelForMaskedLM": "modeling_mine.Mine"}


def test_a_model_that_needs_its_own_code_is_refused_without_a_question(copy, own_code):
    own_code("config.json", model_type="mine", auto_map=MAP)
    said = "^tiny needs code of its own \\(auto_map\\), which negengine never runs$"
    refused(copy, said)
    with pytest.raises(InputError, match=said):
        check(str(copy))
    with pytest.raises(InputError, match=said):
        Base.find(str(copy), TASKS["text-classification"].head, ("yes", "no"))


def test_a_tokenizer_that_needs_its_own_code_is_refused(copy, own_code):
    mapped = {"AutoTokenizer": [None, "tokenization_mine.Mine"]}
    own_code("tokenizer_config.json", tokenizer_class="Mine", auto_map=mapped)
    own_code("config.json", tokenizer_class="Mine")
    refused(copy, r"^tiny: its tokenizer needs code of its own \(auto_map\), which negengine never runs$")


def test_the_own_code_of_a_known_model_is_ignored(copy, own_code, tmp_path):
    own_code("config.json", auto_map=MAP)
    assert check(str(copy)).possible
    assert build(str(copy), tmp_path / "out").is_dir()


def test_a_checkpoint_whose_name_leads_elsewhere(copy, monkeypatch):
    renamed = copy.rename(copy.with_name("a:b"))
    with pytest.raises(InputError, match=r"'a:b' is not a name for a model: rename the checkpoint's folder"):
        build(str(renamed))
