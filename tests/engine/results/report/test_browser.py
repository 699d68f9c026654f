import json
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

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
QUIET += ["--disable-sync", "--no-first-run", "--virtual-time-budget=2000"]
QUIET += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]  # no request reaches another machine


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Opens a page; gives its document, what the console said, and the addresses that were asked for."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("no Chromium on this machine; Debian's package is `chromium`")
    folder = tmp_path_factory.mktemp("browser")

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
