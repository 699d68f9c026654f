"""What cannot be exported is refused in one line, and nothing is left behind, whatever a checkpoint holds."""

import json
import os
import shutil
import struct
from pathlib import Path

import pytest
import torch
from classifier_checkpoints import WORDS, save_classifier
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.classifier import TokenClassifier
from negengine.export import build as building
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.families import FAMILIES, Family
from negengine.export.tasks import TASKS
from negengine.export.training.base import Base
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    FNetConfig,
    FNetForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
)
from word_tokenizer import word_tokenizer

from .tokenizer_files import tokenizer_json
from .unsuitable import UNSUITABLE, save_unsuitable

PAIRS, TOKENS = "text-classification", "token-classification"


def refused(reference, folder, match, **options):
    with pytest.raises(InputError, match=match) as caught:
        build(str(reference), folder, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 600
    assert not folder.exists()
    assert not list(folder.parent.glob(f".{folder.name}.*"))


# ---------------------------------------------------------------- a checkpoint that lacks something


def without_mask(copy):
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        content = json.loads((copy / name).read_text())
        content.pop("mask_token", None)
        (copy / name).write_text(json.dumps(content))


def without_tokenizer(copy):
    for path in copy.glob("*token*"):
        path.unlink()


def cut_off(copy):
    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[: len(weights) // 2])


def a_pipe(name):
    def replace(copy):
        (copy / name).unlink()
        os.mkfifo(copy / name)

    return replace


def of_ctrl(copy):
    config = {"model_type": "ctrl", "architectures": ["CTRLLMHeadModel"], "vocab_size": 420}
    (copy / "config.json").write_text(json.dumps(config))


NO_FILE = r"cannot be read \(it is a pipe, not a file\)|holds no config\.json"
CHANGED = {  # what is wrong → what is done to the checkpoint, what is said
    "no configuration": (lambda copy: (copy / "config.json").unlink(), r"tiny holds no config\.json"),
    "no JSON": (lambda copy: (copy / "config.json").write_text("{"), r"config\.json: not JSON"),
    "cut-off weights": (cut_off, "the weights could not be read"),
    "an encoder alone": (
        lambda copy: BertModel(BertConfig.from_pretrained(copy)).save_pretrained(copy),
        r"tiny is not a masked language model: its weights lack cls\.predictions",
    ),
    "no mask": (without_mask, "its tokenizer has no mask token"),
    "no tokenizer": (without_tokenizer, "tiny: no fast tokenizer could be loaded"),
    "a family that Optimum lacks": (of_ctrl, "ctrl"),
    **{f"{name} is a pipe": (a_pipe(name), NO_FILE) for name in ("config.json", "tokenizer.json", "model.safetensors")},
}


@pytest.mark.parametrize("wrong", CHANGED)
def test_a_checkpoint_that_lacks_something(wrong, copy, tmp_path):
    change, said = CHANGED[wrong]
    change(copy)
    refused(copy, tmp_path / "out", said)


def test_pickled_weights_need_the_option(copy, tmp_path):
    model = BertForMaskedLM.from_pretrained(copy)
    (copy / "model.safetensors").unlink()
    torch.save(model.state_dict(), copy / "pytorch_model.bin")
    refused(copy, tmp_path / "out", "no safetensors weights; --allow-pickle reads pickled ones")
    assert (build(str(copy), tmp_path / "out", allow_pickle=True) / "model.onnx").is_file()


def test_what_cannot_fit_is_refused_before_the_work(copy, tmp_path, monkeypatch):
    monkeypatch.setattr(building.needs, "free_memory", lambda: 0.5e9)
    said = r"tiny: exporting it needs about 0.9 GB of memory .* only 0.5 GB of memory are free"
    refused(copy, tmp_path / "out", said)


# ---------------------------------------------------------------- a model for something else


def saved_gpt(folder):
    GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=1, vocab_size=11)).save_pretrained(folder / "gpt")
    return folder / "gpt"


def saved_fnet(folder):
    tokenizer_json(folder / "fnet", "fnet")
    FNetForMaskedLM(FNetConfig(vocab_size=200, hidden_size=16, num_hidden_layers=1)).save_pretrained(folder / "fnet")
    return folder / "fnet"


