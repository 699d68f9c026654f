"""An exported folder is found by path or name, and every damage is told before anything runs."""

import json
import shutil

import pytest
from negengine.engine.errors import InputError
from negengine.engine.inference.exported import FORMAT, load_exported


@pytest.fixture
def copy(mini, tmp_path, monkeypatch):
    """An export of its own under models/, to damage."""
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(mini.folder, tmp_path / "models" / "tiny")


def edit(folder, **changes):
    path = folder / "export.json"
    info = json.loads(path.read_text("utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in info.items() if value is not None}), "utf-8")


def test_by_name_and_by_path_it_is_the_same(copy, mini):
    assert load_exported("tiny").sha256 == load_exported(copy).sha256 == mini.sha256
    assert load_exported("tiny").twin("cpu") == load_exported("tiny").folder / "model.int8.onnx"
    assert load_exported("tiny").twin("cuda") == load_exported("tiny").folder / "model.fp16.onnx"


def test_the_twins_do_not_belong_to_a_models_identity(copy, mini):
    info = json.loads((copy / "export.json").read_text("utf-8"))
    for twin in ("model.int8.onnx", "model.fp16.onnx"):
        (copy / twin).unlink()
        del info["files"][twin]
    edit(copy, files=info["files"])
    found = load_exported(copy)
    assert found.sha256 == mini.sha256
    assert found.twin("cpu") is None


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "model.int8.onnx"])
def test_a_changed_or_missing_file_is_named(copy, name):
    whole = (copy / name).read_bytes()
    (copy / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(InputError, match=rf"{name} is damaged .*--force"):
        load_exported("tiny")
    (copy / name).unlink()
    with pytest.raises(InputError, match=rf"{name} is missing: export the model again"):
        load_exported("tiny")


def test_another_format_task_or_a_lacking_key_is_told(copy):
    edit(copy, format=99)
    with pytest.raises(InputError, match=f"has format 99, this version reads {FORMAT}"):
        load_exported("tiny")
    edit(copy, format=FORMAT, task="text-classification")
    with pytest.raises(InputError, match="was exported for text-classification, needed is fill-mask"):
        load_exported("tiny")
    edit(copy, task="fill-mask", vocab_size=None)
    with pytest.raises(InputError, match=r"export\.json lacks vocab_size"):
        load_exported("tiny")


def test_what_is_no_export_is_told_with_what_to_run(copy, tmp_path):
    with pytest.raises(InputError, match="no exported model other: run `negengine export other` first"):
        load_exported("other")
    (copy / "export.json").write_text("{")
    with pytest.raises(InputError, match="is no exported model"):
        load_exported("tiny")
    (copy / "export.json").unlink()
    with pytest.raises(InputError, match="looks like a checkpoint"):
        load_exported("tiny")
