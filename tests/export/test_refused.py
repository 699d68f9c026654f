"""What cannot be exported is refused in one line, and nothing is left behind, whatever a checkpoint holds."""

import json
import os
import re
import shutil
import struct
from pathlib import Path

import pytest
import torch
import transformers as hf
from negengine.engine.basics.errors import InputError
from negengine.export import build as building
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.tasks import TASKS
from negengine.export.training.base import Base
from safetensors.torch import load_file
from tiny_checkpoints import save_classifier

PAIRS, TOKENS = "text-classification", "token-classification"


def refused(reference, folder, match, **options):
    with pytest.raises(InputError, match=match) as caught:
        build(str(reference), folder, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 600
    assert not folder.exists()
    assert not list(folder.parent.glob(f".{folder.name}.*"))


def changed(name, **content):
    """Changes a JSON file of a checkpoint."""

    def change(copy):
        (copy / name).write_text(json.dumps(json.loads((copy / name).read_text("utf-8")) | content), "utf-8")

    return change


def holding(name, content: bytes):
    return lambda copy: (copy / name).write_bytes(content)


def a_pipe(name):
    return lambda copy: [(copy / name).unlink(), os.mkfifo(copy / name)]


def of(config):
    """Its configuration becomes that of another model."""
    return holding(CONFIG, config.to_json_string().encode())


def without(pattern):
    return lambda copy: [path.unlink() for path in copy.glob(pattern)]


def without_mask(copy):
    changed("tokenizer_config.json", mask_token=None)(copy)


def cut_off(copy):
    weights = (copy / WEIGHTS).read_bytes()
    (copy / WEIGHTS).write_bytes(weights[: len(weights) // 2])


def with_a_token(copy):
    tokenizer = hf.AutoTokenizer.from_pretrained(copy)
    changed(CONFIG, vocab_size=len(tokenizer))(copy)
    tokenizer.add_tokens(["smurfing"])
    tokenizer.save_pretrained(copy)


def an_encoder(copy):
    hf.BertModel(hf.BertConfig.from_pretrained(copy)).save_pretrained(copy)


def pickled(copy):
    torch.save(load_file(copy / WEIGHTS), copy / "pytorch_model.bin")
    (copy / WEIGHTS).unlink()


def in_parts(index: bytes):
    return lambda copy: [(copy / WEIGHTS).rename(copy / "one.safetensors"), holding(INDEX, index)(copy)]


CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
NO_FILE = r"cannot be read \(it is a pipe, not a file\)|holds no config\.json"
T5 = hf.T5Config(architectures=["T5ForConditionalGeneration"])
WRONG_SIZES = {"hidden_size": 1.5, "num_attention_heads": 0, "pad_token_id": 10**9, "num_hidden_layers": "many"}
INDEX, SHARDS = f"{WEIGHTS}.index.json", {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
WRONG = {  # what is wrong → what is done to the checkpoint, what an export says, and what --check looks at that says it
    "no configuration": (without(CONFIG), r"tiny holds no config\.json"),
    "cut-off weights": (cut_off, r"model\.safetensors is damaged or cut off .*: fetch it again", "weights"),
    "no second file": (in_parts(json.dumps(SHARDS).encode()), r"two\.safetensors is missing, which", "weights"),
    "an index that is cut off": (in_parts(b"{"), r"index\.json: not JSON", "weights"),
    "no tokenizer": (without("*token*"), "tokenizer could be loaded: there is no tokenizer file", "tokenizer"),
    "a family without masked models": (changed(CONFIG, model_type="ctrl"), "ctrl model, which has no masked-LM head"),
    "an encoder and a decoder": (of(T5), "tiny: a model of the family t5 has an encoder and a decoder, and cannot be"),
    "pictures": (of(hf.Gemma3Config()), r"tiny reads more than texts, .* text model alone \(gemma3_text\)"),
    **{
        name: (of(hf.CONFIG_MAPPING[name](**sizes)), f"the family {name} cannot be exported: {said}", "family")
        for name, sizes, said in (
            ("longformer", {}, "its windows of attention are traced for inputs of one length only"),
            ("nystromformer", {"num_landmarks": 8}, "where num_landmarks is not .*, it takes inputs of one length"),
            ("perceiver", {}, "it reads bytes through latents: no row of it belongs to a mask alone"),
            ("xmod", {}, "a text takes the layers of its language, and a graph has the same for all"),
        )
    },
    "sparse": (of(hf.Gemma3nTextConfig()), "with sparse activations, it needs the inverse of the error function"),
    "relative positions": (
        changed(CONFIG, position_embedding_type="relative_key"),
        "transformers 5 has it no more",
        "family",
    ),
    **{f"{name} is a pipe": (a_pipe(name), NO_FILE) for name in (CONFIG, TOKENIZER, WEIGHTS)},
    "nested configuration": (holding(CONFIG, b"[" * 100_000), r"config\.json"),
    "a family that is not known": (
        changed(CONFIG, model_type="neobert"),
        r"^tiny: transformers 5\S+ does not know the family neobert; another version may know it$",
    ),
    "no type": (holding(CONFIG, b"{}"), r"config\.json|tiny"),
    **{f"{name} {value!r}": (changed(CONFIG, **{name: value}), "tiny") for name, value in WRONG_SIZES.items()},
    "nested tokenizer": (holding(TOKENIZER, b"[" * 100_000), "tiny: no fast tokenizer could be loaded"),
    "empty weights": (holding(WEIGHTS, b""), "tiny"),
    "a header without end": (holding(WEIGHTS, struct.pack("<Q", 2**63) + b"{"), "tiny"),
    "an encoder alone": (an_encoder, r"weights lack cls\.predictions", "head"),
    "no weights": (without(WEIGHTS), "(no files of|has no safetensors) weights", "weights"),
    "pickled weights": (pickled, "has no safetensors weights; --allow-pickle reads pickled ones", "weights"),
    "no mask": (without_mask, r"names no mask token, though there is \[MASK\]: add", "tokenizer"),
    "an added token": (with_a_token, "1 token beyond them, such as 'smurfing': .*resize_token_embeddings", "tokenizer"),
    "10**9 layers": (changed(CONFIG, num_hidden_layers=10**9), "says num_hidden_layers 1000000000", "input"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_checkpoint_that_is_not_what_it_should_be(wrong, copy, tmp_path):
    change, said, *looked_at = WRONG[wrong]
    change(copy)
    if looked_at:
        findings = check(str(copy)).findings
        ((what, why),) = [(finding.what, finding.said) for finding in findings if not finding.possible]
        assert [what] == looked_at
        assert re.search(said, why)
        is_made = "head" in {finding.what for finding in findings}
        assert is_made is (what not in {"family", "input"})  # else there is no model whose weights could be named
    refused(copy, tmp_path / "out", said)


def test_pickled_weights_are_read_where_they_are_allowed(copy, tmp_path):
    pickled(copy)
    assert check(str(copy), allow_pickle=True).possible
    assert (build(str(copy), tmp_path / "out", allow_pickle=True) / "model.onnx").is_file()


def saved(name, **options):
    return lambda folder: save_classifier(folder / name, "bert", **options)


def named(**keys):
    """A classifier whose config.json says other things of its labels; a key that is None is removed."""

    def make(folder):
        path = saved("pairs")(folder) / CONFIG
        content = json.loads(path.read_text()) | keys
        path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
        return path.parent

    return make


def of_family(config):
    def make(folder):
        copy = save_classifier(folder / "tiny", "bert")
        own = config(architectures=["TinyForSequenceClassification"], vocab_size=50)
        (copy / CONFIG).write_text(own.to_json_string())
        return copy

    return make


NO_ENCODERS = [
    (hf.GPT2Config, "gpt2 reads a text from left to right alone"),
    (hf.BartConfig, "bart has an encoder and a decoder"),
]
OTHERS = [  # its name or how it is made, options of the export, what is said
    ("mini", {"task": PAIRS}, "mini is not a sequence classifier: its weights lack"),
    ("mini", {"task": TOKENS}, "mini is not a token classifier: its weights lack"),
    ("mini", {"task": "text-generation"}, "mini is configured as an encoder"),
    ("mini", {"bos": True}, "--bos is for causal models; mini is exported for fill-mask"),
    (saved("pairs"), {"task": "fill-mask"}, "pairs is not a masked language model: its weights lack"),
    (saved("scorer", names=("score",)), {}, "scorer has 1 label: it gives a score"),
    (saved("multi", problem_type="multi_label_classification"), {}, "multi gives several labels at once"),
    (named(label2id={"yes": 0, "no": 1}), {}, "label 0 is 'entailment' in id2label, and 'yes' in label2id"),
    (named(id2label=None, label2id={"yes": 0, "no": 2}), {}, r"label2id of config.json has the numbers \[0, 2\]"),
    (named(id2label=None, label2id={"yes": "x"}), {}, "label2id of config.json does not give each label a number"),
    *(
        (of_family(make), {}, f"tiny: a model of the family {said}.*; give a classifier that is an encoder")
        for make, said in NO_ENCODERS
    ),
    (lambda folder: folder, {"revision": "main"}, "--revision is for models of the hub"),
    *((name, {}, "is not a folder: give a hub id, a local") for name in ("./missing", "/missing/model", "~/model")),
    ("a/b/c", {}, "neither a folder here nor a hub id"),
]


@pytest.mark.parametrize(("model", "options", "said"), OTHERS, ids=range(len(OTHERS)))
def test_a_model_for_something_else(model, options, said, tmp_path):
    refused(model if isinstance(model, str) else model(tmp_path), tmp_path / "out", said, **options)


@pytest.mark.parametrize("task", ["fill-mask", PAIRS, TOKENS])
def test_a_graph_that_disagrees_with_pytorch_is_not_published(task, copy, classifier, tmp_path, monkeypatch):
    checkpoint, reference = copy if task == "fill-mask" else classifier(task, "bert")[0], building.reference_of

    def off(*given, **options):
        found = reference(*given, **options)
        found.logits[-1, 0] += 0.5
        return found

    monkeypatch.setattr(building, "reference_of", off)
    refused(checkpoint, tmp_path / "out", r"the exported graph disagrees with PyTorch: \|Δlogit\| 0.5", task=task)


def test_code_of_a_checkpoint_is_never_run_and_nobody_is_asked(copy, tmp_path, monkeypatch):
    mapped, told = {"AutoConfig": "configuration_mine.Mine", "AutoModelForMaskedLM": "modeling_mine.Mine"}, []
    for name in ("configuration_mine.py", "modeling_mine.py", "tokenization_mine.py"):
        (copy / name).write_text("raise AssertionError('the code of the checkpoint was run')")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question on the terminal"))
    changed(CONFIG, auto_map=mapped)(copy)  # of a model that transformers knows
    ignored = "its own code (auto_map) is not run: this is transformers' bert model with its weights"
    verdict = check(str(copy))
    assert (verdict.possible, verdict.findings[0].said.endswith(ignored)) == (True, True)
    build(str(copy), tmp_path / "known", say=told.append)
    assert told[0] == f"tiny: {ignored}"
    changed(
        "tokenizer_config.json", tokenizer_class="Mine", auto_map={"AutoTokenizer": [None, "tokenization_mine.Mine"]}
    )(copy)
    build(str(copy), tmp_path / "words")  # by its tokenizer.json
    changed(CONFIG, model_type="mine")(copy)
    said = r"^tiny needs code of its own \(auto_map\), which negengine never runs; a newer transformers may know it$"
    refused(copy, tmp_path / "out", said)
    with pytest.raises(InputError, match=said):
        Base.find(str(copy), TASKS["text-classification"].head, ("yes", "no"))
    with pytest.raises(InputError, match=said):
        check(str(copy))


def test_a_folder_that_is_not_this_tasks_export_is_not_overwritten(copy, classifier, exported, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="mine exists and is not an exported model"):
        build(str(copy), tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"
    shutil.copytree(exported("bert"), tmp_path / "other")
    with pytest.raises(InputError, match=r"was exported for fill-mask: give another --output"):
        build(str(classifier(PAIRS, "bert")[0]), tmp_path / "other", task=PAIRS)
    with pytest.raises(InputError, match=r"'a:b' is not a name for a model: rename the checkpoint's folder"):
        build(str(copy.rename(copy.with_name("a:b"))))
    assert not Path("models/a:b").exists()
