"""The commit of the source: of a git checkout, of an installation from a repository, or unknown."""

import json
import subprocess

import pytest
from negengine.engine.basics.versions import commit_of, package_version, source_commit, versions

AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")


def git(folder, *words):
    done = subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    git(tmp_path, "init", "-q")
    (tmp_path / "code.py").write_text("1\n")
    git(tmp_path, "add", "code.py")
    git(tmp_path, *AUTHOR, "commit", "-qm", "first")
    return tmp_path


def test_a_checkout_has_the_commit_that_git_names_and_tells_of_changed_files(checkout, monkeypatch):
    """New files do not count, nor does another repository in the environment."""
    commit = git(checkout, "rev-parse", "HEAD")
    (checkout / "notes.txt").write_text("new")
    monkeypatch.setenv("GIT_DIR", str(checkout / "elsewhere"))
    assert source_commit(checkout) == commit
    source_commit.cache_clear()
    (checkout / "code.py").write_text("2\n")
    assert source_commit(checkout) == f"{commit}+changes"
    source_commit.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert source_commit(checkout) is None


def test_the_repository_around_a_folder_is_not_its_own(checkout):
    """An installed package can lie inside the repository of a project that uses it."""
    inside = checkout / "site-packages"
    inside.mkdir()
    assert source_commit(inside) is None or source_commit(inside) != git(checkout, "rev-parse", "HEAD")


class Installed:
    def __init__(self, text):
        self.text = text

    def read_text(self, name):
        assert name == "direct_url.json"
        return self.text


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
    assert commit_of(Installed(text)) == commit


def test_versions_are_of_installed_packages_only():
    assert list(versions(["numpy", "no-such-package"])) == ["numpy"]
    assert package_version("no-such-package") is None
