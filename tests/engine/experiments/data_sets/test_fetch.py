"""Data sets of other authors, fetched from a server on this machine that is as good or bad as each test needs."""

import hashlib
import io
import json
import shutil
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from negengine.engine.basics.atomic import json_bytes
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.data_sets.fetch import get
from negengine.engine.experiments.data_sets.sources import CACHE_VARIABLE, find

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"LICENSE": b"Do as you like.\n", "facts.tsv": b"a\tb\n"}
FACTS = f"""
[facts]
title = "Facts of somebody"
probe = "lama"
repository = "somebody/facts"
commit = "{COMMIT}"
licence = "MIT, (c) Somebody"
[facts.files]
"""
PAIRS = f"""
[pairs]
title = "Pairs of somebody"
probe = "likelihood"
argument = "pairs"
repository = "somebody/pairs"
commit = "{COMMIT}"
licence = "CC BY"
address = "HOST/{{repository}}/{{commit}}/{{stem}}/data.jsonl"
unfixed = ["one.jsonl", "two.jsonl"]
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


class Server(ThreadingHTTPServer):
    """Answers each request with the next of `answers` (status, content, bytes promised), the last one for ever."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = [(200, archive(FILES), None)]
        self.asked = []
        self.host = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        status, content, promised = self.server.answers[min(len(self.server.asked), len(self.server.answers) - 1)]
        self.server.asked.append(self.path)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content) if promised is None else promised))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as running:
        yield running
        running.shutdown()


@pytest.fixture
def registry(tmp_path, server):
    """A registry with two data sets: files with digests, and files that their commit alone fixes."""
    digests = "".join(f'"{name}" = "{hashlib.sha256(content).hexdigest()}"\n' for name, content in FILES.items())
    (tmp_path / "data.toml").write_text(FACTS + digests + PAIRS.replace("HOST", server.host), "utf-8")
    return tmp_path / "data.toml"


@pytest.fixture(autouse=True)
def slept(monkeypatch):
    """The seconds waited between attempts, which pass at once."""
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    return waits


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and no proxy."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def fetch(server, registry, cache):
    return lambda name="facts", **more: get(name, host=server.host, registry=registry, **more)


def kept(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_pinned_commit_is_fetched_once_and_again_if_damaged(fetch, server, cache, registry, tmp_path):
    outside = {f"../../../../{name}": content for name, content in FILES.items()}
    server.answers = [(200, archive(outside | {"junk.txt": b"not wanted"}), None)]
    for said in ([], []):
        assert fetch(say=said.append) == cache / "facts"
        assert "licence: MIT, (c) Somebody" in said
    assert server.asked == [f"/somebody/facts/tar.gz/{COMMIT}"]
    assert kept(cache) == FILES
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "data.toml"}
    assert find("facts", registry=registry) == cache / "facts"
    (cache / "facts" / "facts.tsv").write_bytes(b"a\t")
    fetch()
    assert kept(cache) == FILES


def test_files_made_from_the_archive(fetch, server, cache, registry):
    row = {"sub_label": "one", "obj_label": "é", "masked_sentences": ["Ice is [MASK]."]}
    row |= {"masked_negations": ["Ice is not [MASK]."], "masked_misprimed": ["high? Ice is [MASK]."]}
    merged = {"relation": "P37", "sub_label": "one", "obj_label": "é", "masked_sentence": "Ice is [MASK]."}
    merged |= {"masked_negation": "Ice is not [MASK].", "misprimed_high": "high? Ice is [MASK]."}
    wanted = json.dumps(merged | {"misprimed_low": None, "misprimed_random": None}, ensure_ascii=False) + "\n"
    head = registry.read_text("utf-8").partition("[facts.files]")[0]
    digest = hashlib.sha256(wanted.encode()).hexdigest()
    registry.write_text(f'{head}merged = true\n[facts.files]\n"TREx.jsonl" = "{digest}"\n', "utf-8")
    server.answers = [(200, archive({"TREx/high_ranked/P37.jsonl": json.dumps(row).encode()}), None)]
    fetch()
    assert kept(cache) == {"TREx.jsonl": wanted.encode()}


def test_files_that_one_digest_knows_lie_in_an_archive_within_the_archive(fetch, server, cache, registry):
    files = {"b.csv": b"x\n", "a.csv": b"y\n"}
    listed = json_bytes({name: hashlib.sha256(files[name]).hexdigest() for name in sorted(files)})
    head = registry.read_text("utf-8").partition("[facts.files]")[0]
    own = f"""paths = "data/in.tar.gz/*.csv"\nfiles."digests.json" = "{hashlib.sha256(listed).hexdigest()}"\n"""
    registry.write_text(head + own, "utf-8")
    server.answers = [(200, archive({"in.tar.gz": archive({**files, "more.txt": b""}), "other.csv": b""}), None)]
    for _ in range(2):
        fetch()
        assert kept(cache) == files | {"digests.json": listed}
        (cache / "facts" / "a.csv").write_bytes(b"other")
    server.answers = [(200, archive({"in.tar.gz": archive(files | {"a.csv": b"other"})}), None)]
    with pytest.raises(InputError, match=r"no file has the sha256 of digests\.json"):
        fetch()


