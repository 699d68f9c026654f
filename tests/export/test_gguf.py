"""GGUF files as llama.cpp's own package writes them: they are exported, and damaged ones refused in one line."""

import json
import re
import struct

import negengine as ng
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFWriter, PoolingType, quants
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.causal import open_language_model
from negengine.engine.inference.exported import load_exported
from negengine.export import gguf_file
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.source import locate
from plain_calls import token_logprobs
from safetensors.numpy import load_file
from transformers import AutoModelForCausalLM

WIDTH, INNER, HEADS, LAYERS = 64, 96, 4, 2
WORDS = ["th", "the", "Ġnurse", "Ġlikes", "Ġto", "Ġswim", "Ġnot", "Ġsing"]
LETTERS = [chr(c) for c in range(33, 127)] + ["Ġ"]
TOKENS = ["<unk>", "<s>", "</s>", *LETTERS, *WORDS]
LARGE = (3, 40)  # two channels of the residual stream that are a thousand times as large, as in published models


def written(path, *, architecture="llama", kind=GGMLQuantizationType.Q8_0, merges=("t h", "th e"), large=1.0, **more):
    """As llama.cpp's converter writes it. `lacks` names a tensor that is left out, `parts` the number of files."""
    writer = GGUFWriter(path, architecture, endianess=more.get("order", GGUFEndian.LITTLE))
    random = np.random.default_rng(0)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(len(TOKENS))
    writer.add_string("general.license", "apache-2.0")
    if "parts" in more:
        writer.add_uint16("split.count", more["parts"])
    if "pooling" in more:
        writer.add_pooling_type(more["pooling"])
    writer.add_tokenizer_model(more.get("tokenizer", "gpt2"))
    writer.add_token_list(TOKENS)
    writer.add_token_merges(list(merges))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)

    def put(name, *shape, one=False):
        values = np.ones(shape, np.float32) if one else random.normal(0, 0.1, shape).astype(np.float32)
        if name == "token_embd.weight":
            values[:, LARGE] *= large
        if more.get("lacks") in {name, "all"}:
            return
        if one:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, quants.quantize(values, kind), raw_dtype=kind)

    put("token_embd.weight", len(TOKENS), WIDTH)
    put("output_norm.weight", WIDTH, one=True)
    for layer in range(LAYERS):
        for name, *shape in (
            *(("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH // 2, WIDTH), ("attn_v", WIDTH // 2, WIDTH)),
            *(("attn_output", WIDTH, WIDTH), ("ffn_gate", INNER, WIDTH), ("ffn_up", INNER, WIDTH)),
            ("ffn_down", WIDTH, INNER),
        ):
            put(f"blk.{layer}.{name}.weight", *shape)
        for name in ("attn_norm", "ffn_norm"):
            put(f"blk.{layer}.{name}.weight", WIDTH, one=True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(gguf_file.platformdirs, "user_cache_path", lambda *_, **__: tmp_path / "cache")
    return tmp_path / "cache"


def test_a_file_is_exported_as_transformers_reads_it_and_named_with_type_and_digest(tmp_path, capfd):
    """With massive activations, too. `cite` and the report name both."""
    (tmp_path / "own").mkdir()
    path = written(tmp_path / "own" / "small.Q4_1.gguf", kind=GGMLQuantizationType.Q4_1, large=1000.0)
    assert check(str(path.parent), task="text-generation").possible
    assert locate(str(path.parent)) == locate(str(path))  # a folder that holds one
    folder = build(str(path), tmp_path / "out")
    assert capfd.readouterr() == ("", "")  # no progress bar of the conversion
    info = json.loads((folder / "export.json").read_text("utf-8"))
    told = f"Q4_1 {locate(str(path)).revision}"
    assert info["made_from"]["gguf"] == told
    assert (info["name"], info["licence"], info["origin"]) == ("small.Q4_1", "apache-2.0", str(path))
    assert not (folder / "tokenizer.model").exists()
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()
    ids = np.random.default_rng(0).integers(3, len(TOKENS), (1, 20))
    with torch.inference_mode():
        chances = model(input_ids=torch.from_numpy(ids)).logits.log_softmax(-1)[0, :-1].numpy()
    found = token_logprobs(open_language_model(load_exported(folder)), ids.astype(np.int32))[0]
    np.testing.assert_allclose(found, chances[np.arange(19), ids[0, 1:]], rtol=2e-6, atol=2e-5)
    table = {"sentence": ["the nurse likes to swim"]}
    run = ng.likelihood(ng.load(folder, device="cpu"), table, output=tmp_path / "run", progress=False)
    assert told in str(ng.cite(run))
    assert told in run.report(tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_the_weights_of_each_type_are_those_that_llama_cpps_package_dequantises(kind, tmp_path):
    path = written(tmp_path / "small.gguf", kind=GGMLQuantizationType[kind])
    source = locate(str(path))
    assert source.gguf.split()[0] == kind
    (tensor,) = (own for own in GGUFReader(path).tensors if own.name == "blk.1.ffn_up.weight")
    found = load_file(f"{source.location}/model.safetensors")["model.layers.1.mlp.up_proj.weight"]
    np.testing.assert_array_equal(found, quants.dequantize(tensor.data, tensor.tensor_type))


def cut(path, keep):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    return path


def typed(path, number):
    """The number of a tensor's type is another."""
    content, name = bytearray(written(path).read_bytes()), b"blk.0.attn_q.weight"
    at = content.index(name) + len(name)
    (dimensions,) = struct.unpack_from("<I", content, at)
    struct.pack_into("<I", content, at + 4 + 8 * dimensions, number)
    path.write_bytes(content)
    return path


def of_version(path, number):
    content = bytearray(written(path).read_bytes())
    struct.pack_into("<I", content, 4, number)
    path.write_bytes(content)
    return path


ARCHITECTURE = r"transformers \S+ cannot read its architecture: .*unheard"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: cut(written(path), 0.999), "is not a whole GGUF file"),
        (lambda path: cut(written(path), 0.7), "is not a whole GGUF file"),
        (lambda path: cut(written(path), 0.01), "is not a whole GGUF file"),
        (lambda path: path.write_bytes(b"GGUF" + b"\0" * 99) and path, "is not a whole GGUF file"),
        (lambda path: path.write_bytes(b"something else") and path, "is not a whole GGUF file"),
        (lambda path: typed(path, 99), "of a type that gguf does not know .*99"),
        (lambda path: typed(path, 27), "cannot read its weights: .*I64"),
        (lambda path: written(path, architecture="unheard"), ARCHITECTURE),
        (lambda path: written(path, merges=("no such",)), "cannot read its tokenizer"),
        (lambda path: written(path, lacks="blk.1.ffn_up.weight"), "lacks the weights of model.layers.1.mlp.up_proj"),
        (lambda path: written(path, parts=3), "is one of 3 parts of a model: join them"),
        (lambda path: of_version(path, 1), "version 1"),
        (lambda path: written(path, order=GGUFEndian.BIG), "has the other byte order: convert it"),
        (lambda path: written(path, lacks="all"), "has no weights"),
        (
            lambda path: written(path, architecture="qwen3", pooling=PoolingType.LAST),
            "gives vectors or scores of texts",
        ),
        (lambda path: written(path, architecture="bert"), "cannot read its architecture: .*bert"),
        (lambda path: written(path, architecture="t5encoder"), "architecture: t5 is not a causal language model"),
        (lambda path: written(path, architecture="qwen3"), "cannot read its weights: they have other sizes"),
        (lambda path: written(path, tokenizer="rwkv"), "cannot read its tokenizer: .*rwkv"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line_and_leaves_nothing(damage, said, tmp_path, cache, command):
    path = damage(tmp_path / "bad.gguf")
    done = command("export", path, "-o", tmp_path / "out")
    assert done.status == 2
    told = [line for line in done.err.splitlines() if line.startswith("negengine: ")]
    assert len(told) == 1
    assert re.search(said, told[0])
    assert str(path) in told[0]
    assert [own.name for own in tmp_path.iterdir() if own != cache] == [path.name]
    assert not any(cache.glob("gguf/*"))


def test_several_files_in_a_folder_are_not_guessed_between(tmp_path):
    for name in ("a.gguf", "b.gguf"):
        written(tmp_path / name)
    with pytest.raises(InputError, match="holds 2 GGUF files: give one of them"):
        locate(str(tmp_path))


def test_a_folder_with_the_parts_of_a_model_is_refused_as_each_part_is(tmp_path):
    for number in (1, 2):
        written(tmp_path / f"own-0000{number}-of-00002.gguf", parts=2)
    with pytest.raises(InputError, match=r"own-00001-of-00002.gguf is one of 2 parts of a model: join them"):
        locate(str(tmp_path))
