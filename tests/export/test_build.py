"""An export is whole, repeatable and atomic."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.exported import load_exported
from negengine.engine.library.model import load
from negengine.export import build as building
from negengine.export.build import build
from negengine.export.folder import workspace_beside
from negengine.export.parity import DisagreesError, compare
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.long

GRAPHS = {
    *("model.onnx", "model.onnx_data", "model.cpu.onnx"),
    *("model.int8.onnx", "model.int8.onnx_data", "model.fp16.onnx", "model.fp16.onnx_data"),
}
FILES = GRAPHS | {"tokenizer.json", "export.json", "config.json"}


def test_an_export_holds_its_graphs_tokenizer_and_the_proof_of_parity(exported):
    folder = exported("bert")
    assert {path.name for path in folder.iterdir()} >= FILES
    info = json.loads((folder / "export.json").read_text("utf-8"))
    parity = info["parity"]
    assert (parity["top1_agreement"], parity["tolerance"]) == (1, 1e-4)
    assert (parity["largest_difference"] < 1e-4, parity["samples"] > 100) == (True, True)
    assert set(info["low_precision"]) == {"model.int8.onnx", "model.fp16.onnx"}
    assert all(own["top1_agreement"] > 0.9 and own["tolerance"] is None for own in info["low_precision"].values())
    assert set(info["files"]) == GRAPHS | {"tokenizer.json"}


def test_a_graph_of_low_precision_that_gives_no_numbers_is_left_out(copy, tmp_path, monkeypatch):
    def without_numbers(graph, *asked, **options):
        if graph.name == "model.fp16.onnx":
            raise error("tiny: |Δlogit| nan")
        return compare(graph, *asked, **options)

    said, error = [], DisagreesError
    monkeypatch.setattr(building, "compare", without_numbers)
    folder = build(str(copy), tmp_path / "out", say=said.append)
    assert {path.name for path in folder.glob("model*")} == GRAPHS - {"model.fp16.onnx", "model.fp16.onnx_data"}
    assert set(load_exported(folder).info["low_precision"]) == {"model.int8.onnx"}
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
    assert said[0].startswith("tiny needs about 0.9 GB of memory and 0.0 GB of disk")
    compared = [line.split()[1] for line in said if line.startswith("comparing ")]
    assert compared == ["model.onnx", "model.cpu.onnx", "model.int8.onnx", "model.fp16.onnx"]
    checkpoint = copy.rename(tmp_path / "moved")
    assert exported(checkpoint) == (first, False)
    assert exported(checkpoint, force=True) == (first, True)
    (folder / "model.onnx").write_bytes(first["model.onnx"][:-100])  # damaged
    assert exported(checkpoint) == (first, True)
    weights = load_file(checkpoint / "model.safetensors")
    weights["cls.predictions.bias"] += 1.5 * torch.rand(weights["cls.predictions.bias"].shape)
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    assert exported(checkpoint)[0] != first


@pytest.mark.parametrize("stage", ["load_model", "reference_logits", "run_passes", "compare", "publish"])
def test_whatever_fails_leaves_the_older_export_as_it_was(stage, copy, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "export.json").write_text("{}")
    monkeypatch.setattr(building, stage, lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="no space left to write out"):
        build(str(copy), folder, force=True)
    assert [path.name for path in tmp_path.iterdir() if path.name != "tiny"] == ["out"]
    assert (folder / "export.json").read_text() == "{}"


def test_checkpoints_of_several_trainings_have_names_of_their_own(checkpoint, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for run in ("a/checkpoint-20", "a/checkpoint-100", "b/checkpoints/checkpoint-100"):
        shutil.copytree(checkpoint("bert"), tmp_path / run)
    for run, name in (("a", "a/checkpoint-100"), ("b/checkpoints", "b/checkpoint-100")):
        model = load(f"{tmp_path / run}/checkpoint-100", progress=False)
        assert (model.name, model.exported.folder) == (name, Path("models") / name)
    for run, several in (("a", "2 checkpoints"), ("b", "1 checkpoint")):
        with pytest.raises(InputError, match=f"^{run} is the folder of a training with {several}: give one, such as"):
            build(run)


def test_another_checkpoint_of_the_same_name_does_not_replace_an_export(checkpoint, tmp_path, monkeypatch):
    """As two runs of a trainer have a `checkpoint-500` each."""
    monkeypatch.chdir(tmp_path)
    for run, family in (("a", "bert"), ("b", "roberta")):
        shutil.copytree(checkpoint(family), tmp_path / run / "best")
    folder = build("a/best")
    said = rf"models/best is the export of another checkpoint, {tmp_path}/a/best: give another --output, --force "
    with pytest.raises(InputError, match=f"{said}to replace it, or the checkpoint's folder another name"):
        build("b/best")
    assert load_exported(folder).family == "bert"
    assert load_exported(build("b/best", force=True)).family == "roberta"


def test_an_error_of_the_disk_in_the_tokenizers_library_is_one_line(checkpoint, tmp_path, monkeypatch):
    def full(*_, **__):
        raise Exception("No space left (os error 28)")  # noqa: TRY002 - as the library does

    monkeypatch.setattr("transformers.PreTrainedTokenizerFast.save_pretrained", full)
    with pytest.raises(InputError, match="no space left to write model"):
        build(str(checkpoint("bert")), tmp_path / "model")
    assert not list(tmp_path.glob("*model*"))


# ---------------------------------------------------------------- the folder
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


@pytest.fixture
def folder(tmp_path):
    """An older export."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.onnx").write_text("older")
    return tmp_path / "out"


def names(folder):
    return sorted(path.name for path in folder.parent.iterdir())


@pytest.mark.parametrize("moved_away", [False, True])
def test_the_next_export_removes_what_a_killed_one_left_and_puts_the_older_one_back(folder, moved_away):
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(moved_away)], check=False)
    assert done.returncode < 0
    assert len(names(folder)) == (1 if moved_away else 2)
    (folder.parent / ".out.notes").mkdir()  # what others keep beside it stays
    with workspace_beside(folder):
        assert (folder / "model.onnx").read_text() == "older"
        with workspace_beside(folder):
            assert len(names(folder)) == 4  # the one at work stays
    assert names(folder) == [".out.notes", "out"]
