"""The commit of the source: of a git checkout, of an installation, or unknown; and the limits of a container."""

import json
import shlex
import subprocess
from types import SimpleNamespace

import pytest
from negengine.engine.basics import limits
from negengine.engine.basics.versions import recorded_source, requirement, source_address, source_commit, versions


def test_a_checkout_has_the_commit_that_git_names_and_tells_of_changed_files(tmp_path, monkeypatch):
    def git(*words):
        return subprocess.check_output(["git", "-C", tmp_path, *words], text=True).strip()

    git("init", "-q")
    (tmp_path / "code.py").write_text("1\n")
    git("add", "code.py")
    git("-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "commit", "-qm", "first")
    commit, known = git("rev-parse", "HEAD"), source_commit.__wrapped__
    git("remote", "add", "origin", "none")
    for origin, address in {  # the address that is cited is on the web and names no user
        "https://me:secret@example.org/lab/negengine.git": "https://example.org/lab/negengine",
        "git@example.org:lab/negengine.git": None,
        "/home/me/negengine": None,
    }.items():
        git("remote", "set-url", "origin", origin)
        assert source_address.__wrapped__(tmp_path) == address
    (tmp_path / "notes.txt").write_text("new")  # new files do not count
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert known(tmp_path) == commit
    (tmp_path / "site-packages").mkdir()  # a package can lie inside the repository of a project that uses it
    assert known(tmp_path / "site-packages") != commit
    (tmp_path / "code.py").write_text("2\n")
    assert known(tmp_path) == f"{commit}+changes"
    monkeypatch.setenv("PATH", "")
    assert known(tmp_path) is None


FOUND = json.dumps({"url": "https://x", "vcs_info": {"vcs": "git", "commit_id": "ab12"}})
WRONG = json.dumps({"url": "https://x", "vcs_info": {"commit_id": 3}})


def test_an_installation_from_a_repository_has_what_pip_recorded():
    for text, source in {FOUND: ("https://x", "ab12"), **dict.fromkeys((None, "{", WRONG), (None, None))}.items():
        assert recorded_source(SimpleNamespace(read_text={"direct_url.json": text}.__getitem__)) == source
    assert list(versions(["numpy", "no-such-package"])) == ["numpy"]


@pytest.mark.parametrize(
    ("recorded", "wanted"),
    [
        (None, "'negengine[export]'"),
        ({"url": "file:///home/anna/neg%20engine", "dir_info": {}}, "'/home/anna/neg engine[export]'"),
        ({"url": "file:///src", "dir_info": {"editable": True}}, "-e '/src[export]'"),
        ({"url": "file:///tmp/negengine-0.1.0-py3-none-any.whl"}, "'/tmp/negengine-0.1.0-py3-none-any.whl[export]'"),
        (json.loads(FOUND), "'negengine[export] @ git+https://x@ab12'"),
    ],
)
def test_what_a_message_installs_is_from_where_this_installation_is(recorded, wanted):
    told = SimpleNamespace(read_text=lambda _: None if recorded is None else json.dumps(recorded))
    assert requirement("export", told) == wanted
    words = shlex.split(f"pip install {wanted}")
    assert len(words) == 3 + ("-e" in words)


NONE, OLD = float("inf"), {"cpu/cpu.cfs_period_us": "100000"}
CASES = [
    ({}, NONE),
    ({"cpu.max": "max 100000"}, NONE),
    ({"cpu.max": "250000 100000"}, 2.5),
    ({"a/b/cpu.max": "max 100000", "a/cpu.max": "50000 100000", "cpu.max": "800000 100000"}, 0.5),
    ({"cpu/cpu.cfs_quota_us": "-1", **OLD}, NONE),
    ({"cpu/cpu.cfs_quota_us": "300000", **OLD}, 3.0),
    ({"cpu.max": "nonsense"}, NONE),
]


@pytest.mark.parametrize(("files", "quota"), CASES)
def test_the_smallest_limit_of_a_container_counts(files, quota, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "CONTROL_GROUPS", tmp_path)
    monkeypatch.setattr(limits, "OWN_GROUPS", tmp_path / "own")
    (tmp_path / "own").write_text("1:cpu:/elsewhere\n0::/a/b\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    assert limits.cpu_quota() == quota
    assert quota > 1 or limits.cpu_threads() == 1
    (tmp_path / "own").unlink()
    assert list(limits.control_groups()) == []
