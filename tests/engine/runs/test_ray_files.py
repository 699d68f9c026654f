"""Files on their way to other machines: in pieces, compared by digest, copied once."""

import os
import shutil

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.runs.ray_files import SentFile, copies_folder


class Store:
    """An object store: references are numbers."""

    def __init__(self):
        self.objects, self.read = [], 0

    def put(self, value):
        self.objects.append(value.tobytes())
        return len(self.objects) - 1

    def get(self, reference):
        self.read += 1
        return self.objects[reference]


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "here" / "model"
    (folder / "onnx").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(os.urandom(300))
    (folder / "onnx" / "weights").write_bytes(os.urandom(200))
    (folder / "empty").write_bytes(b"")
    (folder / ".verified.json").write_text("{}")
    return folder


@pytest.fixture
def copies(tmp_path):
    (tmp_path / "copies").mkdir()
    return tmp_path / "copies"


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_travels_in_pieces_and_is_copied_once(model, copies):
    store, sent = Store(), SentFile.at(model)
    assert sent.is_at(model)
    pieces = sent.in_store(store.put, piece=128)
    assert [len(pieces[name]) for name in ("model.onnx", "onnx/weights", "empty")] == [3, 2, 0]
    copy = sent.copied(pieces, store.get, copies)
    wanted = {path: content for path, content in contents(model).items() if not path.name.startswith(".")}
    assert {path: content for path, content in contents(copy).items() if not path.name.startswith(".")} == wanted
    read = store.read
    assert sent.copied(pieces, store.get, copies) == copy
    assert store.read == read


def test_a_single_file_travels_too(tmp_path, copies):
    file = tmp_path / "stimuli.csv"
    file.write_text("sentence\nIt is [MASK].\n")
    store, sent = Store(), SentFile.at(file)
    copy = sent.copied(sent.in_store(store.put), store.get, copies)
    assert (copy.name, copy.read_bytes()) == (file.name, file.read_bytes())
    assert sent.is_at(copy)


@pytest.mark.parametrize("change", ["missing", "other"])
def test_another_folder_at_the_same_path_is_not_used(model, change):
    sent = SentFile.at(model)
    if change == "missing":
        (model / "model.onnx").unlink()
    else:
        (model / "model.onnx").write_bytes(b"x" * 300)
    assert not sent.is_at(model)


def test_a_damaged_copy_is_made_again(model, copies):
    store, sent = Store(), SentFile.at(model)
    pieces = sent.in_store(store.put)
    copy = sent.copied(pieces, store.get, copies)
    (copy / "model.onnx").write_bytes(b"x")
    assert sent.is_at(sent.copied(pieces, store.get, copies))


def test_what_arrives_damaged_is_refused_and_leaves_nothing(model, copies):
    store, sent = Store(), SentFile.at(model)
    pieces = sent.in_store(store.put)
    store.objects[0] = store.objects[0][:-1]
    with pytest.raises(InputError, match="arrived damaged"):
        sent.copied(pieces, store.get, copies)
    assert [path.suffix for path in copies.iterdir()] == [".lock"]


def test_copies_lie_in_a_folder_of_this_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = copies_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert copies_folder() == folder
    monkeypatch.setattr(os, "getuid", lambda: 4_711)
    shutil.move(folder, tmp_path / "negengine-4711")
    with pytest.raises(InputError, match="belongs to another user; set TMPDIR"):
        copies_folder()
