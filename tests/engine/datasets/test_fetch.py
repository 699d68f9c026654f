"""Data sets of other authors, fetched from a server on this machine that is as good or bad as each test needs."""

import gzip
import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from negengine.engine.datasets import fetch as data
from negengine.engine.errors import InputError
from rich.console import Console

REGISTERED = data._REGISTRY
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"LICENSE": b"Do as you like.\n", "facts.tsv": b"a\tb\n"}
REGISTRY = """
[facts]
title = "Facts of somebody"
probe = "lama"
repository = "somebody/facts"
commit = "{commit}"
licence = "MIT, (c) Somebody"

[facts.files]
LICENSE = "{LICENSE}"
"facts.tsv" = "{facts}"
"""


def archive(files):
    """As GitHub packs a commit: everything in one folder, here with its files in another below."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"facts-{COMMIT}/data/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


class Server:
    """Answers each request with the next of `answers` (status, content, bytes promised), the last one for ever."""

    def __init__(self):
        self.answers = [(200, archive(FILES), None)]
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                status, content, promised = outer.answers[min(len(outer.asked), len(outer.answers) - 1)]
                outer.asked.append(self.path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(content) if promised is None else promised))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A registry with one data set, an empty cache, no proxy."""
    digests = {name.split(".")[0]: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    (tmp_path / "data.toml").write_text(REGISTRY.format(commit=COMMIT, **digests), "utf-8")
    monkeypatch.setattr(data, "_REGISTRY", tmp_path / "data.toml")
    monkeypatch.setenv(data.CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


def kept(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- get


def test_get_fetches_the_pinned_commit_and_keeps_the_files_wanted(server, cache):
    server.answers = [(200, archive(FILES | {"junk.txt": b"not wanted"}), None)]
    assert data.get("facts", host=server.host, waits=()) == cache / "facts"
    assert kept(cache) == FILES
    assert server.asked == [f"/somebody/facts/tar.gz/{COMMIT}"]
    assert data.find("facts") == cache / "facts"


def test_a_second_get_fetches_nothing_and_tells_the_licence_again(server):
    said = [[], []]
    for lines in said:
        data.get("facts", say=lines.append, host=server.host, waits=())
        assert "licence: MIT, (c) Somebody" in lines
    assert len(server.asked) == 1
    assert [any(line.startswith("fetching ") for line in lines) for lines in said] == [True, False]


def test_a_damaged_copy_is_fetched_again(server, cache):
    data.get("facts", host=server.host, waits=())
    (cache / "facts" / "facts.tsv").write_bytes(b"a\t")
    data.get("facts", host=server.host, waits=())
    assert kept(cache) == FILES


def test_a_file_with_another_checksum_is_refused_and_nothing_kept(server, cache):
    server.answers = [(200, archive(FILES | {"facts.tsv": b"other\n"}), None)]
    wanted = hashlib.sha256(FILES["facts.tsv"]).hexdigest()[:12]
    with pytest.raises(InputError, match=rf"gives no facts\.tsv with the sha256 {wanted}…: not the source"):
        data.get("facts", host=server.host, waits=())
    assert not cache.exists()


@pytest.mark.parametrize("content", [b"<html>", b"", archive(FILES)[:-40]])
def test_an_answer_that_is_no_whole_archive_is_refused(content, server, cache):
    server.answers = [(200, content, None)]
    with pytest.raises(InputError, match=r"not a whole archive \(.*\): run the same command again"):
        data.get("facts", host=server.host, waits=())
    assert not cache.exists()


@pytest.mark.parametrize("limit", [100, 1000], ids=["packed", "unpacked"])
def test_an_archive_that_is_far_too_large_is_refused(limit, server, monkeypatch):
    server.answers = [(200, archive({"big": b"\0" * 5000}), None)]
    monkeypatch.setattr(data, "_LARGEST", limit)
    assert 100 < len(server.answers[0][1]) < 1000
    with pytest.raises(InputError, match="more than 0 MB: not the source"):
        data.get("facts", host=server.host, waits=())


def test_not_found_is_told_at_once(server):
    server.answers = [(404, b"", None)]
    with pytest.raises(InputError, match=r"cannot be fetched \(HTTP 404 Not Found\): .* or give the probe --data PATH"):
        data.get("facts", host=server.host, waits=(0, 0))
    assert len(server.asked) == 1


@pytest.mark.parametrize("bad", [(503, b"", None), (429, b"", None), (200, archive(FILES)[:50], 10_000)])
def test_what_may_pass_is_tried_again(bad, server, cache):
    """A server that is overloaded, one that asks for patience, and one that breaks off."""
    server.answers = [bad, (200, archive(FILES), None)]
    data.get("facts", host=server.host, waits=(0,))
    assert (len(server.asked), kept(cache)) == (2, FILES)


def test_waits_between_attempts_are_those_given(server, monkeypatch):
    slept = []
    monkeypatch.setattr(data.time, "sleep", slept.append)
    server.answers = [(500, b"", None)]
    with pytest.raises(InputError, match=r"cannot be fetched \(HTTP 500 "):
        data.get("facts", host=server.host, waits=(2, 8))
    assert [wait for wait in slept if wait] == [2, 8]
    assert len(server.asked) == 3


def test_a_server_that_is_down_is_one_line(server):
    server.close()
    with pytest.raises(InputError, match=r"^http://127.* cannot be fetched \([^\n]*refused\): try again later[^\n]*$"):
        data.get("facts", host=server.host, waits=())


def test_files_put_together_from_the_archive(server, cache, tmp_path):
    """A merged data set: two rows of upstream's become one of ours."""
    row = (
        '{"sub_label": "Squad", "obj_label": "water", "id": "1", "masked_sentences": ["Ice is [MASK]."], '
        '"masked_negations": ["Ice is not [MASK]."], "masked_misprimed": ["%s? Ice is [MASK]."]}\n'
    )
    members = {f"SQUAD/{kind}/Squad.jsonl": (row % kind).encode() for kind in ("high_ranked", "random")}
    wanted = (
        b'{"relation": "Squad", "sub_label": "Squad", "obj_label": "water", "masked_sentence": "Ice is [MASK].", '
        b'"masked_negation": "Ice is not [MASK].", "misprimed_high": "high_ranked? Ice is [MASK].", '
        b'"misprimed_low": null, "misprimed_random": "random? Ice is [MASK].", "source_id": "1"}\n'
    )
    registry = (tmp_path / "data.toml").read_text("utf-8").partition("[facts.files]")[0]
    digest = hashlib.sha256(wanted).hexdigest()
    (tmp_path / "data.toml").write_text(
        f'{registry}merged = true\n[facts.files]\n"SQuAD.jsonl" = "{digest}"\n', "utf-8"
    )
    server.answers = [(200, archive(members), None)]
    data.get("facts", host=server.host, waits=())
    assert kept(cache) == {"SQuAD.jsonl": wanted}


# ---------------------------------------------------------------- where data are


def test_the_cache_is_the_platforms_unless_named(tmp_path, monkeypatch):
    assert data.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv(data.CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(data.platformdirs, "user_cache_path", lambda name, **_: tmp_path / "platform" / name)
    assert data.cache_folder() == tmp_path / "platform" / "negengine" / "data"


def test_find_prefers_what_the_user_names(tmp_path):
    assert data.find("facts", tmp_path) == tmp_path


def test_find_tells_what_is_wrong(server, cache, tmp_path):
    with pytest.raises(InputError, match=r"LICENSE is not here: run `negengine data get facts`, or give --data PATH"):
        data.find("facts")
    data.get("facts", host=server.host, waits=())
    (cache / "facts" / "facts.tsv").write_bytes(b"")
    with pytest.raises(InputError, match=r"facts\.tsv is not whole: run `negengine data get facts`, or give --data"):
        data.find("facts")
    with pytest.raises(InputError, match=r"missing: no such file or folder; give another --data"):
        data.find("facts", tmp_path / "missing")


@pytest.mark.parametrize("call", [data.find, data.get, data.source])
def test_an_unknown_name(call):
    with pytest.raises(InputError, match="unknown data set 'fact'; known are facts"):
        call("fact")


def test_the_list_tells_what_is_here(server):
    def listed():
        console = Console(width=300)
        with console.capture() as capture:
            console.print(data.sources_table())
        return capture.get()

    assert "no" in listed().splitlines()[-2]
    data.get("facts", host=server.host, waits=())
    assert "yes" in listed().splitlines()[-2]


# ---------------------------------------------------------------- the real registry


@pytest.mark.parametrize("name", ["lm-diagnostics", "negated-lama", "negation-nli"])
def test_the_registry_agrees_with_the_copy_beside_the_project(name, shared, monkeypatch):
    monkeypatch.setattr(data, "_REGISTRY", REGISTERED)
    source = data.source(name)
    assert f"| `{source.repository}` | `{source.commit}` |" in (shared / "data/README.md").read_text("utf-8")
    folder = shared / "data" / "datasets" / name
    for file, digest in source.files.items():
        packed = folder / f"{file}.gz"
        content = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