def saved_fnet_of_pairs(folder):
    config = FNetConfig(vocab_size=60, hidden_size=16, num_hidden_layers=1, intermediate_size=16, num_labels=3)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder / "fnet")
    word_tokenizer(WORDS).save_pretrained(folder / "fnet")
    return folder / "fnet"


def saved(name, **options):
    def save(folder):
        save_classifier(folder / name, "bert", **options)
        return folder / name

    return save


TRIED = r"\(tried: optimum-onnx [0-9.]+, transformers [0-9.]+, torch [^ ]+\)"
OTHERS = [  # how it is made, options of the export, what is said
    (saved_gpt, {"task": "fill-mask"}, "gpt2 model, which has no masked-LM head"),
    (saved_fnet, {}, "fnet: Optimum has no fill-mask export for the family fnet"),
    (saved_fnet_of_pairs, {"task": PAIRS}, f"fnet: Optimum has no {PAIRS} export for the family fnet {TRIED}"),
    (lambda _: "mini", {"task": PAIRS}, "mini is not a sequence classifier: its weights lack"),
    (lambda _: "mini", {"task": TOKENS}, "mini is not a token classifier: its weights lack"),
    (lambda _: "mini", {"task": "text-generation"}, "mini is configured as an encoder"),
    (lambda _: "mini", {"bos": True}, "--bos is for causal models; mini is exported for fill-mask"),
    (saved("pairs"), {"task": "fill-mask"}, "pairs is not a masked language model: its weights lack"),
    (saved("scorer", names=("score",)), {}, "scorer has 1 label: it gives a score"),
    (saved("single", names=("O",), task=TOKENS), {}, "single has 1 label"),
    (saved("multi", problem_type="multi_label_classification"), {}, "multi gives several labels at once"),
    (lambda folder: folder, {"revision": "main"}, "--revision is for models of the hub"),
    (lambda _: "./missing", {}, "is not a folder: give a hub id, a local folder, or mini"),
    (lambda _: "/missing/model", {}, "is not a folder: give a hub id, a local folder, or mini"),
    (lambda _: "~/model", {}, "is not a folder: give a hub id, a local folder, or mini"),
    (lambda _: "a/b/c", {}, "neither a folder here nor a hub id"),
]


@pytest.mark.parametrize(("make", "options", "said"), OTHERS, ids=range(len(OTHERS)))
def test_a_model_for_something_else(make, options, said, tmp_path):
    refused(make(tmp_path), tmp_path / "out", said, **options)


@pytest.mark.parametrize("family", UNSUITABLE)
def test_a_family_that_is_known_to_fail_is_refused_before_its_weights_are_read(family, tmp_path):
    refused(
        save_unsuitable(family, tmp_path), tmp_path / "out", rf"^{family}: the family {family} cannot be exported: "
    )


@pytest.mark.everything
@pytest.mark.parametrize("family", ["longformer", "nystromformer"])
def test_what_a_library_cannot_run_is_told_in_one_line(family, tmp_path, monkeypatch):
    """Without the entries that refuse them: the day on which one of them works, this fails, and its entry can go."""
    monkeypatch.setitem(FAMILIES, family, Family(first_position=2))
    refused(save_unsuitable(family, tmp_path), tmp_path / "out", UNSUITABLE[family][-1])


@pytest.mark.parametrize(("task", "wrong"), [("fill-mask", slice(None)), (PAIRS, slice(None)), (TOKENS, (-1, 0))])
def test_a_graph_that_disagrees_with_pytorch_is_not_published(task, wrong, copy, classifier, tmp_path, monkeypatch):
    checkpoint = copy if task == "fill-mask" else classifier(task, "bert")[0]
    reference = building.reference_logits

    def off(*given):
        logits = reference(*given).copy()
        logits[wrong] += 0.5
        return logits

    monkeypatch.setattr(building, "reference_logits", off)
    refused(checkpoint, tmp_path / "out", r"the exported graph disagrees with PyTorch: \|Δlogit\| 0.5", task=task)


