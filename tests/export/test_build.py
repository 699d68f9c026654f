"""An export is whole, repeatable, atomic, and compared with PyTorch; what is special to one of a causal model."""

import json
import os
import re
import shutil
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from causal_checkpoints import byte_level, write_causal
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.causal import CausalLM
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.inference.exported import load_exported, name_of_checkpoint
from negengine.engine.inference.mixed import FIRST_CHOICES, Mixed, calibrate
from negengine.engine.inference.model import Decisions
from negengine.engine.inference.precision import open_models
from negengine.engine.library.model import export, load
from negengine.export import build as building
from negengine.export import checkpoint as reading
from negengine.export import families, needs, parity, parity_shared
from negengine.export.build import build
from negengine.export.drawn import drawn
from negengine.export.folder import publish, remove_left, workspace_beside
from negengine.export.graph import Graph, array
from negengine.export.inventory import load_model
from negengine.export.quiet import quiet
from negengine.export.samples import Sample, batches, with_masks
from negengine.export.source import locate
from negengine.export.tasks import FILL_MASK, TEXT_GENERATION
from negengine.export.trace import exporter_of
from plain_calls import logits_at, token_logprobs
from safetensors.torch import load_file, save_file
from tiny_checkpoints import random_model, save
from transformers import AutoModelForCausalLM, BertConfig, GPTNeoConfig, LlamaConfig, MistralConfig, ModernBertConfig

pytestmark = pytest.mark.long

USUAL = [3, 17, 64, 150]
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
GRAPHS = {
    *("model.onnx", "model.onnx_data", "model.cpu.onnx"),
    *("model.int8.onnx", "model.int8.onnx_data", "model.fp16.onnx", "model.fp16.onnx_data"),
}


def test_an_export_holds_graphs_without_weights_a_tokenizer_and_the_proof_of_parity(exported):
    folder = exported("bert")
    assert {path.name for path in folder.iterdir()} >= GRAPHS | {"tokenizer.json", "export.json", "config.json"}
    info = json.loads((folder / "export.json").read_text("utf-8"))
    found = info["parity"]
    assert (found["top1_agreement"], found["tolerance"]) == (1, 1e-4)
    assert (found["largest_difference"] < 1e-4, found["samples"] > 100) == (True, True)
    assert set(info["low_precision"]) == {"model.int8.onnx", "model.fp16.onnx"}
    low = info["low_precision"]["model.int8.onnx"]  # on texts that are drawn from the model
    assert (low["top1_agreement"] > 0.7, low["close_calls"] < 0.5, low["tolerance"]) == (True, True, None)
    assert info["left_out"] == {}
    assert set(info["files"]) == GRAPHS | {"tokenizer.json"}
    sizes = {path.name: path.stat().st_size for path in folder.glob("model*")}
    assert sizes["model.onnx_data"] < 4.8 * info["parameters"]  # bytes: none is written twice
    assert max(size for name, size in sizes.items() if name.endswith(".onnx")) < 100_000  # they hold no weights


def test_an_export_in_fp32_has_no_other_graphs_and_no_checkpoint_is_exported_twice(copy, tmp_path, monkeypatch):
    folder, said = build(str(copy), tmp_path / "out", precision="fp32"), []
    assert {path.name for path in folder.glob("model*")} == {"model.onnx", "model.onnx_data", "model.cpu.onnx"}
    first = load_exported(folder).sha256
    build(str(copy), folder, precision="fp32", say=said.append)
    assert said == [f"{folder} is up to date (--force builds it again)"]
    build(str(copy), folder)  # what was left out is made
    assert {path.name for path in folder.glob("model*")} == GRAPHS
    assert load_exported(folder).sha256 == first  # runs of one go on with the other
    monkeypatch.setenv("NEGENGINE_MODELS", str(tmp_path))
    monkeypatch.setattr(building, "load_counted", Mock(side_effect=AssertionError))  # nothing is computed again
    other = shutil.copytree(copy, tmp_path / "other name")
    assert build(str(other), tmp_path / "second", say=said.append) == tmp_path / "second"
    assert said[-1].startswith(f"{tmp_path / 'second'} has the files of {folder}, an export of the same checkpoint")
    assert (folder / "model.onnx_data").samefile(tmp_path / "second" / "model.onnx_data")
    shutil.rmtree(folder)
    second = load_exported("second")
    second.verify_files()
    assert (second.name, second.sha256, second.info["origin"]) == ("other name", first, str(other.resolve()))


