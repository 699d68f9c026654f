"""The folder of a training: what it refuses, and that its result appears whole or not at all."""

import os

import pytest
from negengine.engine.basics.errors import InputError
from negengine.export.training.folder import (
    CHECKPOINTS,
    RECORD,
    SEAL,
    TrainingFolder,
    read_training,
)
from negengine.export.training.folder import seal as mark

IDENTITY = {"model": "m", "seed": 1}
RESULT = {"steps": 1, "epochs": 1, "score": 1.0}


def held(folder, kind="nli train"):
    return TrainingFolder.hold(folder, kind, IDENTITY)


def test_a_result_that_cannot_be_written_leaves_no_checkpoint(tmp_path):
    def save(folder):
        (folder / "config.json").write_text("{}")
        raise OSError(28, "No space left on device")

    with held(tmp_path) as training:
        training.begin()
        with pytest.raises(InputError, match="no space left"):
            training.publish(save, {})
    assert not (tmp_path / "config.json").exists()
    assert not read_training(tmp_path).finished


def test_the_weights_are_on_the_disk_before_the_record_and_before_the_checkpoints_go(tmp_path, monkeypatch):
    """And the files of a checkpoint before its seal."""
    flushed = []  # inodes, and whether there were checkpoints then
    monkeypatch.setattr(
        os, "fsync", lambda number: flushed.append((os.fstat(number).st_ino, (tmp_path / CHECKPOINTS).exists()))
    )

    def save(folder):
        for name in ("model.safetensors", "config.json"):
            (folder / name).write_text(name)

    def order(*paths):
        return [[inode for inode, _ in flushed].index(path.stat().st_ino) for path in paths]

    with held(tmp_path) as training:
        training.checkpoints.mkdir()
        (training.checkpoints / "optimizer.pt").write_text("momentum")
        mark(training.checkpoints)
        state, sealed = order(training.checkpoints / "optimizer.pt", training.checkpoints / SEAL)
        assert state < sealed
        flushed.clear()
        training.publish(save, RESULT)
    *before, record = order(*(tmp_path / name for name in ("model.safetensors", "config.json", ".", RECORD)))
    assert max(before) < record
    assert flushed[record + 1 :] == [(tmp_path.stat().st_ino, True)]  # the name of the record, before they go
    assert not training.checkpoints.exists()


def test_a_result_that_was_changed_is_not_finished(tmp_path):
    with held(tmp_path) as training:
        training.publish(lambda folder: (folder / "config.json").write_text("{}"), RESULT)
        assert training.is_finished
    (tmp_path / "config.json").write_text("{ }")
    with held(tmp_path) as training:
        assert not training.is_finished


def test_a_folder_that_another_process_has_taken_gets_no_result(tmp_path):
    """As on a file system whose locks do not reach other machines."""
    with held(tmp_path) as training:
        training.begin()
        (tmp_path / ".lock").write_text(" process 7 on other\nabc")
        with pytest.raises(InputError, match="process 7 on other has begun to work here"):
            training.publish(lambda _: pytest.fail("written"), RESULT)
    assert not read_training(tmp_path).finished


@pytest.mark.parametrize("name", [CHECKPOINTS, f"{CHECKPOINTS}/checkpoint-5"])
def test_nothing_is_written_or_removed_behind_a_link(name, tmp_path):
    mine, folder = tmp_path / "mine" / "checkpoint-1", tmp_path / "out"
    mine.mkdir(parents=True)
    with held(folder) as training:
        training.begin()
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).symlink_to(mine.parent)
    with pytest.raises(InputError, match="a link, not a folder, so nothing is written there"), held(folder):
        pass
    assert mine.is_dir()
