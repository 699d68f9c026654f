"""Names that stay in their folder, and paths without the user's name."""

import subprocess
from pathlib import Path
from unittest.mock import Mock

import pytest
from negengine.engine.basics import paths
from negengine.engine.basics.paths import is_file_name, is_model_name, shell_command, with_home, without_home, words_of


@pytest.fixture(autouse=True)
def _home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/jane")


def test_the_home_folder_is_a_tilde_and_comes_back(monkeypatch):
    for path, written in {
        "/home/jane/models/mini": "~/models/mini",
        "/home/jane": "~",
        "/home/janet/models": "/home/janet/models",
        "models/mini": "models/mini",
        "/data/home/jane": "/data/home/jane",
    }.items():
        assert (without_home(Path(path)), with_home(written)) == (written, Path(path))
    assert paths.without_home_inside("/home/jane/x.txt:3: '/home/jane/y' is empty") == "~/x.txt:3: '~/y' is empty"
    assert paths.without_home_inside("/home/janet/x, /data/home/jane/x") == "/home/janet/x, /data/home/jane/x"
    monkeypatch.setenv("HOME", "/jane")  # right below the root
    assert (without_home("/jane/x"), with_home("~/x")) == ("~/x", Path("/jane/x"))


def test_a_command_does_not_name_the_user_and_a_shell_reads_it_as_it_was():
    words = ["negengine", "/home/jane/my models/mini", "-o", "/home/jane", "--output=/home/jane/runs/x", "it's"]
    words += ["/home/janet/x", "$HOME", "a b", ""]
    command = shell_command(words)
    assert ("/home/jane/" in f"{command} ", "/home/janet/x" in command, words_of(command)) == (False, True, words)
    told = subprocess.check_output(["sh", "-c", f"printf '%s\\n' {command}"], text=True)
    assert told.split("\n")[:-1] == words


@pytest.mark.parametrize("home", ["/", "", None])
def test_without_a_home_of_its_own_nothing_is_changed(monkeypatch, home):
    if home is None:  # as for a user who has no entry in the system's list, in a container
        monkeypatch.setattr(Path, "home", Mock(side_effect=RuntimeError))
    else:
        monkeypatch.setenv("HOME", home)
    assert (without_home("/data/x"), paths.without_home_inside("/data/x: empty")) == ("/data/x", "/data/x: empty")
    assert (with_home("~/x"), shell_command(["a", "/data/x"])) == (Path("~/x"), "a /data/x")
    assert words_of("a '$HOME' b") == ["a", "$HOME", "b"]


OUTSIDE = [
    "", ".", "..", "...", "../x", "../../payload", "a/b/c", "/etc/passwd", "a\\b", "..\\x", "C:", "C:x", "C:\\x",
    "\\\\server\\share", "x\0", "x\n", "x:stream", "x ", "x.", "CON", "con.json", "Aux", "nul.txt", "COM1",
    "lpt9.parquet", "a" * 256, "é" * 128, "\ud800", "x*", "x?", "a|b",
]  # fmt: skip
ORDINARY = ["triplets.parquet", "summary-2.json", "Ergebnisse für GH22.parquet", ".hidden.json", "a" * 255]


def test_what_leads_elsewhere_or_means_a_device_is_refused():
    assert [name for name in OUTSIDE if is_file_name(name) or is_model_name(name)] == []
    assert [name for name in ORDINARY if is_file_name(name)] == ORDINARY
    models = ["roberta-base", "FacebookAI/roberta-base", "a/../b", "a//b", "/a"]
    assert [name for name in models if is_model_name(name)] == models[:2]
