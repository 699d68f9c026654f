"""An exported folder is found by path or name, and each kind of damage is told in one line."""

import hashlib
import os
from contextlib import nullcontext

import pytest
from fake_exports import write_fake_export
from lies import reseal
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.exported import (
    FORMAT,
    ChangedError,
    checkpoint_revision,
    exported_names,
    load_exported,
    refuse_too_long,
)

FILES = {"model.onnx": b"graph", "model.int8.onnx": b"low precision", "tokenizer.json": b"{}"}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}


def write_export(folder, **changes):
    """A folder as `negengine export` writes it, with files that nothing opens; what is changed to `-` is left out."""
    write_fake_export(folder, "{}", **{"files": DIGESTS, "max_length": 20, **changes})
    (folder / "model.int8.onnx").write_bytes(FILES["model.int8.onnx"])
    for key in [key for key, value in changes.items() if value == "-"]:
        reseal(folder / "export.json", lambda info, key=key: info.pop(key))
    return folder


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """An export in the folder that the command runs in."""
    monkeypatch.chdir(tmp_path)
    folder = write_export(tmp_path / "models" / "tiny")
    for name in FILES:
        os.utime(folder / name, (1_000_000, 1_000_000))  # long ago
    return folder


def refused(reference, message, **more):
    with pytest.raises(InputError, match=message):
        load_exported(reference, **more)


def test_by_name_and_by_path_it_is_the_same_and_low_precision_graphs_do_not_belong_to_its_identity(tiny):
    found = load_exported("tiny")
    identity = found.sha256
    assert identity == load_exported(tiny).sha256 == load_exported("models/tiny").sha256
    assert found.held("model.int8.onnx") == found.folder / "model.int8.onnx"
    assert found.held("model.fp16.onnx") is None
    refuse_too_long(found, 20, "CpTp")
    with pytest.raises(InputError, match=r"^CpTp: 21 tokens, but tiny takes at most 20: shorten it$"):
        refuse_too_long(found, 21, "CpTp")
    write_export(tiny, files={name: digest for name, digest in DIGESTS.items() if name != "model.int8.onnx"})
    assert load_exported("tiny").sha256 == identity
    write_export(tiny, files=DIGESTS | {"model.onnx": "0" * 64})
    assert load_exported("tiny").sha256 != identity


def test_a_folder_of_the_same_name_does_not_hide_an_export_and_a_checkpoint_stands_for_its_own(tiny, tmp_path):
    (tmp_path / "tiny").mkdir()
    for name in ("notes.txt", "config.json"):
        (tmp_path / "tiny" / name).write_text("{}")
        assert load_exported("tiny").folder.resolve() == load_exported("./tiny").folder.resolve() == tiny
    write_export(tmp_path / "tiny", name="other")
    assert load_exported("tiny").name == "other"
    checkpoint = tmp_path / "lab" / "best"
    checkpoint.mkdir(parents=True)
    (checkpoint / "config.json").write_text("{}")
    write_export(tmp_path / "models" / "best", origin=str(tmp_path / "another" / "best"))
    refused("lab/best", "lab/best is a checkpoint, .*: run `negengine export lab/best`, then give its name, best")
    write_export(tmp_path / "models" / "best", origin=str(checkpoint.resolve()))
    assert load_exported("lab/best").name == "best"


def test_what_is_not_there_is_told_with_what_to_run(tiny, tmp_path):
    write_export(tmp_path / "models" / "owner" / "name")
    (tmp_path / "models" / "broken").mkdir()
    (tmp_path / "models" / "broken" / "export.json").write_text("{")
    assert exported_names() == ["owner/name", "tiny"]
    (tmp_path / "notes").mkdir()
    where = r"in .* \(NEGENGINE_MODELS can name another folder\)"
    refused("other", rf"^no exported model other {where}: run `negengine export other` first$")
    refused("other", "run `negengine export other --task text-classification`", task="text-classification")
    refused("tinny", r"no exported model tinny \(did you mean tiny\?\)")
    refused("mini", r"^no exported model mini in .*: run `negengine export mini` first$")
    refused(tmp_path / "no", "^no exported model .*no: run `negengine export .*no` first$")
    refused("notes", r"notes is not an exported model, it has no export\.json")
    refused(" ", "the model's name is empty")
    refused(tiny, "is exported for fill-mask, this command needs text-classification", task="text-classification")


