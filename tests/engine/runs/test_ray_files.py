"""Files on their way to other machines: in pieces, compared by digest, copied once."""

import os

import pytest
from negengine.engine.basics.errors import InputError

pytest.importorskip("ray", reason="the extra `ray` is not installed")
from negengine.engine.runs.ray_pool import SentFile, copies_folder


class Store(list):
    """An object store: references are numbers."""

    read = 0

    def put(self, value):
        self.append(value)
        return len(self) - 1

    def get(self, reference):
        self.read += 1
        return self[reference]


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "here" / "model"
    (folder / "onnx").mkdir(parents=True)
    (folder / "model.onnx").write_bytes(os.urandom(300))
    (folder / "onnx" / "weights").write_bytes(os.urandom(200))
    (folder / "empty").write_bytes(b"")
    (folder / ".verified.json").write_text("{}")
    return folder


def contents(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def test_a_folder_travels_in_pieces_and_a_damaged_copy_is_made_again(model):
    store, sent = Store(), SentFile.at(model)
    assert sent.found(None, store.get) == model
    pieces = sent.pieces(store.put, size=128)
    assert {name: len(own) for name, own in pieces.items()} == {"empty": 0, "model.onnx": 3, "onnx/weights": 2}
    copy = sent.found(pieces, store.get)
    assert copy != model
    assert contents(copy) == contents(model)
    assert (sent.found(pieces, store.get), store.read) == (copy, 5)
    (copy / "model.onnx").write_bytes(b"x")
    assert contents(sent.found(pieces, store.get)) == contents(model)


def test_a_single_file_travels_too(model):
    store, file = Store(), model / "model.onnx"
    sent = SentFile.at(file)
    copy = sent.found(sent.pieces(store.put), store.get)
    assert (copy.name, copy.read_bytes()) == (file.name, file.read_bytes())


@pytest.mark.parametrize("change", [os.unlink, lambda path: path.write_bytes(b"x" * 300)])
def test_another_folder_at_the_same_path_is_not_used(model, change):
    sent = SentFile.at(model)
    change(model / "model.onnx")
    with pytest.raises(FileNotFoundError):
        sent.found(None, Store().get)


def test_what_arrives_damaged_is_refused_and_leaves_nothing(model):
    store, sent = Store(), SentFile.at(model)
    pieces = sent.pieces(store.put)
    store[0] = store[0][:-1]
    with pytest.raises(InputError, match="arrived damaged"):
        sent.found(pieces, store.get)
    assert [path.suffix for path in copies_folder().iterdir()] == [".lock"]


def test_copies_lie_in_a_folder_of_this_user_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = copies_folder()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert copies_folder() == folder
    monkeypatch.setattr(os, "getuid", lambda: 4_711)
    folder.rename(tmp_path / "negengine-4711")
    with pytest.raises(InputError, match="belongs to another user; set TMPDIR"):
        copies_folder()
