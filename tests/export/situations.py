"""Checkpoints as people have them: a tiny one that transformers saved, and what a program that people use does to it.

`READ` must be read as it was saved, `REFUSED` is refused in these words. An export and `--check` give the same answer
(test_check), and what is read has the numbers of the model before it was saved (test_inventory).
"""

import json
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from causal_checkpoints import byte_level
from safetensors.torch import load_file, save_file, save_model
from tiny_checkpoints import random_model, roberta_like_tokenizer, save_classifier, word_tokenizer

CONFIG, TOKENIZER, OF_TOKENIZER = "config.json", "tokenizer.json", "tokenizer_config.json"
WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"
INDEX, ADAPTER = f"{WEIGHTS}.index.json", "adapter_config.json"
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def bert(**further):
    words = word_tokenizer(
        ["a", "man", "who", "likes", "to", "sleep", "run", "not"], cls_token="[CLS]", sep_token="[SEP]"
    )
    sizes = {"vocab_size": len(words), "max_position_embeddings": 40, "pad_token_id": 0} | SIZES
    return random_model(hf.AutoModelForMaskedLM, hf.BertConfig(**sizes | further)), words


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


@dataclass(frozen=True)
class Situation:
    """What is done to the folder of a saved model; empty words if it is read."""

    change: Callable[[Path], object]
    said: str = ""
    family: Callable[..., Any] = bert
    sizes: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)  # of both commands
    looked_at: str = ""  # what --check looks at that says so


# ---------------------------------------------------------------- changes
def changed(folder, name=CONFIG, **content):
    """Change a JSON file; `...` removes a key."""
    known = json.loads((folder / name).read_text("utf-8"))
    kept = {key: value for key, value in (known | content).items() if value is not ...}
    (folder / name).write_text(json.dumps(kept), "utf-8")


def says(**content):
    return lambda folder: changed(folder, **content)


def holding(name, content: bytes):
    return lambda folder: (folder / name).write_bytes(content)


def without(pattern):
    return lambda folder: [path.unlink() for path in folder.glob(pattern)]


def a_pipe(name):
    return lambda folder: [(folder / name).unlink(), os.mkfifo(folder / name)]


def of(config):
    """Its configuration becomes that of another model."""
    return holding(CONFIG, config.to_json_string().encode())


def of_weights(change):
    """Changes the tensors of a file by their names."""

    def apply(folder):
        tensors = load_file(folder / WEIGHTS)
        made = change(tensors)
        kept = tensors if made is None else made
        save_file({key: own.contiguous() for key, own in kept.items()}, folder / WEIGHTS, metadata={"format": "pt"})

    return apply


def without_weights(name, content=b"x"):
    def change(folder):
        (folder / WEIGHTS).unlink()
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)

    return change


def pickled(folder):
    torch.save(load_file(folder / WEIGHTS), folder / PICKLED)
    (folder / WEIGHTS).unlink()


# ---------------------------------------------------------------- what is read as it was saved
def half(kept, left):
    """Of a tensor with two names, as `safetensors.torch.save_model` chooses one of them."""

    def change(tensors):
        both = [tensors.pop(name) for name in (kept, left) if name in tensors]
        tensors[kept] = both[0]

    return of_weights(change)


