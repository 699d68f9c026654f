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
from transformers import BertConfig, BertForMaskedLM, BertModel

pytestmark = pytest.mark.long

GRAPHS = {
    *("model.onnx", "model.onnx_data", "model.cpu.onnx"),
    *("model.int8.onnx", "model.int8.onnx_data", "model.fp16.onnx", "model.fp16.onnx_data"),
}
FILES = GRAPHS | {"tokenizer.json", "export.json", "config.json"}


def refused(reference, folder, match, **options):
    with pytest.raises(InputError, match=match) as caught:
        build(str(reference), folder, **options)
    assert "\n" not in str(caught.value)
    assert not folder.exists()
    assert not list(folder.parent.glob(f".{folder.name}.*"))


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


def test_a_second_export_does_nothing_and_force_builds_anew(copy, tmp_path):
    said = []
    folder = build(str(copy), tmp_path / "out")
    before = {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.glob("[!.]*")}
    build(str(copy), folder, say=said.append)
    assert said == [f"{folder} is up to date (--force builds it again)"]
    assert before == {path.name: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.glob("[!.]*")}
    identity = load_exported(folder).sha256
    build(str(copy), folder, force=True)
    assert (folder / "model.onnx").stat().st_ino != before["model.onnx"][1]
    assert load_exported(folder).sha256 == identity


def test_a_changed_checkpoint_is_exported_again(copy, tmp_path):
    folder = build(str(copy), tmp_path / "out")
    before = load_exported(folder).sha256
    weights = load_file(copy / "model.safetensors")
    weights["cls.predictions.bias"] = weights["cls.predictions.bias"] + 1.5 * torch.rand(
        weights["cls.predictions.bias"].shape
    )
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    build(str(copy), folder)
    assert load_exported(folder).sha256 != before


def test_a_damaged_export_is_built_anew(copy, tmp_path):
    folder = build(str(copy), tmp_path / "out")
    whole = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(whole[:-100])
    build(str(copy), folder)
    assert (folder / "model.onnx").read_bytes() == whole


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


def test_a_disagreement_with_pytorch_fails_the_export(copy, tmp_path, monkeypatch):
    wrong = building.reference_logits
    monkeypatch.setattr(building, "reference_logits", lambda *given: wrong(*given) + 0.5)
    refused(copy, tmp_path / "out", r"tiny: the exported graph disagrees with PyTorch: \|Δlogit\| 0.5")


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


def test_a_checkpoint_that_moved_is_the_same(copy, tmp_path):
    folder, said = build(str(copy), tmp_path / "out"), []
    copy.rename(tmp_path / "moved")
    build(str(tmp_path / "moved"), folder, say=said.append)
    assert said == [f"{folder} is up to date (--force builds it again)"]


def test_what_is_needed_is_said_first_and_then_each_step(copy, tmp_path):
    said = []
    build(str(copy), tmp_path / "out", say=said.append)
    assert said[0].startswith("tiny needs about 0.9 GB of memory and 0.0 GB of disk")
    assert len(said) > 8


def test_what_cannot_fit_is_refused_before_the_work(copy, tmp_path, monkeypatch):
    monkeypatch.setattr(building.needs, "free_memory", lambda: 0.5e9)
    refused(
        copy, tmp_path / "out", r"tiny: exporting it needs about 0.9 GB of memory .* only 0.5 GB of memory are free"
    )


# ---------------------------------------------------------------- what is refused


def test_a_folder_that_is_not_an_export_is_not_overwritten(copy, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="mine exists and is not an exported model"):
        build(str(copy), tmp_path / "mine", force=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_a_folder_without_configuration(copy, tmp_path):
    (copy / "config.json").unlink()
    refused(copy, tmp_path / "out", r"tiny holds no config\.json")


def test_a_configuration_that_is_not_json(copy, tmp_path):
    (copy / "config.json").write_text("{")
    refused(copy, tmp_path / "out", r"config\.json: not JSON")


def test_pickled_weights_need_the_option(copy, tmp_path):
    model = BertForMaskedLM.from_pretrained(copy)
    (copy / "model.safetensors").unlink()
    torch.save(model.state_dict(), copy / "pytorch_model.bin")
    refused(copy, tmp_path / "out", "no safetensors weights; --allow-pickle reads pickled ones")
    assert load_exported(build(str(copy), tmp_path / "out", allow_pickle=True)).family == "bert"


def test_cut_off_weights(copy, tmp_path):
    weights = (copy / "model.safetensors").read_bytes()
    (copy / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    refused(copy, tmp_path / "out", "the weights could not be read")


def test_an_encoder_without_its_masked_lm_head(copy, tmp_path):
    BertModel(BertConfig.from_pretrained(copy)).save_pretrained(copy)
    refused(copy, tmp_path / "out", r"tiny is not a masked language model: its weights lack cls\.predictions")


def test_a_tokenizer_without_mask(copy, tmp_path):
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (copy / name).exists():
            content = json.loads((copy / name).read_text())
            content.pop("mask_token", None)
            (copy / name).write_text(json.dumps(content))
    refused(copy, tmp_path / "out", "its tokenizer has no mask token")


def test_no_tokenizer(copy, tmp_path):
    for path in copy.glob("*token*"):
        path.unlink()
    refused(copy, tmp_path / "out", "tiny: no fast tokenizer could be loaded")


def test_a_revision_of_a_local_folder(copy, tmp_path):
    refused(copy, tmp_path / "out", "--revision is for models of the hub", revision="main")


@pytest.mark.parametrize("reference", ["./missing", "/missing/model", "~/model"])
def test_a_path_that_is_not_there(reference, tmp_path):
    refused(reference, tmp_path / "out", "is not a folder: give a hub id, a local folder, or mini")


def test_a_name_that_cannot_be_a_hub_id(tmp_path):
    refused("a/b/c", tmp_path / "out", "neither a folder here nor a hub id")


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
