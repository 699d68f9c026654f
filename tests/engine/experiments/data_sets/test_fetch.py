"""Data sets of other authors, fetched from a server on this machine that is as good or bad as each test needs."""

import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.data_sets.fetch import get
from negengine.engine.experiments.data_sets.sources import CACHE_VARIABLE, find, source

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


def test_get_fetches_the_pinned_commit_and_keeps_the_files_wanted(fetch, server, cache, registry):
    server.answers = [(200, archive(FILES | {"junk.txt": b"not wanted"}), None)]
    assert fetch() == cache / "facts"
    assert kept(cache) == FILES
    assert server.asked == [f"/somebody/facts/tar.gz/{COMMIT}"]
    assert find("facts", registry=registry) == cache / "facts"


def test_a_second_get_fetches_nothing_and_tells_the_licence_again(fetch, server):
    said = [[], []]
    for lines in said:
        fetch(say=lines.append)
        assert "licence: MIT, (c) Somebody" in lines
    assert len(server.asked) == 1
    assert [any(line.startswith("fetching ") for line in lines) for lines in said] == [True, False]


def test_a_damaged_copy_is_fetched_again(fetch, cache):
    fetch()
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


@pytest.mark.parametrize("content", [b"<html>", b"", archive(FILES)[:-40]])
def test_an_answer_that_is_not_a_whole_archive_is_refused(content, fetch, server, cache):
    server.answers = [(200, content, None)]
    with pytest.raises(InputError, match=r"the archive is not complete \(.*\): run the same command again"):
        fetch()
    assert kept(cache) == {}
    assert len(server.asked) == 1


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


def test_a_cache_that_cannot_be_written_is_one_line(fetch, cache):
    cache.write_text("a file")
    with pytest.raises(InputError, match=r"^[^\n]*cannot be written[^\n]*$"):
        fetch()


# ---------------------------------------------------------------- attempts


def test_not_found_is_told_at_once(fetch, server):
    server.answers = [(404, b"", None)]
    with pytest.raises(InputError, match=r"cannot be fetched \(HTTP 404 Not Found\): .* or give the probe --data PATH"):
        fetch()
    assert len(server.asked) == 1


@pytest.mark.parametrize("bad", [(503, b"", None), (429, b"", None), (200, archive(FILES)[:50], 10_000)])
def test_what_may_pass_is_tried_again(bad, fetch, server, cache):
    """A server that is overloaded, one that asks for patience, and one that breaks off."""
    server.answers = [bad, (200, archive(FILES), None)]
    fetch()
    assert (len(server.asked), kept(cache)) == (2, FILES)


def test_there_are_three_attempts_with_growing_waits(fetch, server, slept):
    server.answers = [(500, b"", None)]
    with pytest.raises(InputError, match=r"cannot be fetched \(HTTP 500 "):
        fetch()
    assert slept == [1, 2]
    assert len(server.asked) == 3


def test_a_server_that_is_down_is_one_line(fetch, server):
    server.close()
    with pytest.raises(InputError, match=r"^http://127.* cannot be fetched \([^\n]*refused\): try again later[^\n]*$"):
        fetch()


def test_an_unknown_name_cannot_be_fetched(registry):
    with pytest.raises(InputError, match="unknown data set 'fact'; known are facts"):
        get("fact", registry=registry)


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
def unfixed(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    (tmp_path / "data.toml").write_text(UNFIXED.format(commit=COMMIT), "utf-8")
    return tmp_path / "data.toml"


def test_files_without_a_known_digest_are_fetched_one_by_one_and_their_digests_kept(server, unfixed):
    server.answers = [(200, b"1\n", None), (200, b"2\n", None)]
    said = []
    folder = get("pairs", single_files=server.host, registry=unfixed, say=said.append)
    assert server.asked == [f"/somebody/pairs/{COMMIT}/data/{name}.jsonl" for name in ("one", "two")]
    assert {path.name for path in folder.iterdir()} == {"one.jsonl", "two.jsonl", "digests.json"}
    assert find("pairs", registry=unfixed) == folder
    assert any("digests were not known before" in line for line in said)
    get("pairs", single_files=server.host, registry=unfixed)
    assert len(server.asked) == 2


def test_a_copy_that_changed_since_is_damaged_and_fetched_again(server, unfixed):
    server.answers = [(200, b"1\n", None), (200, b"2\n", None), (200, b"1\n", None)]
    folder = get("pairs", single_files=server.host, registry=unfixed)
    (folder / "one.jsonl").write_bytes(b"other")
    with pytest.raises(InputError, match=r"one\.jsonl is damaged: run `negengine data get pairs`"):
        find("pairs", registry=unfixed)
    get("pairs", single_files=server.host, registry=unfixed)
    assert server.asked[2:] == [f"/somebody/pairs/{COMMIT}/data/one.jsonl"]
    assert (folder / "one.jsonl").read_bytes() == b"1\n"


def test_a_file_that_is_not_there_leaves_the_data_set_incomplete(server, unfixed):
    server.answers = [(200, b"1\n", None), (404, b"", None)]
    with pytest.raises(InputError, match=r"two\.jsonl: cannot be fetched \(HTTP 404 Not Found\)"):
        get("pairs", single_files=server.host, registry=unfixed)
    with pytest.raises(InputError, match="run `negengine data get pairs`"):
        find("pairs", registry=unfixed)


# ---------------------------------------------------------------- files that may be gone


@pytest.fixture
def by_hand(unfixed):
    unfixed.write_text(unfixed.read_text("utf-8") + 'by_hand = "ask its authors"\ncommand = "negengine cues train"\n')
    return unfixed


def test_where_files_are_gone_the_way_by_hand_is_told(server, by_hand, cache):
    server.answers = [(404, b"", None)]
    message = (
        rf"one\.jsonl: cannot be fetched \(HTTP 404 Not Found\): try again later, or put one\.jsonl, two\.jsonl into "
        rf"{cache / 'pairs'} and run the same command again; ask its authors$"
    )
    with pytest.raises(InputError, match=message):
        get("pairs", single_files=server.host, registry=by_hand)


def test_files_that_were_put_there_by_hand_are_taken(server, by_hand, cache):
    (cache / "pairs").mkdir(parents=True)
    for name in ("one", "two"):
        (cache / "pairs" / f"{name}.jsonl").write_bytes(name.encode())
    said = []
    assert get("pairs", single_files=server.host, registry=by_hand, say=said.append) == cache / "pairs"
    assert server.asked == []
    assert f"taking the 2 files that lie in {cache / 'pairs'}" in said
    assert find("pairs", registry=by_hand) == cache / "pairs"


def test_a_part_of_the_files_is_not_taken(server, by_hand, cache):
    (cache / "pairs").mkdir(parents=True)
    (cache / "pairs" / "one.jsonl").write_bytes(b"mine")
    server.answers = [(200, b"1\n", None), (200, b"2\n", None)]
    get("pairs", single_files=server.host, registry=by_hand)
    assert (cache / "pairs" / "one.jsonl").read_bytes() == b"1\n"


def test_the_corpus_of_cues_has_the_files_that_the_training_reads():
    from negengine.engine.experiments.cues.cue_words import DATA, TEST_FILES, TRAIN_FILES

    assert {path.rpartition("/")[2] for path in source(DATA).unfixed} == {*TRAIN_FILES, *TEST_FILES}
    assert source(DATA).reading.startswith("negengine cues train ")