SHARED = {  # a tied model → the two names of a tensor
    "gpt2": (gpt2, {}, "lm_head.weight", "transformer.wte.weight"),
    "roberta": (roberta, {}, "lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
    "llama": (llama, {"tie_word_embeddings": True}, "lm_head.weight", "model.embed_tokens.weight"),
    "bert": (bert, {}, "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    "bert, bias": (bert, {}, "cls.predictions.decoder.bias", "cls.predictions.bias"),
}


def by_save_model(folder):
    model = hf.AutoModelForCausalLM.from_pretrained(folder)
    save_model(model, str(folder / WEIGHTS), metadata={"format": "pt"})
    assert len({"lm_head.weight", "transformer.wte.weight"} & load_file(folder / WEIGHTS).keys()) == 1


def of_other_heads(tensors):
    tensors["bert.embeddings.position_ids"] = torch.arange(40)[None]
    tensors["bert.pooler.dense.weight"], tensors["bert.pooler.dense.bias"] = torch.zeros(32, 32), torch.zeros(32)
    tensors["cls.seq_relationship.weight"] = torch.zeros(2, 32)
    tensors["cls.species.weight"], tensors["cls.species.bias"] = torch.zeros(6, 32), torch.zeros(6)  # as AntiBERTy's


def in_shards(folder):
    model = hf.AutoModelForMaskedLM.from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    model.save_pretrained(folder, max_shard_size="20KB")
    assert (folder / INDEX).is_file()


def changed_tensor(name, change):
    return of_weights(lambda tensors: tensors.update({name: change(tensors[name])}))


def without_prefix(tensors):
    return {key.removeprefix("bert."): own for key, own in tensors.items()}


def by_old_names(tensors):
    for new, old in (("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")):
        for key in [key for key in tensors if key.endswith(new)]:
            tensors[key.replace(new, old)] = tensors.pop(key)


def of_a_training(folder):
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
        torch.save({"step": 1}, folder / name)
    torch.save({key: own + 1 for key, own in load_file(folder / WEIGHTS).items()}, folder / PICKLED)


def as_the_hub_keeps_it(folder):
    blobs = folder.with_name("blobs")
    folder.rename(blobs)
    folder.mkdir()
    for path in blobs.iterdir():
        (folder / path.name).symlink_to(f"../blobs/{path.name}")


def dangling(folder):
    (folder / "rng_state.bin").symlink_to("nowhere")
    (folder / PICKLED).symlink_to("nowhere")


def with_a_padding_token_beyond(folder):
    words = hf.AutoTokenizer.from_pretrained(folder)
    words.add_special_tokens({"pad_token": "[PAD]"})
    words.save_pretrained(folder)


def tokenizer_of_transformers_5(folder):
    changed(folder, OF_TOKENIZER, tokenizer_class="TokenizersBackend", extra_special_tokens=["<e>"])
    (folder / "special_tokens_map.json").unlink(missing_ok=True)


OLD_KEYS = {"directionality": "bidi", "pooler_type": "first", "output_past": True, "xla_device": True}
OUTPUTS = {"return_dict": False, "torchscript": True, "output_hidden_states": True, "output_attentions": True}
UNTIED = {"tie_word_embeddings": False}
READ = {
    **{
        f"a head of its own, {family.__name__}, {key}": Situation(
            says(tie_word_embeddings=True if family is llama else key), family=family, sizes=UNTIED
        )
        for family in (gpt2, bert, llama)
        for key in (True, ...)
    },
    **{
        f"{case}, {kept} alone": Situation(half(kept, left), family=family, sizes=sizes)
        for case, (family, sizes, *names) in SHARED.items()
        for kept, left in (names, names[::-1])
    },
    "by save_model": Situation(by_save_model, family=gpt2),
    "tensors of other heads": Situation(of_weights(of_other_heads)),
    "names without a prefix": Situation(of_weights(without_prefix)),
    "old names of normalisations": Situation(of_weights(by_old_names)),
    "float64": Situation(of_weights(lambda tensors: {key: own.double() for key, own in tensors.items()})),
    "a training": Situation(of_a_training),
    "the hub's links": Situation(as_the_hub_keeps_it),
    "a stale index": Situation(holding(INDEX, b'{"weight_map": {"a": "model-00001-of-00003.safetensors"}}')),
    "a stray file": Situation(lambda folder: save_file({"x": torch.zeros(3)}, folder / "adapter_old.safetensors")),
    "a link to nothing": Situation(dangling),
    "outputs": Situation(says(**OUTPUTS)),
    "shards": Situation(in_shards),
    "padding -1": Situation(says(pad_token_id=-1)),
    "no padding": Situation(says(pad_token_id=None)),
    "a word as padding": Situation(says(pad_token_id=7)),
    "old keys": Situation(says(gradient_checkpointing=False, **OLD_KEYS)),
    "no architectures": Situation(says(architectures=...)),
    "a padding token without a row": Situation(with_a_padding_token_beyond, family=gpt2),
    "a tokenizer of transformers 5": Situation(tokenizer_of_transformers_5, sizes={"vocab_size": 14}),
}


# ---------------------------------------------------------------- what is refused
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

    return of_weights(change)


def prefixed(prefix):
    return of_weights(lambda tensors: {f"{prefix}{key}": own for key, own in tensors.items()})


def with_tensor(name, *shape):
    return of_weights(lambda tensors: tensors.update({name: torch.zeros(*shape)}))


def twice(folder):
    in_shards(folder)
    first, second = sorted(folder.glob("model-*.safetensors"))[:2]
    name = f"{NORM}.weight"
    save_file(load_file(second) | {name: load_file(first)[name] + 1}, second, {"format": "pt"})


def renamed(old, new):
    return of_weights(lambda tensors: tensors.update({new: tensors.pop(old)}))


def in_a_dictionary(folder):
    torch.save({"state_dict": load_file(folder / WEIGHTS), "epoch": 3}, folder / PICKLED)
    (folder / WEIGHTS).unlink()


def whole(folder):
    torch.save(hf.AutoModelForMaskedLM.from_pretrained(folder), folder / PICKLED)
    (folder / WEIGHTS).unlink()


def inside(folder):
    (folder / "0_Transformer").mkdir()
    for path in [*folder.glob("*.json"), folder / WEIGHTS]:
        path.rename(folder / "0_Transformer" / path.name)


def linked(folder):
    (folder / WEIGHTS).unlink()
    (folder / WEIGHTS).symlink_to("../blobs/gone")


def without_words(folder):
    written = json.loads((folder / TOKENIZER).read_text())
    special = [own["content"] for own in written["added_tokens"]]
    written["model"]["vocab"] = {own: i for i, own in enumerate(special)}
    written["added_tokens"] = [own | {"id": i} for i, own in enumerate(written["added_tokens"])]
    (folder / TOKENIZER).write_text(json.dumps(written))


def without_mask(folder):
    for name in (OF_TOKENIZER, "special_tokens_map.json"):
        if (folder / name).is_file():
            changed(folder, name, mask_token=...)


def an_adapter_beside(folder):
    (folder / ADAPTER).write_text(json.dumps({"peft_type": "LORA", "base_model_name_or_path": "lab/x"}))
    save_file({"x": torch.zeros(3)}, folder / "adapter_model.safetensors")


def an_adapter_alone(folder):
    an_adapter_beside(folder)
    (folder / WEIGHTS).unlink()


def cut_off(folder):
    weights = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(weights[: len(weights) // 2])


def with_a_token(folder):
    words = hf.AutoTokenizer.from_pretrained(folder)
    words.add_tokens(["smurfing"])
    words.save_pretrained(folder)


def an_encoder(folder):
    hf.BertModel(hf.BertConfig.from_pretrained(folder)).save_pretrained(folder)


def in_parts(index: bytes):
    return lambda folder: [(folder / WEIGHTS).rename(folder / "one.safetensors"), holding(INDEX, index)(folder)]


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 438007537\n"
NO_FILE = r"cannot be read \(it is a pipe, not a file\)|holds no config\.json"
T5 = hf.T5Config(architectures=["T5ForConditionalGeneration"])
WRONG_SIZES = {"hidden_size": 1.5, "num_attention_heads": 0, "pad_token_id": 10**9, "num_hidden_layers": "many"}
SHARDS = b'{"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}'
FAMILIES = (
    ("ibert", {"quant_mode": True}, "with quant_mode, it rounds its values to integers as it computes"),
    ("longformer", {}, "its windows of attention are traced for inputs of one length only"),
    ("nystromformer", {"num_landmarks": 8}, "where num_landmarks is not .*, it takes inputs of one length"),
    ("perceiver", {}, "it reads bytes through latents: no row of it belongs to a mask alone"),
    ("xmod", {}, "a text takes the layers of its language, and a graph has the same for all"),
)
METHODS = ("gptq", "bitsandbytes", "fbgemm_fp8", "new")
QUERY = "bert.encoder.layer.0.attention.self.query"
BIAS, NORM = "cls.predictions.bias", "bert.embeddings.LayerNorm"
UNSOUND = r"holds numbers that are not finite in fp32 \(NaN, infinite or too large\)"
GATE = "bert.encoder.layer.0.attention.self.gate"
_REFUSED = {  # what is wrong → what is done to a BERT, what is said, and what --check looks at that says it
    "layers beyond": (of_weights(layers), "does not read 16 tensors .*config.json says 2 layers, and the files have 8"),
    "bottleneck adapters": (of_weights(adapters), "does not read 2 tensors .* merge its adapters into the model"),
    "an unknown tensor": (with_tensor(GATE, 4), r"does not read 1 tensor .*self\.gate, which may change"),
    "float8 with scales": (scaled(torch.float8_e4m3fn), "quantised .*weight is F8_E4M3.*: give the"),
    "int8 with scales": (scaled(torch.int8), "is quantised .* is I8"),
    "scales alone": (scaled(torch.float32), "is quantised .*weight_scale scales another tensor"),
    "int32": (scaled(torch.int32), "is quantised .* is I32"),
    **{
        method: (says(quantization_config={"quant_method": method, "bits": 4}), rf"is quantised \({method}\): give the")
        for method in METHODS
    },
    "8 bit": (says(quantization_config={"load_in_8bit": True}), r"is quantised \(bitsandbytes\)"),
    "another key": (says(attention_bias_type="alibi"), "says attention_bias_type alibi, .* remove it from config.json"),
    "module.": (prefixed("module."), r"its weights lack bert\..*, and hold module\.bert\..*, which it does not read"),
    "two values in shards": (twice, "LayerNorm.weight in model-00001.* and .* in model-00002.* with two values"),
    "two values of an old name": (
        of_weights(lambda tensors: tensors.update({f"{NORM}.gamma": tensors[f"{NORM}.weight"] + 1})),
        r"LayerNorm\.gamma in .* and .*LayerNorm\.weight in .* are one parameter with two values: remove",
    ),
    "NaN": (changed_tensor(BIAS, lambda own: own * float("nan")), UNSOUND),
    "infinite": (changed_tensor(BIAS, lambda own: own / 0), UNSOUND),
    "too large": (changed_tensor(BIAS, lambda own: own.double() * 1e300), UNSOUND),
    "an adapter's base": (renamed(f"{QUERY}.weight", f"{QUERY}.base_layer.weight"), "base_layer.weight: merge its"),
    "a pruning": (
        renamed(f"{QUERY}.weight", f"{QUERY}.weight_orig"),
        r"lack bert.*query\.weight, and hold bert.*query\.weight_orig, which it does not read",
    ),
    "cross attention": (says(add_cross_attention=True), r"configured as a decoder \(add_cross_attention\)", "family"),
    "an epsilon that is NaN": (says(layer_norm_eps=float("nan")), "says layer_norm_eps NaN; give a number"),
    "another activation": (says(hidden_act="superglu"), "making it failed: 'superglu' is not known"),
    "a folder inside": (inside, r"no config\.json: give the folder of a model inside, such as .*0_Transformer"),
    "ZeRO-3": (
        with_tensor("bert.embeddings.word_embeddings.weight", 0),
        "word_embeddings.weight has no numbers in the file; .*zero_to_fp32",
    ),
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
    "an adapter alone": (an_adapter_alone, "is a LoRA adapter of lab/x, not a model: give --base lab/x"),
    "an adapter, too": (an_adapter_beside, "holds a model and an adapter.* remove adapter_config.json; .*--base"),
    "a link to nothing": (linked, "model.safetensors is a link to nothing: fetch the file again"),
    **{
        f"a pointer for {name}": (holding(name, POINTER), rf"{name} is a pointer of Git LFS, not the file .*`git lfs")
        for name in (WEIGHTS, CONFIG, TOKENIZER)
    },
    "no configuration": (without(CONFIG), r"tiny holds no config\.json"),
    "cut-off weights": (cut_off, r"model\.safetensors is damaged or cut off .*: fetch it again", "weights"),
    "no second file": (in_parts(SHARDS), r"two\.safetensors is missing, which", "weights"),
    "an index that is cut off": (in_parts(b"{"), r"index\.json: not JSON", "weights"),
    "no tokenizer": (without("*token*"), "tokenizer could be loaded: there is no tokenizer file", "tokenizer"),
    "a tokenizer without words": (without_words, "tiny: tokenizer.json holds special tokens alone, and no words: give"),
    "a family without masked models": (says(model_type="ctrl"), "ctrl model, which has no masked-LM head"),
    "an encoder and a decoder": (of(T5), "tiny: a model of the family t5 has an encoder and a decoder, and cannot be"),
    "pictures": (of(hf.Gemma3Config()), r"tiny reads more than texts, .* text model alone \(gemma3_text\)"),
    **{
        name: (of(hf.CONFIG_MAPPING[name](**sizes)), f"the family {name} cannot be exported: {said}", "family")
        for name, sizes, said in FAMILIES
    },
    "sparse": (of(hf.Gemma3nTextConfig()), "with sparse activations, it needs the inverse of the error function"),
    "relative": (says(position_embedding_type="relative_key"), "transformers 5 has it no more", "family"),
    **{f"{name} is a pipe": (a_pipe(name), NO_FILE) for name in (CONFIG, TOKENIZER, WEIGHTS)},
    "nested configuration": (holding(CONFIG, b"[" * 100_000), r"config\.json"),
    "a family that is not known": (
        says(model_type="neobert"),
        r"^tiny: transformers 5\S+ does not know the family neobert; another version may know it$",
    ),
    "no type": (holding(CONFIG, b"{}"), r"config\.json|tiny"),
    **{f"{name} {value!r}": (says(**{name: value}), "tiny") for name, value in WRONG_SIZES.items()},
    "nested tokenizer": (holding(TOKENIZER, b"[" * 100_000), "tiny: no fast tokenizer could be loaded"),
    "empty weights": (holding(WEIGHTS, b""), "tiny"),
    "a header without end": (holding(WEIGHTS, struct.pack("<Q", 2**63) + b"{"), "tiny"),
    "an encoder alone": (an_encoder, r"weights lack cls\.predictions", "head"),
    "no weights": (without(WEIGHTS), r"no files of weights \(model.safetensors\)", "weights"),
    "pickled weights": (pickled, "has no safetensors weights; --allow-pickle reads pickled ones", "weights"),
    "no mask": (without_mask, r'names no mask token, though there is \[MASK\]: add "mask_token"', "tokenizer"),
    "an added token": (with_a_token, "1 token beyond them, such as 'smurfing': .*resize_token_embeddings", "tokenizer"),
    "10**9 layers": (says(num_hidden_layers=10**9), "says num_hidden_layers 1000000000", "input"),
    "10**9 positions": (says(max_position_embeddings=10**9), "says max_position_embeddings 1000000000", "input"),
}
REFUSED = {
    **{name: Situation(change, said, looked_at="".join(what)) for name, (change, said, *what) in _REFUSED.items()},
    **{
        name: Situation(change, "holds more than tensors by their names: load it", options={"allow_pickle": True})
        for name, change in (("a dictionary of tensors", in_a_dictionary), ("a whole model", whole))
    },
    "two bases": Situation(
        says(rope_theta=5e5), r"rope_theta 500000\.0, and rope_parameters says .*: remove the one", llama
    ),
    "two scalings": Situation(
        says(rope_scaling={"rope_type": "linear", "factor": 4.0}), r"factor 4\.0, and rope_parameters says", llama
    ),
    "windows that nothing reads": Situation(
        says(layer_types=["sliding_attention", "full_attention"]), "says layer_types .* does not read it", llama
    ),
    "a newer transformers": Situation(
        says(transformers_version="6.0.0", rotations={"theta": 5e5}),
        "says rotations .*, which transformers 6.0.0 wrote, .*does not read it: a newer transf",
        llama,
    ),
    "a padding token in each text": Situation(
        says(pad_token_id=0), "says pad_token_id 0, which is '<s>' and stands in each text", roberta
    ),
}


# ---------------------------------------------------------------- adapters
def save_adapter(folder, shapes, **config):
    """As peft's `save_pretrained` writes it; the tensors by their names in the model."""
    folder.mkdir(exist_ok=True)
    config = {"peft_type": "LORA", "base_model_name_or_path": "lab/tiny", "lora_alpha": 6} | config
    (folder / "adapter_config.json").write_text(json.dumps(config))
    random = torch.Generator().manual_seed(1)
    made = {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}
    save_file({f"base_model.model.{name}": own for name, own in made.items()}, folder / "adapter_model.safetensors")
    return made


def linear(layer, columns, rows):
    return {f"{layer}.lora_A.weight": (2, columns), f"{layer}.lora_B.weight": (rows, 2)}


# As peft 0.21 writes every key of a plain LoRA.
PLAIN = {
    **dict.fromkeys(("alora_invocation_tokens", "arrow_config", "auto_mapping", "corda_config", "eva_config")),
    **dict.fromkeys(("exclude_modules", "kasa_config", "layer_replication", "layers_pattern", "layers_to_transform")),
    **dict.fromkeys(("lora_ga_config", "megatron_config", "modules_to_save", "monteclora_config", "revision")),
    **dict.fromkeys(("target_parameters", "trainable_token_indices", "use_bdlora", "velora_config")),
    **dict.fromkeys(("ensure_weight_tying", "fan_in_fan_out", "lora_bias", "use_dora", "use_qalora"), False),
    "alpha_pattern": {},
    "bias": "none",
    "inference_mode": True,
    "init_lora_weights": True,
    "loftq_config": {},
    "lora_dropout": 0.1,
    "megatron_core": "megatron.core",
    "peft_version": "0.21.2",
    "qalora_group_size": 16,
    "r": 2,
    "rank_pattern": {},
    "target_modules": ["query"],
    "task_type": "FEATURE_EXTRACTION",
}
# What adapter_config.json says → nothing more than a plain LoRA has.
VARIANTS = [
    *({"init_lora_weights": own} for own in ("pissa_niter_4", "OLoRA", "unheard")),
    *(
        {"use_dora": True},
        {"alpha_pattern": {"a": 1}},
        {"layer_replication": [1]},
        {"a_newer_key": 0.5},
        {"another": 0},
    ),
]


def with_an_adapter(content, shapes=None, number=1.0):
    def change(folder):
        save_adapter(folder / "lora", linear(QUERY, 32, 32) if shapes is None else shapes, **PLAIN | content)
        path = folder / "lora" / "adapter_model.safetensors"
        save_file({key: own * number for key, own in load_file(path).items()}, path)

    return change


def with_a_pickled_adapter(folder):
    with_an_adapter({})(folder)
    (folder / "lora" / "adapter_model.safetensors").rename(folder / "lora" / "adapter_model.bin")


ASKS = r"adapter_config\.json asks for .*: this is not a plain LoRA; merge it with peft"
ADAPTERS = {
    "plain": Situation(with_an_adapter({})),
    "a shared weight": Situation(with_an_adapter({}, {BIAS: (13,)}), f"changes {BIAS}, which the base shares with"),
    "another layer": Situation(
        with_an_adapter({"target_modules": ["key"]}), "query, which its target_modules do not name, so peft does not"
    ),
    "no weight": Situation(
        with_an_adapter({}, {"bert.lora_magnitude": (3, 2)}),
        "the base has no weight bert.lora_magnitude of 3 × 2 numbers; .*merge it with peft",
    ),
    "another size": Situation(
        with_an_adapter({}, linear(QUERY, 4, 5)), f"the base has no weight {QUERY}.weight of 5 × 4 numbers"
    ),
    "half": Situation(with_an_adapter({}, {f"{QUERY}.lora_A.weight": (2, 32)}), "query is not a plain one of the base"),
    "NaN": Situation(with_an_adapter({}, number=float("nan")), r"lora_.\.weight holds numbers that are not finite"),
    "LoHa": Situation(with_an_adapter({"peft_type": "LOHA"}), r"is an adapter of another kind \(LOHA\), .* merge it"),
    "a prefix": Situation(with_an_adapter({"peft_type": "PREFIX_TUNING"}), "it puts vectors before each text, which"),
    "a pickle": Situation(with_a_pickled_adapter, r"adapter_model\.bin is a pickle: load it with peft, and save"),
    **{" ".join(map(str, *own.items())): Situation(with_an_adapter(own), ASKS) for own in VARIANTS},
}


# ---------------------------------------------------------------- models for something else
PAIRS, TOKENS = "text-classification", "token-classification"


def classifier(**options):
    return lambda folder: save_classifier(folder / "pairs", "bert", **options)


def named(**keys):
    """A classifier whose config.json says other things of its labels; a key that is None is removed."""

    def make(folder):
        changed(classifier()(folder), **{key: ... if own is None else own for key, own in keys.items()})
        return folder / "pairs"

    return make


def of_family(config):
    def make(folder):
        copy = save_classifier(folder / "tiny", "bert")
        of(config(architectures=["TinyForSequenceClassification"], vocab_size=50))(copy)
        return copy

    return make


NO_ENCODERS = [
    (hf.GPT2Config, "gpt2 reads a text from left to right alone.*; give one that is an encoder, such as BERT"),
    (hf.BartConfig, "bart has an encoder and a decoder.*; give an encoder alone, or a decoder alone"),
]
OTHERS = [  # its name or how it is made, options of both commands, what is said
    ("mini", {"task": PAIRS}, "mini is not a sequence classifier: its weights lack"),
    ("mini", {"task": TOKENS}, "mini is not a token classifier: its weights lack"),
    ("mini", {"task": "text-generation"}, "mini is configured as an encoder"),
    (classifier(), {"task": "fill-mask"}, "pairs is not a masked language model: its weights lack"),
    (classifier(names=("score",)), {}, "pairs has 1 label: it gives a score"),
    (classifier(problem_type="multi_label_classification"), {}, "pairs gives several labels at once"),
    (named(label2id={"yes": 0, "no": 1}), {}, "label 0 is 'entailment' in id2label, and 'yes' in label2id"),
    (named(id2label=None, label2id={"yes": 0, "no": 2}), {}, r"label2id of config.json has the numbers \[0, 2\]"),
    (named(id2label=None, label2id={"yes": "x"}), {}, "label2id of config.json does not give each label a number"),
    *((of_family(make), {}, f"tiny: a model of the family {said}") for make, said in NO_ENCODERS),
    (lambda folder: folder, {"revision": "main"}, "--revision is for models of the hub"),
    *((name, {}, "is not a folder: give a hub id, a local") for name in ("./missing", "/missing/model", "~/model")),
    ("a/b/c", {}, "neither a folder here nor a hub id"),
]
