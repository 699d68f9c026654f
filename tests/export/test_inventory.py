"""Checkpoints as people have them: what is read is what was saved, or one line says why not, the same for --check.

Each case changes a tiny checkpoint as a program that people use leaves it. The right numbers are those of the model in
memory before it was saved, which no code of this project has read.
"""

import json
import logging
import shlex
import sys
import warnings
from contextlib import suppress

import pytest
import torch
import transformers as hf
from causal_checkpoints import byte_level
from negengine.engine.basics.errors import InputError
from negengine.engine.cli import main
from negengine.engine.inference.exported import load_exported
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.checkpoint import load, load_config, load_tokenizer, locate
from negengine.export.families import padding_id
from negengine.export.inventory import load_counted
from negengine.export.known_keys import refuse_unread
from negengine.export.quiet import quiet
from negengine.export.tasks import FILL_MASK, task_of
from safetensors.torch import load_file, save_file, save_model
from tiny_checkpoints import random_model, roberta_like_tokenizer, save, word_tokenizer
from transformers.utils import logging as transformers_logging

WEIGHTS, CONFIG, INDEX = "model.safetensors", "config.json", "model.safetensors.index.json"
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def bert(**further):
    words = word_tokenizer(
        ["a", "man", "who", "likes", "to", "sleep", "run", "not"], cls_token="[CLS]", sep_token="[SEP]"
    )
    sizes = {"vocab_size": len(words), "max_position_embeddings": 40, "pad_token_id": 0} | SIZES
    config = hf.BertConfig(**sizes | further)
    return random_model(hf.AutoModelForMaskedLM, config), words


def roberta(**further):
    words = roberta_like_tokenizer()
    sizes = {"vocab_size": len(words), "max_position_embeddings": 40, "type_vocab_size": 1} | SIZES
    config = hf.RobertaConfig(**sizes | {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2} | further)
    return random_model(hf.AutoModelForMaskedLM, config), words


def gpt2(**further):
    words = byte_level()
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 0, "eos_token_id": 0}
    return random_model(hf.AutoModelForCausalLM, hf.GPT2Config(vocab_size=len(words), **sizes, **further)), words


def llama(**further):
    words = byte_level()
    sizes = SIZES | {"max_position_embeddings": 64, "bos_token_id": 0, "eos_token_id": 0}
    return random_model(hf.AutoModelForCausalLM, hf.LlamaConfig(vocab_size=len(words), **sizes, **further)), words


@pytest.fixture
def saved(tmp_path):
    """A model of a family, and the folder that transformers saved it in."""

    def make(family, **further):
        model, words = family(**further)
        return model, save(tmp_path / "tiny", model, words)

    return make


def changed(folder, name=CONFIG, **content):
    known = json.loads((folder / name).read_text("utf-8"))
    kept = {key: value for key, value in (known | content).items() if value is not ...}
    (folder / name).write_text(json.dumps(kept), "utf-8")


def of_weights(change):
    """Changes the tensors of a file by their names."""

    def apply(folder):
        tensors = load_file(folder / WEIGHTS)
        made = change(tensors)
        kept = tensors if made is None else made
        save_file({key: own.contiguous() for key, own in kept.items()}, folder / WEIGHTS, metadata={"format": "pt"})

    return apply


def logits_of(model):
    ids = torch.tensor([[1, 7, 3, 9, 6, 2]])
    with torch.inference_mode():
        return model(input_ids=ids).logits


def read(folder):
    """The model as an export reads it; and what it says of it."""
    source = locate(str(folder))
    task = task_of(load_config(source))
    return load_counted(load(source, task.head), task.head)


def assert_is_read(folder, model):
    """What an export reads is the model that was saved; --check says yes."""
    found, inventory = read(folder)
    torch.testing.assert_close(logits_of(found), logits_of(model), rtol=1e-5, atol=1e-5)
    assert check(str(folder)).possible
    return inventory


def assert_is_refused(folder, said, *, by_check=None, **options):
    """In one line, by an export and by --check, which says no more than that."""
    with pytest.raises(InputError, match=said) as caught:
        build(str(folder), folder.parent / "out", **options)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) <= 500
    assert not (folder.parent / "out").exists()
    try:
        verdict = check(str(folder), **options)
    except InputError as error:
        verdict = None
        same = str(error) == line
    if verdict is None:
        assert same
        return
    against = [finding.said for finding in verdict.findings if not finding.possible]
    assert len(against) == 1
    assert line.endswith(against[0])