def test_what_is_not_the_whole_archive_is_refused_and_nothing_kept(fetch, server, cache):
    digest = hashlib.sha256(FILES["facts.tsv"]).hexdigest()[:12]
    broken, large = r"the archive is not complete \(.*\): run the same command again", archive({"big": b"\0" * 5000})
    assert 100 < len(large) < 1000
    refused = [
        (archive(FILES | {"facts.tsv": b"other\n"}), {}, rf"no file has the sha256 of facts\.tsv \({digest}…\), so it"),
        *((content, {}, broken) for content in (b"<html>", b"", archive(FILES)[:-40])),
        (b"\0" * 5000, {"largest": 1000}, "more than 0 MB, so it is not the"),
        (large, {"largest": 1000}, "more than 0 MB, so it is not the"),  # once it is unpacked
    ]
    for content, options, message in refused:
        server.answers = [(200, content, None)]
        with pytest.raises(InputError, match=message):
            fetch(**options)
        assert kept(cache) == {}


def test_what_may_pass_is_tried_again_and_what_stays_wrong_is_told_after_three_attempts(fetch, server, cache, slept):
    server.answers = [(503, b"", None), (200, archive(FILES)[:50], 10_000), (200, archive(FILES), None)]
    fetch()
    assert (slept, kept(cache)) == ([1, 2], FILES)
    shutil.rmtree(cache)
    slept.clear()
    server.asked.clear()
    server.answers = [(404, b"", None), (500, b"", None)]
    for said, asked in ((r"404 Not Found\): .* or give the command a copy of your own", 1), ("500 ", 1 + 3)):
        with pytest.raises(InputError, match=rf"cannot be fetched \(HTTP {said}"):
            fetch()
        assert len(server.asked) == asked
    assert slept == [1, 2]
    server.shutdown()
    server.server_close()
    with pytest.raises(InputError, match=r"^http://127.* cannot be fetched \([^\n]*refused\): try again later[^\n]*$"):
        fetch()


def test_files_without_a_known_digest_are_fetched_one_by_one_and_their_digests_kept(server, registry, fetch):
    one, two, gone = ((status, content, None) for status, content in ((200, b"1\n"), (200, b"2\n"), (404, b"")))
    server.answers = [one, gone, one, two, two, one]
    with pytest.raises(InputError, match=r"two/data\.jsonl: cannot be fetched \(HTTP 404 Not Found\)"):
        fetch("pairs")
    folder = fetch("pairs")
    fetch("pairs")
    (folder / "one.jsonl").write_bytes(b"other")
    with pytest.raises(InputError, match=r"one\.jsonl is damaged: run `negengine data get pairs`"):
        find("pairs", registry=registry)
    with pytest.raises(InputError, match=r"one/data\.jsonl: not the file that was fetched first; remove .*pairs to t"):
        fetch("pairs")
    fetch("pairs")
    names = ("one", "two", "one", "two", "one", "one")
    assert server.asked == [f"/somebody/pairs/{COMMIT}/{name}/data.jsonl" for name in names]
    assert (folder / "one.jsonl").read_bytes() == b"1\n"


def test_files_that_are_gone_can_be_put_there_by_hand(server, registry, fetch, cache):
    registry.write_text(registry.read_text("utf-8") + 'by_hand = "ask its authors"\n')
    server.answers = [(404, b"", None)]
    folder = cache / "pairs"
    message = rf"later, or put one\.jsonl, two\.jsonl into {folder} and run the same command again; ask its authors$"
    with pytest.raises(InputError, match=message):
        fetch("pairs")
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("one", "two"):
        (folder / f"{name}.jsonl").write_bytes(name.encode())
    said, before = [], len(server.asked)
    assert fetch("pairs", say=said.append) == folder
    assert (len(server.asked), f"taking the 2 files that lie in {folder}" in said) == (before, True)
    assert find("pairs", registry=registry) == folder


def test_find_takes_what_the_user_names_and_tells_what_is_missing(registry, cache, tmp_path):
    assert find("facts", tmp_path) == tmp_path
    with pytest.raises(InputError, match=r"missing: no such file or folder; give another --data"):
        find("facts", tmp_path / "missing")
    with pytest.raises(InputError, match=r" does not exist: run `negengine data get facts`, or give --data PATH"):
        find("facts", registry=registry)
    with pytest.raises(InputError, match="unknown data set 'fact'; known are facts, pairs"):
        get("fact", registry=registry)
