"""What a killed or interrupted export leaves is found by the next one, and no older export is ever lost."""

import subprocess
import sys
from pathlib import Path

import pytest
from negengine.export.folder import publish, remove_leftovers, workspace_beside

KILLED = """
import os, signal, sys
from pathlib import Path
from negengine.export.folder import publish, staged_in, workspace_beside
folder, moved_away = Path(sys.argv[1]), sys.argv[2] == "True"
with workspace_beside(folder) as workspace:
    (staged_in(workspace) / "model.onnx").write_text("half written")
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
        remove_leftovers(folder)  # of other exports, not that of one at work
        assert len(names(folder)) == 3
    assert names(folder) == [".out.notes", "out"]


def test_an_interrupt_between_the_two_renames_keeps_the_older_export(folder, monkeypatch):
    rename = Path.rename

    def interrupted(path, target):
        if target == folder:
            monkeypatch.undo()
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), workspace_beside(folder) as workspace:
        publish(workspace, folder)
    assert (folder / "model.onnx").read_text() == "older"
    assert names(folder) == ["out"]