# ---------------------------------------------------------------- what is read is what was saved
@pytest.mark.parametrize("family", [gpt2, bert, llama])
@pytest.mark.parametrize("key", [True, ...])
def test_a_head_of_its_own_is_read_though_config_json_ties(family, key, saved):
    model, folder = saved(family, tie_word_embeddings=False)
    changed(folder, tie_word_embeddings=True if family is llama else key)
    inventory = assert_is_read(folder, model)
    assert inventory.is_untied
    assert "its head has weights of its own" in inventory.lines()[0]


HALF = {  # a tied model → the tensor that `save_model` keeps, and the one that it leaves out
    "gpt2": (gpt2, "lm_head.weight", "transformer.wte.weight"),
    "roberta": (roberta, "lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
    "llama": (lambda: llama(tie_word_embeddings=True), "lm_head.weight", "model.embed_tokens.weight"),
    "bert": (bert, "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    "bert, bias": (bert, "cls.predictions.decoder.bias", "cls.predictions.bias"),
}


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("case", HALF)
def test_tied_weights_are_filled_from_the_name_that_is_there(case, kept, saved):
    family, *names = HALF[case]
    model, folder = saved(family)
    whole = model.state_dict()

    def change(tensors):
        tensors[names[kept]] = whole[names[kept]].clone()
        tensors.pop(names[1 - kept], None)

    of_weights(change)(folder)
    assert_is_read(folder, model)


def test_what_safetensors_save_model_leaves_is_read(saved):
    model, folder = saved(gpt2)
    save_model(model, str(folder / WEIGHTS), metadata={"format": "pt"})
    assert len({"lm_head.weight", "transformer.wte.weight"} & load_file(folder / WEIGHTS).keys()) == 1
    assert_is_read(folder, model)


def old_buffers(tensors):
    tensors["bert.embeddings.position_ids"] = torch.arange(40)[None]
    tensors["bert.pooler.dense.weight"], tensors["bert.pooler.dense.bias"] = torch.zeros(32, 32), torch.zeros(32)
    tensors["cls.seq_relationship.weight"] = torch.zeros(2, 32)
    tensors["cls.species.weight"], tensors["cls.species.bias"] = torch.zeros(6, 32), torch.zeros(6)  # as AntiBERTy's


def test_tensors_of_other_heads_are_said_and_not_needed(saved):
    model, folder = saved(bert)
    of_weights(old_buffers)(folder)
    inventory = assert_is_read(folder, model)
    assert {"bert.pooler.dense.weight", "cls.seq_relationship.weight", "cls.species.bias"} <= {*inventory.unused}
    assert inventory.lines()[-1].endswith(f"not needed for the task, such as {inventory.unused[0]}")


def stale_index(folder):
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": "model-00001-of-00003.safetensors"}}))


def stray(folder):
    save_file({"x": torch.zeros(3)}, folder / "adapter_old.safetensors")


def dangling(folder):
    (folder / "rng_state.bin").symlink_to("nowhere")
    (folder / "pytorch_model.bin").symlink_to("nowhere")


def as_half(tensors):
    return {key: own.half() for key, own in tensors.items()}


def with_outputs(folder):
    changed(folder, return_dict=False, torchscript=True, output_hidden_states=True, output_attentions=True)


def in_shards(folder):
    model = hf.AutoModelForMaskedLM.from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert (folder / INDEX).is_file()


READ = {
    "a stale index": stale_index,
    "a stray file": stray,
    "a link to nothing": dangling,
    "outputs": with_outputs,
    "shards": in_shards,
    "padding -1": lambda folder: changed(folder, pad_token_id=-1),
    "no padding": lambda folder: changed(folder, pad_token_id=None),
    "old keys": lambda folder: changed(
        folder,
        directionality="bidi",
        pooler_type="first",
        output_past=True,
        gradient_checkpointing=False,
        xla_device=True,
    ),
}


@pytest.mark.parametrize("case", READ)
def test_what_changes_nothing_is_left_alone(case, saved):
    model, folder = saved(bert)
    READ[case](folder)
    assert_is_read(folder, model)


# ---------------------------------------------------------------- what is left is refused
def layers(tensors):
    return {key.replace(".layer.1.", ".layer.7."): own.clone() for key, own in tensors.items()} | tensors


def adapters(tensors):
    for i in range(2):
        tensors[f"bert.encoder.layer.{i}.output.adapters.task.adapter_down.0.weight"] = torch.zeros(8, 32)


def scaled(kind):
    def change(tensors):
        name = "bert.encoder.layer.0.output.dense.weight"
        tensors[name] = tensors[name].to(kind)
        tensors[f"{name}_scale"] = torch.ones(32)

    return change


def prefixed(prefix):
    return lambda tensors: {f"{prefix}{key}": own for key, own in tensors.items()}


def compiled_layers(tensors):
    return {
        key.replace("bert.", "bert._orig_mod.").replace("cls.", "_orig_mod.cls."): own for key, own in tensors.items()
    }


def emptied(tensors):
    tensors["bert.embeddings.word_embeddings.weight"] = torch.zeros(0)


def with_a_bias(tensors):
    tensors["bert.encoder.layer.0.attention.self.gate"] = torch.zeros(4)


def says(**content):
    return lambda folder: changed(folder, **content)


def without_weights(name, content=b"x"):
    def change(folder):
        (folder / WEIGHTS).unlink()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    return change


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 438007537\n"


def pointer(name):
    return lambda folder: (folder / name).write_bytes(POINTER)


def linked(folder):
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to("../blobs/gone")


def without_mask(folder):
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (folder / name).is_file():
            changed(folder, name, mask_token=...)


def an_adapter_beside(folder):
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "lab/x"}))
    save_file({"x": torch.zeros(3)}, folder / "adapter_model.safetensors")