def test_logits_in_fp16_are_compared_as_cuda_rounds_them(exported):
    """On a CPU ONNX Runtime computes the product with the vocabulary in fp32: no logit of the graph is rounded."""
    exact = np.array([[8.003, -7.9961, 9000.3]], np.float32)
    np.testing.assert_array_equal(parity.as_cuda_rounds(exact), np.array([[8.0, -7.99609375, 9000.3]], np.float32))
    graph = exported("bert") / "model.fp16.onnx"
    samples = [Sample(np.arange(5, 15, dtype=np.int32), 4, None)]
    session = ort.InferenceSession(graph, providers=["CPUExecutionProvider"])
    (logits,) = session.run(["logits"], batches(samples, [0])[0].feeds | {"expected_id": np.zeros(1, np.int32)})
    known = parity.Reference(samples, logits, np.ones(logits.shape[1], bool), {}, lambda: None, "tiny")
    rounded = replace(known, logits=parity.as_cuda_rounds(logits))
    found = [parity.compare(graph, own, is_exact=False) for own in (known, rounded)]
    assert found[0].largest_difference > found[1].largest_difference == 0


def test_a_graph_of_low_precision_that_gives_no_numbers_is_left_out(copy, tmp_path, monkeypatch):
    def without_numbers(graph, *asked, **options):
        if graph.name == "model.fp16.onnx":
            raise error("tiny: |Δlogit| nan")
        return parity.compare(graph, *asked, **options)

    said, error = [], parity.DisagreesError
    monkeypatch.setattr(building, "compare", without_numbers)
    folder = build(str(copy), tmp_path / "out", say=said.append)
    assert {path.name for path in folder.glob("model*")} == GRAPHS - {"model.fp16.onnx", "model.fp16.onnx_data"}
    info = load_exported(folder).info
    assert (set(info["low_precision"]), set(info["left_out"])) == ({"model.int8.onnx"}, {"model.fp16.onnx"})
    assert "model.fp16.onnx is left out: tiny: |Δlogit| nan" in said
    error = InputError  # such as of a disk that fails
    with pytest.raises(InputError, match="nan"):
        build(str(copy), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_an_export_is_made_anew_only_if_it_must_be(copy, tmp_path):
    folder, said = tmp_path / "out", []

    def exported(checkpoint, **options):
        """The graphs, and whether they were made anew."""
        said.clear()
        build(str(checkpoint), folder, say=said.append, **options)
        anew = said != [f"{folder} is up to date (--force builds it again)"]
        return {path.name: path.read_bytes() for path in folder.glob("model*")}, anew

    first, _ = exported(copy)
    assert said[0].startswith("tiny needs about 0.7 GB of memory and 0.0 GB of disk")
    compared = [line.split()[1] for line in said if line.startswith("comparing ")]
    assert compared == ["model.int8.onnx", "model.fp16.onnx", "model.onnx", "model.cpu.onnx"]
    checkpoint = copy.rename(tmp_path / "moved")
    assert exported(checkpoint) == (first, False)
    assert exported(checkpoint, precision="fp32") == (first, False)  # they are there
    (folder / "model.onnx").write_bytes(first["model.onnx"][:-100])  # damaged
    assert exported(checkpoint) == (first, True)
    weights = load_file(checkpoint / "model.safetensors")
    weights["cls.predictions.bias"] += 1.5 * torch.rand(weights["cls.predictions.bias"].shape)
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    assert exported(checkpoint)[0] != first


@pytest.mark.parametrize("stage", ["load_counted", "reference_of", "run_passes", "compare", "publish", "tokenizer"])
def test_whatever_fails_leaves_the_older_export_as_it_was(stage, copy, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "export.json").write_text("{}")
    error = OSError(28, "No space left on device")
    if stage == "tokenizer":  # its library says the number in the text of an error of no kind
        error = Exception("No space left (os error 28)")
        monkeypatch.setattr("transformers.PreTrainedTokenizerFast.save_pretrained", fails(error))
    else:
        monkeypatch.setattr(building, stage, fails(error))
    with pytest.raises(InputError, match=r"no space left to write .*out"):
        build(str(copy), folder, force=True)
    assert [path.name for path in tmp_path.iterdir() if path.name != "tiny"] == ["out"]
    assert (folder / "export.json").read_text() == "{}"


def fails(error):
    return lambda *_, **__: (_ for _ in ()).throw(error)


def test_checkpoints_of_several_trainings_have_names_of_their_own(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in ("a/checkpoint-20", "a/checkpoint-100", "b/checkpoints/checkpoint-100"):
        shutil.copytree(checkpoint("bert"), tmp_path / run)
    for run, name in (("a", "a/checkpoint-100"), ("b/checkpoints", "b/checkpoint-100")):
        model = load(f"{tmp_path / run}/checkpoint-100", progress=False)
        assert (model.name, model.exported.folder) == (name, Path("models") / name)
    steps = ("step100", "iter_0005000", "global_step7", "20k-steps", "500", "ckpt-1")
    named = ("bert-step100", "step100-final", "best", "gpt2", "step-3.5", "7b", "epochs")
    alone = {f"c/{name}": f"c/{name}" for name in steps} | {"c/checkpoints/epoch_3": "c/epoch_3"}
    alone |= {f"c/{name}": name for name in named}
    assert {path: name_of_checkpoint(Path(path)) for path in alone} == alone
    for run, several in (("a", "2 checkpoints"), ("b", "1 checkpoint")):
        with pytest.raises(InputError, match=f"^{run} is the folder of a training with {several}: give one, such as"):
            build(run)


def test_another_checkpoint_of_the_same_name_does_not_replace_an_export(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run, family in (("a", "bert"), ("b", "roberta")):
        shutil.copytree(checkpoint(family), tmp_path / run / "best")
    folder = build("a/best")
    said = rf"models/best is the export of another checkpoint, {tmp_path}/a/best: give another --output, --force "
    with pytest.raises(InputError, match=f"{said}to replace it, or the checkpoint's folder another name"):
        build("b/best")
    assert load_exported(folder).family == "bert"
    assert load_exported(build("b/best", force=True)).family == "roberta"


KILLED = """
import os, signal, sys
from pathlib import Path
from negengine.export.folder import workspace_beside
folder, moved_away = Path(sys.argv[1]), sys.argv[2] == "True"
with workspace_beside(folder) as workspace:
    (workspace / "staged" / "model.onnx").write_text("half written")
    if moved_away:
        folder.rename(workspace / "replaced")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moved_away", [False, True])
def test_the_next_export_removes_what_a_killed_one_left_and_puts_the_older_one_back(
    python, tmp_path, moved_away, monkeypatch
):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "model.onnx").write_text("older")
    assert python("-c", KILLED, folder, moved_away).status < 0
    assert len([*tmp_path.iterdir()]) == (1 if moved_away else 2)
    (tmp_path / ".out.notes").mkdir()  # what others keep beside it stays
    with workspace_beside(folder):
        assert (folder / "model.onnx").read_text() == "older"
        with workspace_beside(folder):
            assert len([*tmp_path.iterdir()]) == 4  # the one at work stays
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.notes", "out"]
    # Killed after the rename, or while its own remains were removed: also an export that is up to date removes them.
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".out.a1b2c3d4" / "replaced").mkdir(parents=True)
    (tmp_path / ".out.a1b2c3d4" / "lock").touch()
    (tmp_path / ".out.e5f6a7b8").mkdir()
    (tmp_path / ".out.of_a_user").mkdir()
    remove_left(Path("out"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.notes", ".out.of_a_user", "out"]


def test_all_files_of_an_export_are_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    done, sync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(str(Path(f"/proc/self/fd/{fd}").readlink())), sync(fd)))
    folder = tmp_path / "out"
    with workspace_beside(folder) as workspace:
        for name in ("model.onnx", "model.onnx_data", "export.json"):
            (workspace / "staged" / name).write_text("content")
        publish(workspace, folder)
    staged = workspace / "staged"
    assert {str(staged / name) for name in ("model.onnx", "model.onnx_data", "export.json")} <= set(done)
    assert done[-2:] == [str(staged), str(tmp_path)]


# ---------------------------------------------------------------- causal models
@pytest.mark.parametrize("right", [True, False])
def test_graphs_that_share_beginnings_wrongly_are_left_out(right, causal, tmp_path):
    exported = causal("llama")
    folder = Path(shutil.copytree(exported.folder, tmp_path / "llama"))
    ids = np.random.default_rng(0).integers(5, exported.vocab_size, (4, 9)).astype(np.int32)
    logits = logits_at(CausalLM(exported), ids, np.full(4, 8, np.int32))  # of the row before
    samples, said = [Sample(row, 7) for row in ids], []
    wanted, rows = logits if right else logits + 1, np.ones(logits.shape[1], bool)
    reference = parity.Reference(samples, wanted, rows, {}, lambda: None, "llama")
    exact = [folder / "model.onnx", folder / "model.cpu.onnx"]
    graphs = building._Graphs(sorted(folder.iterdir()), exact, {})
    building._drop_wrong_sharing(graphs, reference, said.append)
    assert sorted(folder.iterdir()) == graphs.files
    assert sum("prefix" in path.name for path in graphs.files) == (3 if right else 0)
    assert len(said) == (0 if right else 1)


@pytest.mark.parametrize(
    ("lengths", "longest", "shared"),
    [
        ([3, 17, 64, 150, 512, 1024], 8192, {150}),
        ([3, 17, 64, 150, 512, 1024], 1024, {150, 1024}),
        ([3, 17, 64, 150, 512, 1024, 2048, 2049], 8192, {150, 2048, 2049}),
        ([3, 17, 64, 100, 101, 150, 300], 300, {100, 101, 150, 300}),
        ([3, 17], 17, set()),
    ],
)
def test_sharing_is_compared_on_both_sides_of_where_positions_change_and_at_the_end(lengths, longest, shared):
    samples = [Sample(np.zeros(length, np.int32), 1) for length in [12, 13, 14, *lengths]]
    known = parity.Reference(samples, np.zeros(0), np.ones(1, bool), {}, lambda: None, "llama", longest)
    assert {len(samples[number].ids) for number in parity_shared.samples_of(known)} - {*range(64)} == shared


def test_a_drawn_text_shows_what_its_beginnings_show_and_pytorch_computes_them_once(tmp_path, monkeypatch):
    tiny = reading.load(locate(str(write_causal(tmp_path / "llama", "llama"))), TEXT_GENERATION.head)
    model = load_model(tiny, TEXT_GENERATION.head)
    samples, ran, run = drawn(model, tiny), [], parity._logits
    monkeypatch.setattr(parity, "_logits", lambda *given: ran.extend(given[2].numbers) or run(*given))
    reference = parity.reference_of(model, samples, "llama", lambda: model, is_causal=True)
    texts = [number for number, own in enumerate(samples) if own.logits is None]
    assert sorted(ran) == sorted(reference.tokens) == texts
    assert len(texts) == 8
    for own, logits in zip(samples, reference.logits, strict=True):
        with torch.inference_mode():
            wanted = model(torch.from_numpy(own.ids[None].astype(np.int64))).logits[0, own.position]
        np.testing.assert_allclose(logits, wanted, atol=1e-5)
        assert any((samples[text].ids[: len(own.ids)] == own.ids).all() for text in texts)


def test_pytorch_infers_shapes_without_the_weights(tmp_path, monkeypatch):
    tiny = reading.load(locate(str(write_causal(tmp_path / "llama", "llama"))), TEXT_GENERATION.head)
    given, infer = [], torch._C._jit_pass_onnx_graph_shape_type_inference

    def inferred(graph, weights, opset):
        given.extend(own.numel() for own in weights.values())
        infer(graph, weights, opset)

    monkeypatch.setattr(torch._C, infer.__name__, inferred)
    exporter = exporter_of("llama", tiny.config, TEXT_GENERATION.head.task)
    with quiet():
        exporter.trace(load_model(tiny, TEXT_GENERATION.head), ["input_ids"], tmp_path / "data", tmp_path, "llama")
    assert 0 < max(given) <= 1024


@pytest.mark.everything
def test_both_sides_of_a_window_are_compared_and_texts_beyond_what_was_compared_are_right(monkeypatch, tmp_path):
    """GPT-Neo: a layer sees the last 1,100 tokens only, and no text that is shorter shows it."""
    tokenizer, said = byte_level(), []
    layers = {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 1100}
    own = {"vocab_size": len(tokenizer), "hidden_size": 32, "max_position_embeddings": 1600}
    model = random_model(AutoModelForCausalLM, GPTNeoConfig(**own, **layers))
    checkpoint = save(tmp_path / "neo", model, tokenizer)
    exported = load_exported(build(str(checkpoint), tmp_path / "out"))
    assert exported.max_length == 1600
    assert {*USUAL, 512, 1024, 1100, 1101} <= set(exported.info["compared_lengths"])
    assert max(exported.info["compared_lengths"]) == 1101
    ids = np.random.default_rng(0).integers(5, exported.vocab_size, (1, 1600)).astype(np.int32)
    with torch.inference_mode():
        given = torch.from_numpy(ids.astype(np.int64))
        wanted = model(given).logits.log_softmax(-1)[0, :-1]
    found = token_logprobs(CausalLM(exported), ids)[0]
    np.testing.assert_allclose(found, wanted.gather(1, given[0, 1:, None])[:, 0], atol=1e-4)
    monkeypatch.setattr(needs, "free_memory", lambda: 0.75e9)  # longer ones than were compared could be wrong
    exported = load_exported(build(str(checkpoint), tmp_path / "little", say=said.append))
    assert exported.max_length == max(exported.info["compared_lengths"]) == 512
    assert "memory suffices to compare inputs of 512 tokens: longer ones will be refused" in said


@pytest.mark.everything
def test_a_model_with_other_rotations_for_long_texts_takes_none_that_needs_them(tmp_path):
    long = {"max_position_embeddings": 300, "original_max_position_embeddings": 200}
    exported = load_exported(build(str(write_causal(tmp_path / "phi", "phi3", **long)), tmp_path / "out"))
    assert exported.max_length == max(exported.info["compared_lengths"]) == 200


@pytest.mark.parametrize(
    ("config", "longest", "lengths"),
    [
        (LlamaConfig(max_position_embeddings=131_072), 8192, [*USUAL, 512, 1024]),
        (LlamaConfig(max_position_embeddings=8192, rope_scaling=_YARN), 8192, [*USUAL, 512, 1024, 2048, 2049]),
        (MistralConfig(max_position_embeddings=32_768, sliding_window=4096), 4096, [*USUAL, 512, 1024, 4096]),
        (ModernBertConfig(), 8192, [3, 17, 64, 65, 66, 128, 129, 130, 150, 512, 1024]),
        (BertConfig(max_position_embeddings=600), 600, [*USUAL, 512, 600]),
        (BertConfig(max_position_embeddings=100), 100, [3, 17, 64, 100]),
    ],
)
def test_the_lengths_that_are_compared_follow_from_the_configuration(config, longest, lengths):
    is_causal = config.model_type in {"llama", "mistral"}
    assert families.longest_of(config, is_causal=is_causal) == longest
    assert families.compared_lengths(config, longest, is_causal=is_causal) == lengths


def test_a_bos_token_is_added_on_request(causal, causal_checkpoint, tmp_path):
    given = {"bos": True, "precision": "fp32"}
    exported = load_exported(build(str(causal_checkpoint("gpt2")), tmp_path / "bos", **given))
    graphs = {path.name for path in exported.folder.glob("model*.onnx")}
    assert {"model.onnx", "model.cpu.onnx", "model.prefix.onnx"} <= graphs  # and none of them is of int8 or fp16
    assert not [name for name in graphs if "int8" in name or "fp16" in name]
    assert [ids.tolist()[0] for ids in exported.tokenizer.encode(["a dancer", "[MASK]"])] == [0, 0]
    assert exported.sha256 != causal("gpt2").sha256
    assert build(str(causal_checkpoint("gpt2")), tmp_path / "bos", **given) == tmp_path / "bos"  # it is up to date
    assert exported.begins_with_added_bos
    assert not causal("gpt2").begins_with_added_bos


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A checkpoint with two large channels, as published models have them; its export, and what was said of that.

    Two inner channels of each feed-forward block are as large; the weights that they meet are smaller.
    """
    folder, said = tmp_path_factory.mktemp("large"), []
    source = write_causal(folder / "llama", "llama")
    weights = load_file(source / "model.safetensors")
    for layer in (0, 1):
        weights[f"model.layers.{layer}.mlp.up_proj.weight"][[3, 7]] *= 3000
        weights[f"model.layers.{layer}.mlp.down_proj.weight"][:, [3, 7]] /= 3000
    weights["model.layers.0.mlp.down_proj.weight"][[3, 7]] *= 3000
    save_file(weights, source / "model.safetensors", metadata={"format": "pt"})
    return source, build(str(source), folder / "out", say=said.append), said


def test_an_int8_graph_that_would_lose_is_left_out_in_one_line_unless_it_is_asked_for(large, tmp_path):
    source, folder, said = large
    (line,) = [line for line in said if "left out" in line]
    assert re.fullmatch(r"model.int8.onnx is left out: .* 0\.\d\d times as fast as fp32 \(--precision mixed .*", line)
    names = {path.name for path in folder.glob("model*")}
    assert {"model.cpu.prefix.onnx", "model.fp16.onnx"} <= names
    assert not [name for name in names if "int8" in name]
    assert {"model.int8.onnx": line.partition("left out: ")[2]} == load_exported(folder).info["left_out"]
    assert open_models(load_exported(folder), CPU, Precision.AUTO).open_low_precision is None
    with pytest.raises(InputError, match=r"no model\.int8\.onnx: export the model with --precision mixed, or give"):
        open_models(load_exported(folder), CPU, Precision.MIXED)
    kept = export(str(source), tmp_path / "out", precision="mixed", progress=False)  # as a user asks for it
    assert {path.name for path in kept.glob("model*")} - names == {
        *("model.int8.onnx", "model.int8.onnx_data", "model.int8.prefix.onnx")
    }
    said.clear()
    build(str(source), kept, say=said.append)
    assert said == [f"{kept} is up to date (--force builds it again)"]
    models = open_models(load_exported(kept), CPU, Precision.MIXED)
    ids = np.random.default_rng(0).integers(5, models.reference.exported.vocab_size, (600, 9)).astype(np.int32)
    asked = [(ids[:, :8], np.full(600, 8, np.int32), ids[:, 8])]
    method = replace(FIRST_CHOICES, asked=lambda _: asked)
    known = calibrate(method, models.low_precision, models.reference, None, seed=0)
    mixed = Mixed(method, models.low_precision, models.reference, known)
    exact = Decisions.joined(models.reference.decide_each(asked)).top1
    np.testing.assert_array_equal(Decisions.joined(mixed.decide_each(asked)).top1, exact)
    assert (Decisions.joined(models.low_precision.decide_each(asked)).top1 != exact).mean() > 0.3


def test_the_passes_lose_no_digits_where_two_channels_are_large(large, tmp_path):
    """The exporter's plain graph, whose rounding is that of PyTorch, is no nearer to fp64."""
    source, exported, _ = large
    ours, head = CausalLM(load_exported(exported)), TEXT_GENERATION.head
    checkpoint, folder = reading.load(locate(str(source)), head), tmp_path / "plain"
    folder.mkdir()
    exporter = exporter_of("plain", checkpoint.config, head.task)
    plain = exporter.trace(load_model(checkpoint, head), ["input_ids"], folder / "weights", folder, "plain")
    session = ort.InferenceSession(plain.save(folder / "model.onnx")[0], providers=["CPUExecutionProvider"])
    exact, off = load_model(checkpoint, head).double(), []
    for ids in np.random.default_rng(0).integers(5, ours.exported.vocab_size, (8, 1, 24)):
        following = torch.from_numpy(ids[0, 1:, None])
        hidden = exact(torch.from_numpy(ids), output_hidden_states=True)
        assert hidden.hidden_states[-2].abs().max() > 1000
        logits = [hidden.logits.detach(), torch.from_numpy(session.run(None, {"input_ids": ids})[0]).double()]
        wanted, found = (own[0, :-1].log_softmax(-1).gather(1, following)[:, 0].numpy() for own in logits)
        off.append([token_logprobs(ours, ids.astype(np.int32))[0] - wanted, found - wanted])
    own, plain_graph = np.sqrt((np.array(off) ** 2).mean(axis=(0, 2)))
    assert 1e-8 < own < 1.5 * plain_graph


# ---------------------------------------------------------------- the comparison with PyTorch
@pytest.fixture(scope="module")
def reference(checkpoint):
    tiny = reading.load(locate(str(checkpoint("bert"))), FILL_MASK.head)
    sentences, model = with_masks(tiny, False), load_model(tiny, FILL_MASK.head)
    return parity.reference_of(model, sentences, "tiny", lambda: deepcopy(model))  # .double() changes it


@pytest.fixture
def graph(exported, tmp_path):
    return Graph.open(shutil.copytree(exported("bert"), tmp_path / "bert") / "model.onnx")


@pytest.fixture
def checked(reference, tmp_path):
    def check(graph, logits=None, has_token=None, **options):
        other = {"logits": logits, "has_token": has_token}
        known = replace(reference, _floors={}, **{name: own for name, own in other.items() if own is not None})
        return parity.compare(graph.save(tmp_path / "bert" / "model.onnx")[0], known, **options)

    return check


def test_a_difference_below_four_times_pytorchs_own_rounding_on_the_same_input_is_accepted(
    graph, reference, checked, monkeypatch
):
    """PyTorch in fp32, as it is where values are large, is half of the difference off."""
    off = reference.logits + np.float32(1e-3) * np.sign(reference.logits)
    assert checked(graph, off).largest_difference == pytest.approx(1e-3, rel=0.1)
    monkeypatch.setattr(parity, "FLOORS", 0.5)
    with pytest.raises(parity.DisagreesError, match="disagrees with PyTorch"):
        checked(graph, off)


def put(value, values):
    value.const_value = ir.tensor(values.astype(np.float32), name=value.name)


def test_the_exported_graph_agrees_and_every_weight_counts(graph, reference, checked, monkeypatch):
    """Each matrix of the encoder in turn is off by a hundredth in one place out of ten."""
    found = checked(graph)
    assert found.samples == len(reference.samples) > 15
    assert 0 < found.largest_difference < 1e-4
    assert found.top1_agreement == 1
    matrices = [value for value in graph.initializers if len(value.shape) == 2 and min(value.shape.numpy()) > 16]
    assert len(matrices) > 15
    random = np.random.default_rng(0)
    for value in matrices:
        whole, before = array(value), value.const_value
        put(value, whole + 0.01 * whole.std() * (random.random(whole.shape) < 0.1))
        with pytest.raises(InputError, match=r"tiny: the exported graph disagrees with PyTorch: \|Δlogit\|"):
            checked(graph)
        value.const_value = before
    # Other top-1s within the tolerance are ties: here the runner-up is lifted just above the top-1.
    monkeypatch.setattr(parity, "TOLERANCE", 1.0)
    lifted = reference.logits.copy()
    for row in lifted:
        best, second = np.argsort(-row)[:2]
        row[second] = row[best] + 1e-4
    assert checked(graph, lifted).top1_agreement == 0


@pytest.mark.parametrize("excluded", [-1e4, -1e30, -np.inf])
@pytest.mark.parametrize("padded", [True, False])
def test_a_row_that_nobody_uses_does_not_make_the_comparison_void(padded, excluded, graph, reference, checked):
    """A token, or a row without one, has a bias that excludes it; then another logit is off by 0.5."""
    logits = reference.logits.copy()
    bias = next(value for value in graph.initializers if "cls.predictions.bias" in value.name)
    values, has_token = array(bias).copy(), np.arange(logits.shape[1]) != (7 if padded else -1)
    values[7], logits[:, 7] = excluded, (logits[:, 7] + np.float32(excluded))
    put(bias, values)
    assert checked(graph, logits, has_token).top1_agreement == 1
    values[11] += 0.5
    put(bias, values)
    with pytest.raises(InputError, match=r"\|Δlogit\| 0.5 where"):
        checked(graph, logits, has_token)


@pytest.mark.parametrize("is_exact", [True, False])
@pytest.mark.parametrize("kind", ["TopK", "Greater", "Log", "not a number"])
def test_a_wrong_decision_is_found_though_the_logits_are_right_and_not_a_number_is_not_agreement(
    kind, is_exact, graph, checked
):
    if kind == "not a number":
        bias = next(value for value in graph.initializers if "cls.predictions.bias" in value.name)
        put(bias, array(bias) * np.nan)
    else:
        behind = graph.outputs["logits"].consumers() if kind == "Greater" else graph.nodes  # ids are compared, too
        node = next(node for node in behind if node.op_type == kind)
        if kind == "TopK":
            node.attributes["largest"] = ir.AttrInt64("largest", 0)
        else:
            node.op_type = {"Greater": "Less", "Log": "Sqrt"}[kind]
    with pytest.raises(InputError, match="disagrees with PyTorch"):
        checked(graph, is_exact=is_exact)


def test_the_names_of_labels_are_those_of_label2id_where_nothing_else_names_them(classifier, tmp_path):
    """transformers itself forgets them, and with them the number of labels."""
    copy = shutil.copytree(classifier("text-classification", "bert")[0], tmp_path / "tiny")
    config = json.loads((copy / "config.json").read_text())
    names = list(config.pop("id2label").values())
    (copy / "config.json").write_text(json.dumps(config))
    made = build(str(copy), tmp_path / "out", task="text-classification")
    assert json.loads((made / "export.json").read_text())["labels"] == names
