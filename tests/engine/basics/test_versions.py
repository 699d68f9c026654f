"""The commit of the source: of a git checkout, of an installation from a repository, or unknown."""

import json
import subprocess
from types import SimpleNamespace

import pytest
from negengine.engine.basics.versions import commit_of, source_commit, versions

AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


@pytest.fixture
def checkout(tmp_path):
    """A repository with one file, and its commit."""

    def git(*words):
        done = subprocess.run(["git", "-C", tmp_path, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    (tmp_path / "code.py").write_text("1\n")
    git("add", "code.py")
    git(*AUTHOR, "commit", "-qm", "first")
    source_commit.cache_clear()
    return tmp_path, git("rev-parse", "HEAD")


def test_a_checkout_has_the_commit_that_git_names_and_tells_of_changed_files(checkout, monkeypatch):
    """New files do not count, nor does another repository in the environment."""
    folder, commit = checkout
    (folder / "notes.txt").write_text("new")
    monkeypatch.setenv("GIT_DIR", str(folder / "elsewhere"))
    assert source_commit(folder) == commit
    source_commit.cache_clear()
    (folder / "code.py").write_text("2\n")
    assert source_commit(folder) == f"{commit}+changes"
    source_commit.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert source_commit(folder) is None


def test_the_repository_around_a_folder_is_not_its_own(checkout):
    """An installed package can lie inside the repository of a project that uses it."""
    folder, commit = checkout
    (folder / "site-packages").mkdir()
    assert source_commit(folder / "site-packages") != commit


@pytest.mark.parametrize(
    ("text", "commit"),
    [
        (json.dumps({"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "ab12"}}), "ab12"),
        (None, None),
        ("{", None),
        (json.dumps({"vcs_info": {"commit_id": 3}}), None),
    ],
)
def test_an_installation_from_a_repository_has_the_commit_that_pip_recorded(text, commit):
    assert commit_of(SimpleNamespace(read_text={"direct_url.json": text}.__getitem__)) == commit


def test_versions_are_of_installed_packages_only():
    assert list(versions(["numpy", "no-such-package"])) == ["numpy"]