def an_adapter_alone(folder):
    an_adapter_beside(folder)
    (folder / WEIGHTS).unlink()


REFUSED = {
    "layers beyond": (of_weights(layers), "does not read 16 tensors .*config.json says 2 layers, and the files have 8"),
    "bottleneck adapters": (of_weights(adapters), "does not read 2 tensors .* merge its adapters into the model"),
    "an unknown tensor": (of_weights(with_a_bias), r"does not read 1 tensor .*self\.gate, which may change"),
    "float8 with scales": (of_weights(scaled(torch.float8_e4m3fn)), "quantised .*weight is F8_E4M3.*: give the"),
    "int8 with scales": (of_weights(scaled(torch.int8)), "is quantised .* is I8"),
    "scales alone": (of_weights(scaled(torch.float32)), "is quantised .*weight_scale scales another tensor"),
    "int32": (of_weights(scaled(torch.int32)), "is quantised .* is I32"),
    **{
        method: (says(quantization_config={"quant_method": method, "bits": 4}), rf"is quantised \({method}\): give the")
        for method in ("gptq", "awq", "bitsandbytes", "compressed-tensors", "fbgemm_fp8", "hqq", "torchao", "new")
    },
    "8 bit": (says(quantization_config={"load_in_8bit": True}), r"is quantised \(bitsandbytes\)"),
    "another key": (says(attention_bias_type="alibi"), "says attention_bias_type alibi, .* remove it from config.json"),
    "module.": (of_weights(prefixed("module.")), r"begin with 'module\.', as a program for training wraps"),
    "_orig_mod.": (of_weights(prefixed("_orig_mod.")), r"begin with '_orig_mod\.'"),
    "module._orig_mod.": (of_weights(prefixed("module._orig_mod.")), r"begin with 'module\._orig_mod\.'"),
    "model.": (of_weights(prefixed("model.")), r"begin with 'model\.'"),
    "compiled layers": (of_weights(compiled_layers), r"begin with '_orig_mod\.'"),
    "ZeRO-3": (of_weights(emptied), "word_embeddings.weight has no numbers in the file; .*zero_to_fp32"),
    "another shape": (
        says(intermediate_size=48),
        r"is 64 × 32 in the file, and config\.json asks for another|is 64 in",
    ),
    "optimum-cli": (without_weights("model.onnx"), "model.onnx is an ONNX export of another program: give the"),
    "optimum-cli, a folder": (without_weights("onnx/model.onnx"), "model.onnx is an ONNX export"),
    "TensorFlow": (without_weights("tf_model.h5"), "tf_model.h5 is weights for TensorFlow: load them"),
    "Flax": (without_weights("flax_model.msgpack"), "flax_model.msgpack is weights for Flax"),
    "Lightning": (without_weights("last.ckpt"), "last.ckpt is a checkpoint of another program"),
    "another name": (without_weights("weights.safetensors"), "weights.safetensors is tensors under another name"),
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), r"no files of weights \(model.safetensors\)"),
    "an adapter alone": (an_adapter_alone, "is a LoRA adapter of lab/x, not a model: give --base lab/x"),
    "a model and an adapter": (
        an_adapter_beside,
        "holds a model and an adapter.* remove adapter_config.json; .*--base",
    ),
    "a link to nothing for weights": (linked, "model.safetensors is a link to nothing: fetch the file again"),
    **{
        f"a pointer for {name}": (pointer(name), rf"{name} is a pointer of Git LFS, not the file itself: run `git lfs")
        for name in (WEIGHTS, CONFIG, "tokenizer.json")
    },
    "no mask token": (without_mask, r'names no mask token, though there is \[MASK\]: add "mask_token": "\[MASK\]"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_accounted_for_is_refused_in_one_line(case, saved):
    change, said = REFUSED[case]
    _, folder = saved(bert)
    change(folder)
    assert_is_refused(folder, said)


def test_a_key_that_a_newer_transformers_wrote_is_refused(saved):
    _, folder = saved(llama)
    changed(folder, transformers_version="6.0.0", rotations={"theta": 5e5})
    assert_is_refused(folder, "says rotations .*, which transformers 6.0.0 wrote, .*does not read it: a newer transf")


# What the config.json of a published checkpoint holds beside the keys of its class.
PUBLISHED = {
    "albert-base-v2": (
        "albert",
        {"down_scale_factor": 1, "gap_size": 0, "net_structure_type": 0, "num_memory_blocks": 0},
    ),
    "gpt2": ("gpt2", {"n_ctx": 1024, "summary_type": "cls_index", "summary_use_proj": True}),
    "EleutherAI/gpt-j-6b": ("gptj", {"rotary": True, "scale_attn_weights": True, "gradient_checkpointing": False}),
    "bigscience/bloom-560m": (
        "bloom",
        {"seq_length": 2048, "offset_alibi": 100, "masked_softmax_fusion": True, "skip_bias_add": True, "n_embed": 1024}
        | {"bias_dropout_fusion": True, "skip_bias_add_qkv": False, "attention_softmax_in_fp32": True},
    ),
    "microsoft/deberta-base": ("deberta", {"padding_idx": 0, "pooler_dropout": 0, "position_biased_input": False}),
    "allenai/longformer-base-4096": ("longformer", {"attention_mode": "longformer", "ignore_attention_mask": False}),
    "HuggingFaceTB/SmolLM2-135M": ("llama", {"is_llama_config": True, "rope_interleaved": False}),
    "flaubert/flaubert_base_cased": ("flaubert", {"bptt": 512, "lgs": "fr", "max_vocab": -1, "share_inout_emb": True}),
    "cross-encoder/nli-roberta-base": (
        "roberta",
        {"sentence_transformers": {"version": "4.1.0"}, "gradient_checkpointing": 0},
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_keys_of_published_checkpoints_that_change_nothing_are_known(name):
    kind, written = PUBLISHED[name]
    refuse_unread(name, hf.AutoConfig.for_model(kind), written)


@pytest.mark.everything
def test_each_key_that_the_installed_transformers_writes_is_known():
    kinds = {kind for head in (hf.AutoModelForMaskedLM, hf.AutoModelForCausalLM) for kind in head._model_mapping}
    made = []
    for kind in kinds:
        with suppress(Exception):  # some have no defaults
            made.append(kind())
    assert len(made) > 150
    for config in made:
        refuse_unread(config.model_type, config, json.loads(config.to_json_string(use_diff=False)))


def test_a_padding_token_that_stands_in_each_text_is_refused_where_positions_count_by_it(saved):
    _, folder = saved(roberta)
    changed(folder, pad_token_id=0)
    assert_is_refused(folder, "says pad_token_id 0, which is '<s>' and stands in each text")


# ---------------------------------------------------------------- tokenizers
@pytest.mark.parametrize("family", [roberta, bert])
def test_a_tokenizer_of_transformers_5_is_read(family, saved):
    """As it writes them: another class, and a list of further special tokens."""
    _, folder = saved(family)
    before = hf.AutoTokenizer.from_pretrained(folder)
    changed(folder, "tokenizer_config.json", tokenizer_class="TokenizersBackend", extra_special_tokens=["<e>"])
    (folder / "special_tokens_map.json").unlink(missing_ok=True)
    source = locate(str(folder))
    found = load_tokenizer(source, load_config(source), FILL_MASK.head)
    text = f"a man who likes to {before.mask_token} sleep"
    assert found(text)["input_ids"] == before(text)["input_ids"]
    assert (found.mask_token_id, found.pad_token_id) == (before.mask_token_id, before.pad_token_id)


def test_a_padding_token_without_a_row_is_accepted_as_no_input_has_it(saved, tmp_path):
    model, folder = saved(gpt2)
    words = hf.AutoTokenizer.from_pretrained(folder)
    words.add_special_tokens({"pad_token": "[PAD]"})
    words.save_pretrained(folder)
    assert_is_read(folder, model)
    words.add_tokens(["smurfing"])
    words.save_pretrained(folder)
    assert_is_refused(folder, "1 token beyond them, such as 'smurfing'")


def test_warnings_that_say_something_of_numbers_are_said_once_in_one_line(capsys):
    heard = []
    transformers_logging.set_verbosity_error()  # as a training leaves it
    with quiet(heard.append):
        for _ in range(2):
            warnings.warn("It uses the byte fallback option,\nwhich is not implemented. More.", stacklevel=1)
            logging.getLogger("transformers.x").warning("Unrecognized keys in `rope_scaling`: {'a'}")
        logging.getLogger("transformers.x").warning("Some weights are newly initialized")
        warnings.warn("deprecated", FutureWarning, stacklevel=1)
        sys.stdout.write("noise")
    assert heard == [
        "transformers warns: It uses the byte fallback option, which is not implemented.",
        "transformers warns: Unrecognized keys in `rope_scaling`: {'a'}",
    ]
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------- the whole way
def test_the_padding_id_matters_only_where_positions_count_by_it(saved, tmp_path, monkeypatch, capsys):
    _, folder = saved(bert, pad_token_id=7)  # a word
    out = tmp_path / "it's mine"
    monkeypatch.setattr(sys, "argv", ["negengine", "export", str(folder), "-o", str(out)])
    assert main.run() == 0
    assert f"next, `negengine select {shlex.quote(str(out))}`" in capsys.readouterr().err
    exported = load_exported(out)
    assert exported.padding_id is None
    assert exported.info["inventory"] == read(folder)[1].digest


@pytest.mark.parametrize(("kind", "wanted"), [(hf.FlaubertConfig, 7), (hf.XLMConfig, 7), (hf.BertConfig, None)])
def test_a_text_ends_at_its_padding_in_families_whose_model_counts_tokens_up_to_it(kind, wanted):
    """FlauBERT and XLM mask what follows the padding token: transformers computes lengths from it."""
    assert padding_id(kind(pad_token_id=7)) == wanted


def test_a_graph_that_is_read_wrong_is_not_proved_right(saved, tmp_path, monkeypatch):
    """The comparison loads with the same library: whatever that changes, the files say."""
    _, folder = saved(bert)
    whole = hf.BertForMaskedLM.from_pretrained

    def off(*given, **named):
        model, *report = whole(*given, **named)
        if model.device.type == "cpu":
            model.bert.encoder.layer[1].output.dense.weight.data *= 1.01
        return model, *report

    monkeypatch.setattr(hf.BertForMaskedLM, "from_pretrained", off)
    with pytest.raises(
        InputError, match=r"loads other numbers than model.safetensors holds as bert\.encoder\.layer\.1"
    ):
        build(str(folder), tmp_path / "out")


def test_weights_that_are_not_finite_are_refused(saved):
    model, folder = saved(bert)
    state = load_file(folder / WEIGHTS)
    for value in (float("nan"), float("inf")):
        state["bert.embeddings.word_embeddings.weight"][2] = value
        save_file(state, folder / WEIGHTS, metadata={"format": "pt"})
        with pytest.raises(
            InputError, match=r"word_embeddings\.weight in model\.safetensors holds numbers that are not"
        ):
            build(str(folder), folder.parent / "export")
    assert model is not None