def test_the_engine_refuses_a_model_for_another_task(mini):
    with pytest.raises(InputError, match="is exported for fill-mask, token-classification is needed"):
        TokenClassifier(mini)


# ---------------------------------------------------------------- hostile files

CONFIGS = {
    "empty": b"",
    "NUL": b"\0" * 100,
    "not UTF-8": b"\xff\xfe{}",
    "nested": b"[" * 100_000,
    "nested objects": b'{"a": ' * 900 + b"1" + b"}" * 900,
    "a list": b"[]",
    "null": b"null",
    "a number": b"5",
    "10,000 digits": b"9" * 10_000,
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
HOSTILE = [
    *(("config.json", CONFIGS, key, r"config\.json|tiny") for key in CONFIGS),
    *(("config.json", CHANGES, key, "tiny") for key in CHANGES),
    *(("tokenizer.json", TOKENIZERS, key, "tiny: no fast tokenizer could be loaded") for key in TOKENIZERS),
    *(("model.safetensors", WEIGHTS, key, "tiny") for key in WEIGHTS),
]


@pytest.mark.parametrize(
    ("name", "table", "key", "said"), HOSTILE, ids=[f"{name}, {key}" for name, _, key, _ in HOSTILE]
)
def test_a_file_that_is_not_what_it_should_be(name, table, key, said, copy):
    content = table[key]
    if isinstance(content, dict):
        content = json.dumps(json.loads((copy / name).read_text()) | content).encode()
    (copy / name).write_bytes(content)
    refused(copy, copy.parent / "out", said)


@pytest.fixture
def own_code(copy, monkeypatch):
    """Writes a configuration that names code beside it; running the code, or asking whether to, fails."""
    for name in ("configuration_mine.py", "modeling_mine.py", "tokenization_mine.py"):
        (copy / name).write_text("raise AssertionError('the code of the checkpoint was run')")

    def asked(*_):
        raise AssertionError("a question on the terminal")

    monkeypatch.setattr("builtins.input", asked)

    def write(name, **content):
        known = json.loads((copy / name).read_text())
        (copy / name).write_text(json.dumps(known | content))

    return write


MAP = {"AutoConfig": "configuration_mine.Mine", "AutoModelForMaskedLM": "modeling_mine.Mine"}


def test_a_model_that_needs_its_own_code_is_refused_without_a_question(copy, own_code, tmp_path):
    own_code("config.json", model_type="mine", auto_map=MAP)
    said = "^tiny needs code of its own \\(auto_map\\), which negengine never runs$"
    refused(copy, tmp_path / "out", said)
    with pytest.raises(InputError, match=said):
        check(str(copy))
    with pytest.raises(InputError, match=said):
        Base.find(str(copy), TASKS["text-classification"].head, ("yes", "no"))


def test_a_tokenizer_that_needs_its_own_code_is_refused(copy, own_code, tmp_path):
    mapped = {"AutoTokenizer": [None, "tokenization_mine.Mine"]}
    own_code("tokenizer_config.json", tokenizer_class="Mine", auto_map=mapped)
    own_code("config.json", tokenizer_class="Mine")
    said = r"^tiny: its tokenizer needs code of its own \(auto_map\), which negengine never runs$"
    refused(copy, tmp_path / "out", said)


def test_the_own_code_of_a_known_model_is_ignored(copy, own_code, tmp_path):
    own_code("config.json", auto_map=MAP)
    assert check(str(copy)).possible
    assert build(str(copy), tmp_path / "out").is_dir()


def test_a_checkpoint_whose_name_leads_elsewhere(copy):
    renamed = copy.rename(copy.with_name("a:b"))
    with pytest.raises(InputError, match=r"'a:b' is not a name for a model: rename the checkpoint's folder"):
        build(str(renamed))
    assert not Path("models/a:b").exists()


def test_a_folder_that_is_not_this_tasks_export_is_not_overwritten(copy, classifier, exported, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="mine exists and is not an exported model"):
        build(str(copy), tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    shutil.copytree(exported("bert"), tmp_path / "other")
    with pytest.raises(InputError, match=r"was exported for fill-mask: give another --output"):
        build(str(classifier(PAIRS, "bert")[0]), tmp_path / "other", task=PAIRS)