def test_a_field_that_is_missing_or_wrong_is_told(tiny):
    for field, value, reason in [
        ("format", 99, rf"export\.json: format 99, this version reads {FORMAT}; export the model again"),
        ("vocab_size", "-", "missing required field `vocab_size`"),
        ("vocab_size", "9", r"Expected `int`, got `str` - at `\$\.vocab_size`"),
        ("made_from", {}, "made_from lacks the revision"),
        ("files", {}, "files lacks model.onnx, tokenizer.json"),
        ("files", {"../model.onnx": "0" * 64}, "'../model.onnx' is not the name of a file in the folder"),
        ("name", "../../elsewhere", "'../../elsewhere' is not the name of a model"),
    ]:
        write_export(tiny, **{field: value})
        refused("tiny", reason)
    (tiny / "export.json").write_text("{")
    refused("tiny", r"export\.json: not as .* digest of its content.*; export .* with --force")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_told_at_once_and_a_changed_one_when_files_are_verified(name, tiny):
    """A low-precision graph is not, unless it is opened."""
    (tiny / name).write_bytes(FILES[name][:-1] + b"?")
    with pytest.raises(InputError, match=rf"{name} is damaged \(its sha256 is not that in export\.json\): .*--force"):
        load_exported("tiny").verify_files()
    if name == "model.int8.onnx":
        found = load_exported("tiny")
        found.verify_files(found.graph)
        with pytest.raises(InputError, match=rf"{name} is damaged"):
            found.verify_files(found.held("model.int8.onnx"))
    (tiny / name).unlink()
    refused("tiny", rf"{name} is missing: export the model again")


def test_a_lost_bit_is_found_although_size_time_and_inode_stay(tiny):
    weights, content = tiny / "model.onnx_data", bytearray(3 * 2**20)
    for place in (0, 2**20 + 5, len(content) - 1):
        weights.write_bytes(content)
        write_export(tiny, files=DIGESTS | {weights.name: hashlib.sha256(content).hexdigest()})
        load_exported("tiny").verify_files()
        times = weights.stat()
        with weights.open("r+b") as stream:
            stream.seek(place)
            stream.write(b"\x01")
        os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
        with pytest.raises(InputError, match=r"model\.onnx_data is damaged"):
            load_exported("tiny").verify_files()
    assert not [path for path in tiny.iterdir() if path.name.startswith(".")]  # reading a model writes nothing


def test_a_checkpoint_that_was_trained_on_is_not_run_by_its_old_export(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoint, weights = tmp_path / "lab" / "tiny", tmp_path / "lab" / "tiny" / "model.safetensors"
    checkpoint.mkdir(parents=True)
    (checkpoint / "config.json").write_text("{}")
    weights.write_bytes(b"first")
    made = {"origin": str(checkpoint), "made_from": {"revision": checkpoint_revision(checkpoint)}}
    folder = write_export(tmp_path / "models" / "tiny", **made).relative_to(tmp_path)
    assert load_exported("lab/tiny").folder == load_exported("tiny").folder == folder
    for content, is_changed in ((b"later", True), (b"first", False)):
        weights.write_bytes(content)
        os.utime(weights, (1_000_000, 1_000_000))  # as a copy that keeps the time has it
        changed = pytest.raises(ChangedError, match=r"^lab/tiny has changed since it was exported: run ")
        with changed if is_changed else nullcontext():
            load_exported("lab/tiny")
    weights.unlink()
    refused("lab/tiny", "has changed since it was exported")
    assert load_exported("tiny").folder == folder  # its name means the export
