"""Which data sets there are, and where they are kept."""

import gzip
import hashlib

import platformdirs
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.data_sets.sources import CACHE_VARIABLE, cache_folder, find, source

CONTENT = b"a\tb\n"
REGISTRY = f"""
[facts]
title = "Facts of somebody"
probe = "lama"
repository = "somebody/facts"
commit = "0123"
licence = "MIT"

[facts.files]
"facts.tsv" = "{hashlib.sha256(CONTENT).hexdigest()}"
"""


@pytest.fixture
def registry(tmp_path):
    (tmp_path / "data.toml").write_text(REGISTRY, "utf-8")
    return tmp_path / "data.toml"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def keep(cache, content=CONTENT):
    (cache / "facts").mkdir(parents=True, exist_ok=True)
    (cache / "facts" / "facts.tsv").write_bytes(content)


def test_the_cache_is_the_platforms_unless_named(cache, monkeypatch):
    assert cache_folder() == cache
    for unset in (lambda: monkeypatch.setenv(CACHE_VARIABLE, ""), lambda: monkeypatch.delenv(CACHE_VARIABLE)):
        unset()
        assert cache_folder() == platformdirs.user_cache_path("negengine", appauthor=False) / "data"


def test_find_prefers_what_the_user_names(tmp_path):
    assert find("facts", tmp_path) == tmp_path
    with pytest.raises(InputError, match=r"missing: no such file or folder; give another --data"):
        find("facts", tmp_path / "missing")


def test_find_tells_what_is_wrong(cache, registry):
    with pytest.raises(
        InputError, match=r"facts\.tsv does not exist: run `negengine data get facts`, or give --data PATH"
    ):
        find("facts", registry=registry)
    keep(cache, b"")
    with pytest.raises(InputError, match=r"facts\.tsv is damaged: run `negengine data get facts`, or give --data"):
        find("facts", registry=registry)
    keep(cache)
    assert find("facts", registry=registry) == cache / "facts"


def test_an_unknown_name(registry):
    for call in (find, source):
        with pytest.raises(InputError, match="unknown data set 'fact'; known are facts"):
            call("fact", registry=registry)


def test_a_source_tells_which_files_are_missing(cache, registry):
    assert source("facts", registry).missing() == ["facts.tsv"]
    keep(cache)
    assert source("facts", registry).missing() == []


@pytest.mark.parametrize("name", ["lm-diagnostics", "negated-lama", "negation-nli"])
def test_the_registry_agrees_with_the_copy_beside_the_project(name, shared):
    found = source(name)
    assert f"| `{found.repository}` | `{found.commit}` |" in (shared / "data/README.md").read_text("utf-8")
    folder = shared / "data" / "datasets" / name
    for file, digest in found.files.items():
        packed = folder / f"{file}.gz"
        content = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
