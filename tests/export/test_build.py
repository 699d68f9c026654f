"""An export is whole, repeatable and atomic, and what cannot be used is refused in one line."""

import json
import re
import shutil

import pytest
import torch
from hub_here import serve
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.exported import load_exported
from negengine.export import build as building
from negengine.export.build import _save_tokenizer, build
from negengine.export.checkpoint import locate
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.long

GRAPHS = {
    *("model.onnx", "model.onnx_data", "model.cpu.onnx"),
    *("model.int8.onnx", "model.int8.onnx_data", "model.fp16.onnx", "model.fp16.onnx_data"),
}
FILES = GRAPHS | {"tokenizer.json", "export.json", "config.json"}


# ---------------------------------------------------------------- what is written


def test_an_export_holds_its_graphs_tokenizer_and_the_proof_of_parity(exported):
    folder = exported("bert")
    assert {path.name for path in folder.iterdir()} >= FILES
    info = json.loads((folder / "export.json").read_text("utf-8"))
    assert info["parity"]["largest_difference"] < 1e-4
    assert info["parity"]["top1_agreement"] == 1
    assert info["parity"]["samples"] > 100
    assert info["fp16"]["products"] > 0
    assert set(info["files"]) == GRAPHS | {"tokenizer.json"}


def test_an_export_is_made_anew_only_if_it_must_be(copy, tmp_path):
    folder, said = tmp_path / "out", []

    def exported(checkpoint, **options):
        said.clear()
        build(str(checkpoint), folder, say=said.append, **options)
        return {path.name: path.read_bytes() for path in folder.glob("model*")}

    first = exported(copy)
    assert said[0].startswith("tiny needs about 0.9 GB of memory and 0.0 GB of disk")
    assert len(said) > 8  # each step
    times = [path.stat().st_mtime_ns for path in sorted(folder.glob("[!.]*"))]
    assert exported(copy) == first
    checkpoint = copy.rename(tmp_path / "moved")
    assert exported(checkpoint) == first
    assert said == [f"{folder} is up to date (--force builds it again)"]
    assert times == [path.stat().st_mtime_ns for path in sorted(folder.glob("[!.]*"))]
    assert exported(checkpoint, force=True) == first
    assert times != [path.stat().st_mtime_ns for path in sorted(folder.glob("[!.]*"))]
    (folder / "model.onnx").write_bytes(first["model.onnx"][:-100])  # damaged
    assert exported(checkpoint) == first
    weights = load_file(checkpoint / "model.safetensors")
    bias = weights["cls.predictions.bias"]
    weights["cls.predictions.bias"] = bias + 1.5 * torch.rand(bias.shape)
    save_file(weights, checkpoint / "model.safetensors", metadata={"format": "pt"})
    assert exported(checkpoint) != first


@pytest.mark.parametrize("stage", ["load_model", "trace", "run_passes", "compare", "publish"])
def test_whatever_fails_leaves_the_older_export_as_it_was(stage, copy, tmp_path, monkeypatch):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "export.json").write_text("{}")
    monkeypatch.setattr(building, stage, lambda *_, **__: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(InputError, match="no space left to write out"):
        build(str(copy), folder, force=True)
    assert [path.name for path in tmp_path.iterdir() if path.name != "tiny"] == ["out"]
    assert (folder / "export.json").read_text() == "{}"


def test_another_checkpoint_of_the_same_name_does_not_replace_an_export(checkpoint, tmp_path, monkeypatch):
    """As two runs of a trainer have a `checkpoint-500` each."""
    monkeypatch.chdir(tmp_path)
    for run, family in (("a", "bert"), ("b", "roberta")):
        shutil.copytree(checkpoint(family), tmp_path / run / "best")
    folder = build("a/best")
    before = load_exported(folder).sha256
    said = rf"models/best is the export of another checkpoint, {tmp_path}/a/best: give another --output, or --force"
    with pytest.raises(InputError, match=said):
        build("b/best")
    assert load_exported(folder).sha256 == before
    assert load_exported(build("b/best", force=True)).family == "roberta"


def test_the_bundled_model_is_located_like_any_folder():
    bundled = locate("mini")
    assert bundled.revision == locate(bundled.location).revision
    assert bundled.is_local


# ---------------------------------------------------------------- the hub, served here


@pytest.fixture(scope="module")
def hub(checkpoint):
    with serve({"lab/tiny": checkpoint("bert")}) as served:
        yield served.address


EXPORT = """
import sys
from pathlib import Path
from negengine.export.build import build
build("lab/tiny@v1", Path(sys.argv[1]))
"""
NOWHERE = "http://127.0.0.1:9"


def test_a_model_of_the_hub_is_fetched_once_and_then_found_in_the_cache(hub, from_hub, use_hub, tmp_path):
    from_hub(EXPORT, hub, str(tmp_path / "out"))
    exported = load_exported(tmp_path / "out")
    assert (exported.name, exported.revision) == ("lab/tiny@v1", "b" * 40)
    use_hub(NOWHERE, offline=True)
    assert locate("lab/tiny@v1").revision == "b" * 40


@pytest.mark.parametrize(
    ("wanted", "given", "said"),
    [
        ("lab/other", {}, "lab/other is neither a folder here nor a model on the hub"),
        ("lab/tiny@v9", {}, "lab/tiny has no revision 'v9' on the hub"),
        ("lab/tiny", {"address": NOWHERE}, "the hub was not reached: no connection"),
        ("lab/tiny", {"offline": True}, "offline mode is on (HF_HUB_OFFLINE)"),
    ],
)
def test_what_the_hub_does_not_give_is_told_in_one_line(wanted, given, said, hub, use_hub):
    use_hub(**{"address": hub, **given})
    told = []
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        locate(wanted, say=told.append)
    assert "\n" not in str(caught.value)
    assert [line.partition(" (")[0] for line in told] == (
        [] if given.get("offline") else [f"asking the Hugging Face hub for {wanted.partition('@')[0]}"]
    )


@pytest.mark.parametrize(
    ("number", "text"), [(27, "File too large (os error 27)"), (28, "No space left (os error 28)")]
)
def test_an_error_of_the_disk_in_the_tokenizers_library_is_one_of_the_system(number, text, tmp_path):
    class Tokenizer:
        def save_pretrained(self, folder):
            raise Exception(text)  # noqa: TRY002 - as the library does

    with pytest.raises(OSError) as raised:
        _save_tokenizer(Tokenizer(), tmp_path)
    assert raised.value.errno == number
    assert raised.value.filename == str(tmp_path / "tokenizer.json")


@pytest.mark.parametrize(("revision", "name"), [("v1", "lab/tiny@v1"), ("b" * 40, f"lab/tiny@{'b' * 12}")])
def test_a_revision_is_a_model_of_its_own(revision, name, monkeypatch, tmp_path):
    config = tmp_path / ("b" * 40) / "config.json"
    monkeypatch.setattr("negengine.export.checkpoint._hub_config", lambda *_: config)
    for source in (locate("lab/tiny", revision), locate(f"lab/tiny@{revision}")):
        assert (source.name, source.location, source.revision) == (name, "lab/tiny", "b" * 40)
    assert locate("lab/tiny").name == "lab/tiny"


def test_two_revisions_of_one_model_are_refused():
    with pytest.raises(InputError, match="lab/tiny@v1 names a revision, and --revision v2 another"):
        locate("lab/tiny@v1", "v2")
