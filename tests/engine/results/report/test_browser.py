import csv
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from urllib.parse import quote, urlsplit

import negengine as ng
import polars as pl
import pytest
from negengine.engine.results.view.items import Items
from negengine.engine.results.view.page import bundle
from negengine.engine.results.view.server import Viewer
from pages import read
from python_calamine import CalamineWorkbook

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
QUIET += ["--disable-sync", "--no-first-run", "--virtual-time-budget=2000"]
QUIET += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]  # no request reaches another machine


def chromium():
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    return program or pytest.skip("no Chromium on this machine; Debian's package is `chromium`")


class Remote:
    """A browser that is told what to do, by the DevTools protocol over two pipes."""

    def __init__(self, folder):
        (self.theirs, own), (read, theirs) = os.pipe(), os.pipe()
        command = [
            chromium(),
            *QUIET[:-3],
            QUIET[-1],
            f"--user-data-dir={folder / 'remote'}",
            "--remote-debugging-pipe",
        ]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{self.theirs} 4>&{theirs}', "bash", *command, "about:blank"],
            pass_fds=(self.theirs, theirs), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(theirs)
        self.out, self.replies, self.number, self.session = os.fdopen(own, "wb", 0), os.fdopen(read, "rb"), 0, {}
        (page,) = [own for own in self.ask("Target.getTargets")["targetInfos"] if own["type"] == "page"]
        attached = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = {"sessionId": attached["sessionId"]}

    def messages(self):
        letters = iter(lambda: self.replies.read(1), b"")
        while found := b"".join(iter(lambda: next(letters, b"\0"), b"\0")):
            yield json.loads(found)
        pytest.skip("Chromium ended")

    def ask(self, method, **params):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": params, **self.session}
        self.out.write(json.dumps(asked).encode() + b"\0")
        return next(own["result"] for own in self.messages() if own.get("id") == self.number)

    def value(self, expression):
        found = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        return found["result"].get("value")

    def saved(self, folder, expression):
        """The file that a click saves."""
        self.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder), eventsEnabled=True)
        self.value(expression)
        done = (own["params"] for own in self.messages() if own.get("method") == "Browser.downloadProgress")
        next(own for own in done if own["state"] == "completed")
        return max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture
def remote(tmp_path):
    found = Remote(tmp_path)
    yield found
    found.process.terminate()
    found.process.wait()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Opens a page; gives its document, what the console said, and the addresses that were asked for."""
    program, folder = chromium(), tmp_path_factory.mktemp("browser")

    def open_page(page):
        log = folder / "network.json"
        address = page.resolve().as_uri() if isinstance(page, Path) else page
        command = [program, *QUIET, f"--user-data-dir={folder / 'profile'}", f"--log-net-log={log}",
                   "--enable-logging=stderr", "--dump-dom", address]  # fmt: skip
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False, timeout=300)
        except subprocess.TimeoutExpired:
            pytest.skip("Chromium does not end on this machine")
        if done.returncode or "</html>" not in done.stdout:
            pytest.skip(f"Chromium does not run here: {done.stderr[-300:]}")
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        events = json.loads(log.read_text("utf-8"))["events"]
        # The browser itself asks for updates; its requests do not have a page as initiator.
        asked = [own["params"] for own in events if {"url", "initiator"} <= set(own.get("params", {}))]
        by_page = {own["url"] for own in asked if own["initiator"] != "not an origin"}
        return read(done.stdout), console, {url for url in by_page if not url.startswith(("file:", "blob:"))}

    return open_page


def test_a_report_is_silent_asks_for_nothing_and_its_filters_count_the_rows(browser, scores, tmp_path):
    document, console, asked = browser(ng.report(scores, tmp_path / "report.html"))
    assert (console, asked) == ([], set())
    (listing,) = [own for own in document.all("div") if own.attributes.get("class") == "listing"]
    rows = [row for body in listing.all("tbody") for row in body.all("tr")]
    (state,) = [own for own in listing.all("p") if own.attributes.get("role") == "status"]
    assert state.words == f"{len(rows)} of {len(rows)} rows"
    labels = [label.text for label in listing.all("label")]
    assert labels[0] == "Rows with the text"
    assert {"shown as", "condition"} <= set(labels)
    assert {own.words for own in document.all("button")} >= {"pattern", "drop (percentage points)", "Save as SVG"}
    assert not [own for own in document.all("title") if "id" not in own.attributes and "svg" in own.parents]
    said = [own.attributes["data-said"] for own in document.all("path") if "data-said" in own.attributes]
    assert any(text.startswith("CpTn, forbidden: ") for text in said)
    # An error and a request would be seen.
    path = tmp_path / "page.html"
    body = "<script>nothing()</script><img src='http://example.org/picture.png' alt=''>"
    path.write_text(f"<!DOCTYPE html><html><head><title>t</title></head><body>{body}</body></html>")
    _, console, asked = browser(path)
    assert any("nothing is not defined" in line for line in console)
    assert asked == {"http://example.org/picture.png"}


def test_every_item_is_seen_on_the_page_of_a_server_and_in_a_folder_that_needs_none(browser, scores, tmp_path):
    items, wanted = Items.open([scores]), scores.sentences().filter(pl.col("condition") == "CnTp")
    said = f"{len(wanted):,} of {items.total:,} rows"
    number, criterion = items.names.index("condition"), {"data": "condition", "type": "text", "condition": "="}
    asked = {"logic": "AND", "criteria": [criterion | {"origData": str(number), "value": ["CnTp"]}]}
    bundle(items, tmp_path / "bundle")
    with Viewer(items) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for address in (server.address, (tmp_path / "bundle" / "index.html").as_uri()):
            document, console, asked_for = browser(f"{address}#{quote(json.dumps(asked))}")
            assert console == []
            assert {urlsplit(url).hostname for url in asked_for} <= {"127.0.0.1"}
            states = {own.words for own in document.all("div") if own.attributes.get("role") == "status"}
            assert said in {text.strip() for text in states}
            (listing,) = [own for own in document.all("table") if own.attributes.get("id") == "rows"]
            lines = [row for body in listing.all("tbody") for row in body.all("tr")]
            assert [line.all("td")[1].words for line in lines] == wanted["sentence"].head(25).to_list()
        document, console, _ = browser(f"{server.address}#%7B%22logic")  # an address that was cut
        assert (console, f"{items.total:,} of {items.total:,} rows" in document.words) == ([], True)
        server.shutdown()


def test_the_buttons_of_a_folder_save_the_rows_in_view_with_all_their_digits(remote, scores, tmp_path):
    items = Items.open([scores])
    bundle(items, tmp_path / "bundle")
    number, criterion = items.names.index("condition"), {"data": "condition", "type": "text", "condition": "="}
    asked = {"logic": "AND", "criteria": [criterion | {"origData": str(number), "value": ["CnTp"]}]}
    wanted = scores.sentences().filter(pl.col("condition") == "CnTp").select("sentence", "logprob", "rank", "failed")
    rows = [(sentence, logprob, rank, "yes" if failed else "no") for sentence, logprob, rank, failed in wanted.rows()]
    remote.ask("Page.navigate", url=f"{(tmp_path / 'bundle' / 'index.html').as_uri()}#{quote(json.dumps(asked))}")
    shown = "document.querySelectorAll('.dt-buttons button').length === 2 && document.querySelector('#rows tbody td')"
    look = f"const look = () => {shown} ? done(1) : requestAnimationFrame(look); look()"
    assert remote.value(f"new Promise(done => {{{look}}})") == 1
    (tmp_path / "saved").mkdir()
    click = "document.querySelectorAll('.dt-buttons button')[{}].click()".format
    text = remote.saved(tmp_path / "saved", click(0)).read_bytes()
    assert text.startswith(b"\xef\xbb\xbf")
    found = list(csv.DictReader(text.decode("utf-8-sig").splitlines()))
    each = [(own["sentence"], float(own["logprob"]), int(own["rank"]), own["failed"]) for own in found]
    assert each == [pytest.approx(row) for row in rows]
    book = CalamineWorkbook.from_path(remote.saved(tmp_path / "saved", click(1)))
    heading, *cells = book.get_sheet_by_index(0).to_python()
    assert heading == items.names
    places = [heading.index(name) for name in ("sentence", "logprob", "rank", "failed")]
    assert [tuple(row[place] for place in places) for row in cells] == [pytest.approx(row) for row in rows]
