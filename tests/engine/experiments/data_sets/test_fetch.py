"""Data sets of other authors, fetched from a server on this machine that is as good or bad as each test needs."""

import gzip
import hashlib
import io
import shutil
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import platformdirs
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.data_sets.fetch import get
from negengine.engine.experiments.data_sets.sources import CACHE_VARIABLE, cache_folder, find, source

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


@pytest.fixture
def registry(tmp_path):
    """A registry with one data set."""
    digests = {name.split(".")[0]: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
    (tmp_path / "data.toml").write_text(REGISTRY.format(commit=COMMIT, **digests), "utf-8")
    return tmp_path / "data.toml"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no proxy."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture(autouse=True)
def slept(monkeypatch):
    """The seconds waited between attempts, which pass at once."""
    waits = []
    monkeypatch.setattr("time.sleep", waits.append)
    return waits


@pytest.fixture
def fetch(server, registry):
    """Get the data set from the server."""

    def fetch(say=lambda _: None, **options):
        return get("facts", say=say, host=server.host, registry=registry, **options)

    return fetch


def kept(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# ---------------------------------------------------------------- fetched


def test_the_pinned_commit_is_fetched_once_and_again_where_the_copy_is_damaged(fetch, server, cache, registry):
    server.answers = [(200, archive(FILES | {"junk.txt": b"not wanted"}), None)]
    said = [[], []]
    for lines in said:
        assert fetch(say=lines.append) == cache / "facts"
        assert "licence: MIT, (c) Somebody" in lines
    assert server.asked == [f"/somebody/facts/tar.gz/{COMMIT}"]
    assert [any(line.startswith("fetching ") for line in lines) for lines in said] == [True, False]
    assert kept(cache) == FILES
    assert find("facts", registry=registry) == cache / "facts"
    (cache / "facts" / "facts.tsv").write_bytes(b"a\t")
    fetch()
    assert kept(cache) == FILES


def test_files_made_from_the_archive(fetch, server, cache, registry):
    """A merged data set: two lines of the repository become one of ours."""
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
    head = registry.read_text("utf-8").partition("[facts.files]")[0]
    digest = hashlib.sha256(wanted).hexdigest()
    registry.write_text(f'{head}merged = true\n[facts.files]\n"SQuAD.jsonl" = "{digest}"\n', "utf-8")
    server.answers = [(200, archive(members), None)]
    fetch()
    assert kept(cache) == {"SQuAD.jsonl": wanted}


# ---------------------------------------------------------------- refused


def test_a_file_with_another_checksum_is_refused_and_nothing_kept(fetch, server, cache):
    server.answers = [(200, archive(FILES | {"facts.tsv": b"other\n"}), None)]
    wanted = hashlib.sha256(FILES["facts.tsv"]).hexdigest()[:12]
    with pytest.raises(InputError, match=rf"no file has the sha256 of facts\.tsv \({wanted}…\), so it is not the"):
        fetch()
    assert kept(cache) == {}


def test_an_answer_that_is_not_a_whole_archive_is_refused(fetch, server, cache):
    for number, content in enumerate([b"<html>", b"", archive(FILES)[:-40]], 1):
        server.answers = [(200, content, None)]
        with pytest.raises(InputError, match=r"the archive is not complete \(.*\): run the same command again"):
            fetch()
        assert kept(cache) == {}
        assert len(server.asked) == number


@pytest.mark.parametrize("largest", [100, 1000], ids=["packed", "unpacked"])
def test_an_archive_that_is_far_too_large_is_refused(largest, fetch, server):
    server.answers = [(200, archive({"big": b"\0" * 5000}), None)]
    assert 100 < len(server.answers[0][1]) < 1000
    with pytest.raises(InputError, match="more than 0 MB, so it is not the"):
        fetch(largest=largest)


def test_paths_of_an_archive_are_never_written(fetch, server, cache, tmp_path):
    """Files are known by their digests; a path that leads out of the folder has no meaning."""
    server.answers = [(200, archive({f"../../../../{name}": content for name, content in FILES.items()}), None)]
    fetch()
    assert kept(tmp_path / "cache") == FILES
    assert {path.name for path in tmp_path.iterdir()} == {"cache", "data.toml"}


# ---------------------------------------------------------------- attempts


@pytest.mark.parametrize("bad", [(503, b"", None), (429, b"", None), (200, archive(FILES)[:50], 10_000)])
def test_what_may_pass_is_tried_again(bad, fetch, server, cache):
    """A server that is overloaded, one that asks for patience, and one that breaks off."""
    server.answers = [bad, (200, archive(FILES), None)]
    fetch()
    assert (len(server.asked), kept(cache)) == (2, FILES)


def test_what_stays_wrong_is_told_in_one_line_after_three_attempts(fetch, server, cache, slept):
    server.answers = [(404, b"", None), (500, b"", None)]
    with pytest.raises(InputError, match=r"cannot be fetched \(HTTP 404 Not Found\): .* or give the probe --data PATH"):
        fetch()
    assert len(server.asked) == 1
    with pytest.raises(InputError, match=r"cannot be fetched \(HTTP 500 "):
        fetch()
    assert (slept, len(server.asked)) == ([1, 2], 4)
    server.close()
    with pytest.raises(InputError, match=r"^http://127.* cannot be fetched \([^\n]*refused\): try again later[^\n]*$"):
        fetch()
    shutil.rmtree(cache)
    cache.write_text("a file")
    with pytest.raises(InputError, match=r"^[^\n]*cannot be written[^\n]*$"):
        fetch()


# ---------------------------------------------------------------- files that only their commit fixes

UNFIXED = """
[pairs]
title = "Pairs of somebody"
probe = "likelihood"
argument = "pairs"
repository = "somebody/pairs"
commit = "{commit}"
licence = "CC BY"
unfixed = ["data/one.jsonl", "data/two.jsonl"]
"""


@pytest.fixture
def unfixed(tmp_path):
    (tmp_path / "data.toml").write_text(UNFIXED.format(commit=COMMIT), "utf-8")
    return tmp_path / "data.toml"


def test_files_without_a_known_digest_are_fetched_one_by_one_and_their_digests_kept(server, unfixed):
    server.answers = [(200, b"1\n", None), (200, b"2\n", None), (200, b"1\n", None)]
    said = []
    folder = get("pairs", single_files=server.host, registry=unfixed, say=said.append)
    assert {path.name for path in folder.iterdir()} == {"one.jsonl", "two.jsonl", "digests.json"}
    assert find("pairs", registry=unfixed) == folder
    assert any("digests were not known before" in line for line in said)
    get("pairs", single_files=server.host, registry=unfixed)
    (folder / "one.jsonl").write_bytes(b"other")
    with pytest.raises(InputError, match=r"one\.jsonl is damaged: run `negengine data get pairs`"):
        find("pairs", registry=unfixed)
    get("pairs", single_files=server.host, registry=unfixed)
    assert server.asked == [f"/somebody/pairs/{COMMIT}/data/{name}.jsonl" for name in ("one", "two", "one")]
    assert (folder / "one.jsonl").read_bytes() == b"1\n"


def test_a_file_that_is_not_there_leaves_the_data_set_incomplete(server, unfixed):
    server.answers = [(200, b"1\n", None), (404, b"", None)]
    with pytest.raises(InputError, match=r"two\.jsonl: cannot be fetched \(HTTP 404 Not Found\)"):
        get("pairs", single_files=server.host, registry=unfixed)
    with pytest.raises(InputError, match="run `negengine data get pairs`"):
        find("pairs", registry=unfixed)


def test_files_that_are_gone_can_be_put_there_by_hand_but_all_of_them(server, unfixed, cache):
    unfixed.write_text(unfixed.read_text("utf-8") + 'by_hand = "ask its authors"\ncommand = "negengine cues train"\n')
    server.answers = [(404, b"", None), (200, b"1\n", None), (200, b"2\n", None)]
    message = (
        rf"one\.jsonl: cannot be fetched \(HTTP 404 Not Found\): try again later, or put one\.jsonl, two\.jsonl into "
        rf"{cache / 'pairs'} and run the same command again; ask its authors$"
    )
    with pytest.raises(InputError, match=message):
        get("pairs", single_files=server.host, registry=unfixed)
    (cache / "pairs").mkdir(parents=True, exist_ok=True)
    (cache / "pairs" / "one.jsonl").write_bytes(b"mine")
    get("pairs", single_files=server.host, registry=unfixed)  # a part of the files is not taken
    assert (cache / "pairs" / "one.jsonl").read_bytes() == b"1\n"
    shutil.rmtree(cache / "pairs")
    (cache / "pairs").mkdir()
    for name in ("one", "two"):
        (cache / "pairs" / f"{name}.jsonl").write_bytes(name.encode())
    said, before = [], len(server.asked)
    assert get("pairs", single_files=server.host, registry=unfixed, say=said.append) == cache / "pairs"
    assert len(server.asked) == before
    assert f"taking the 2 files that lie in {cache / 'pairs'}" in said
    assert find("pairs", registry=unfixed) == cache / "pairs"


def test_the_corpus_of_cues_has_the_files_that_the_training_reads():
    from negengine.engine.experiments.cues.cue_words import DATA, TEST_FILES, TRAIN_FILES

    assert {path.rpartition("/")[2] for path in source(DATA).unfixed} == {*TRAIN_FILES, *TEST_FILES}
    assert source(DATA).reading.startswith("negengine cues train ")


# ---------------------------------------------------------------- where they are kept


def test_the_cache_is_the_platforms_unless_named(cache, monkeypatch):
    assert cache_folder() == cache
    for unset in (lambda: monkeypatch.setenv(CACHE_VARIABLE, ""), lambda: monkeypatch.delenv(CACHE_VARIABLE)):
        unset()
        assert cache_folder() == platformdirs.user_cache_path("negengine", appauthor=False) / "data"


def test_find_takes_what_the_user_names_and_tells_what_is_missing(registry, tmp_path):
    assert find("facts", tmp_path) == tmp_path
    with pytest.raises(InputError, match=r"missing: no such file or folder; give another --data"):
        find("facts", tmp_path / "missing")
    with pytest.raises(InputError, match=r" does not exist: run `negengine data get facts`, or give --data PATH"):
        find("facts", registry=registry)
    assert source("facts", registry).missing() == list(FILES)
    for call in (find, source, get):
        with pytest.raises(InputError, match="unknown data set 'fact'; known are facts"):
            call("fact", registry=registry)


@pytest.mark.parametrize("name", ["lm-diagnostics", "negated-lama", "negation-nli"])
def test_the_registry_agrees_with_the_copy_beside_the_project(name, shared):
    found = source(name)
    assert f"| `{found.repository}` | `{found.commit}` |" in (shared / "data/README.md").read_text("utf-8")
    folder = shared / "data" / "datasets" / name
    for file, digest in found.files.items():
        packed = folder / f"{file}.gz"
        content = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
