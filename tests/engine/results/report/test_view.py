"""What the page of `negengine view` asks is answered as plain loops answer it; a stranger is not answered."""

import csv
import io
import json
import shutil
import threading
import urllib.error
import urllib.request
from dataclasses import asdict
from itertools import groupby
from random import Random

import negengine as ng
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.results.report.row_filters import Filter, Sorting
from negengine.engine.results.view.items import Items, Query
from negengine.engine.results.view.page import bundle
from negengine.engine.results.view.server import Viewer
from python_calamine import CalamineWorkbook


@pytest.fixture(scope="module")
def items(scored_run):
    return Items.open([scored_run])


@pytest.fixture(scope="module")
def rows(scored_run):
    return ng.open(scored_run).sentences().to_dicts()


QUERIES = [
    Query(),
    Query(sort=Sorting("logprob", descending=True)),
    Query(sort=Sorting("sentence"), where=(Filter("condition", "!=", "CpTp"),)),
    Query(sort=Sorting("sentence", descending=True)),
    Query(
        sort=Sorting("verb", descending=True), where=(Filter("repeated", "=", "true"), Filter("logprob", "<=", "-0.5"))
    ),
    Query(where=(Filter("condition", "=", "CpTn"), Filter("condition", "=", "CnTp"), Filter("rank", ">", "1"))),
    Query(where=(Filter("repeated", "=", "true"), Filter("logprob", "<=", "-0.5")), sort=Sorting("logprob")),
    Query(where=(Filter("sentence", "~", "NOT"),), search="IS A d"),
    Query(search="no sentence holds this"),
]


def plain(rows, query):
    def holds(row, where):
        match where:
            case ("condition", "!=", "CpTp"):
                return row["condition"] != "CpTp"
            case ("rank", ">", "1"):
                return row["rank"] is not None and row["rank"] > 1
            case ("repeated", "=", "true"):
                return row["repeated"] is True
            case ("logprob", "<=", "-0.5"):
                return row["logprob"] <= -0.5
            case ("sentence", "~", "NOT"):
                return "not" in row["sentence"].lower()
        return ("condition", "=", row["condition"]) in query.where

    texts = ("sentence", "expected", "answer")
    found = [
        row
        for row in rows
        if all(holds(row, where) for where in query.where)
        and (not query.search or any(query.search.lower() in (row[name] or "").lower() for name in texts))
    ]
    if query.sort is None:
        return found
    return sorted(found, key=lambda row: row[query.sort.column], reverse=query.sort.descending)


@pytest.mark.parametrize("query", QUERIES)
def test_pages_hold_the_rows_that_a_plain_loop_finds_in_its_order(items, rows, query):
    wanted = plain(rows, query)
    for start in (0, 7, max(0, len(wanted) - 3), 1_005):
        found = items.page(query, start, 10)
        assert (found["wanted"], found["total"]) == (len(wanted), len(rows))
        expected = wanted[start : start + 10]
        assert found["rows"] == expected


def test_a_search_finds_what_a_plain_loop_finds_wherever_a_text_begins_and_ends(items, rows):
    """In a word, in the pattern, and over the ends of words, where no sentence is built."""
    random, texts = Random(0), ["e", "N't", " ", *(rows[0][name] for name in ("verb", "profession"))]
    for row in random.sample(rows, 20):
        start = random.randrange(len(row["sentence"]))
        verb = row["sentence"].find(row["verb"])
        texts += [
            row["sentence"][start : start + random.randrange(1, 12)],
            row["sentence"][max(0, verb - 3) : verb + 2],
        ]
    for text in texts:
        wanted = plain(rows, Query(search=text))
        assert items.page(Query(search=text), 0, len(rows))["rows"] == wanted, text


def test_groups_count_rows_and_failures_and_a_row_leads_to_all_of_its_item(items, rows):
    query = Query(where=(Filter("rank", ">", "1"),), sort=Sorting("rank", descending=True))
    wanted = plain(rows, query)
    found = items.groups(query, "condition")
    by = sorted(wanted, key=lambda row: row["condition"])
    counted = {name: list(own) for name, own in groupby(by, key=lambda row: row["condition"])}
    assert {own["value"]: (own["n"], own["failed"]) for own in found["groups"]} == {
        name: (len(own), sum(bool(row["failed"]) for row in own)) for name, own in counted.items()
    }
    assert [own["n"] for own in found["groups"]] == sorted((len(own) for own in counted.values()), reverse=True)
    every = {row["sentence"]: (1, row["failed"] is not None, bool(row["failed"])) for row in rows}
    found = items.groups(Query(), "sentence")
    assert (found["of"], len(found["groups"])) == (len(every), min(200, len(every)))
    assert all((own["n"], own["judged"], own["failed"]) == every[own["value"]] for own in found["groups"])
    row = items.page(query, 3, 1)["rows"][0]
    words = ("name", "profession", "verb")
    assert items.alike(query, 3)["rows"] == [own for own in rows if all(own[word] == row[word] for word in words)]


def test_the_models_of_several_runs_stand_side_by_side(scored_run, rows, tmp_path):
    shutil.copytree(scored_run, tmp_path / "second")
    both = Items.open([scored_run, tmp_path / "second"])
    assert both.total == 2 * len(rows)
    models = {own["value"] for own in both.groups(Query(), "model")["groups"]}
    assert len(models) == 2
    ordered = both.page(Query(sort=Sorting("sentence", descending=True)), 0, 2 * len(rows))["rows"]
    twice = sorted(rows + rows, key=lambda row: row["sentence"], reverse=True)
    assert [row["sentence"] for row in ordered] == [row["sentence"] for row in twice]
    assert {own["n"] for own in both.groups(Query(), "sentence")["groups"]} == {2}
    alike = both.alike(Query(), 0)["rows"]
    assert len(alike) == 2 * len({row["condition"] for row in rows})
    assert {row["model"] for row in alike} == models


@pytest.fixture
def viewer(items):
    with Viewer(items) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(viewer, path, body=None, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{viewer.server_port}{path}", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - our own address
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_only_who_has_the_address_is_answered_and_only_this_computer(viewer):
    assert viewer.server_address[0] == "127.0.0.1"
    token = {"X-Token": viewer.token}
    question = json.dumps({"query": {"where": [], "search": "", "sort": None}, "start": 0, "count": 2}).encode()
    status, body = ask(viewer, "/rows", question, **token)
    assert (status, len(json.loads(body)["rows"])) == (200, 2)
    assert ask(viewer, "/")[0] == ask(viewer, "/?token=guess")[0] == ask(viewer, "/rows", question)[0] == 403
    assert ask(viewer, "/rows", question, Host="example.org", **token)[0] == 403
    for path, body, said in [
        ("/rows", b"[]", "Expected `object`"),
        ("/rows", b'{"query": {"where": [1], "search": "", "sort": null}}', "Expected `array`, got `int`"),
        ("/rows", question.replace(b'"start": 0', b'"start": -1'), "Expected `int` >= 0"),
        ("/rows", question.replace(b"[]", b'[["rank", ">", "first"]]'), "give a number"),
        ("/rows", question.replace(b"[]", b'[["colour", "=", "red"]]'), "no such column"),
        ("/rows", question.replace(b"[]", b'[["rank", "like", "1"]]'), "Invalid enum value 'like'"),
        ("/run.json", question, "no question"),
    ]:
        status, answer = ask(viewer, path, body, **token)
        assert status == 400
        assert said in json.loads(answer)["error"]
    assert ask(viewer, f"/../run.json?token={viewer.token}")[0] == 404


def test_the_wanted_rows_are_saved_as_csv_and_as_a_sheet(viewer, rows):
    query = Query(where=(Filter("condition", "=", "CnTp"),), sort=Sorting("verb"))
    asked = urllib.parse.urlencode({"token": viewer.token, "query": json.dumps(asdict(query))})
    wanted = [[row["sentence"], row["rank"]] for row in plain(rows, query)]
    content = ask(viewer, f"/rows.csv?{asked}")[1].decode("utf-8-sig")
    read = [[row["sentence"], int(row["rank"])] for row in csv.DictReader(io.StringIO(content))]
    assert sorted(read) == sorted(wanted)
    sheet = CalamineWorkbook.from_filelike(io.BytesIO(ask(viewer, f"/rows.xlsx?{asked}")[1])).get_sheet_by_index(0)
    heading, *cells = sheet.to_python()
    place = [heading.index(name) for name in ("sentence", "rank")]
    assert sorted([row[place[0]], int(row[place[1]])] for row in cells) == sorted(wanted)


def test_a_bundle_of_many_rows_is_a_sample_of_whole_items_and_says_so(items, rows, tmp_path, monkeypatch):
    monkeypatch.setattr("negengine.engine.results.view.page.MOST_BUNDLED", 100)
    said = bundle(items, tmp_path / "bundle")
    kept = list(csv.DictReader((tmp_path / "bundle" / "rows.csv").read_text("utf-8-sig").splitlines()))
    assert f"a sample of {len(kept)} of {len(rows):,} rows" in said
    conditions = len({row["condition"] for row in rows})
    counts = {}
    for row in kept:
        counts.setdefault(row["item"], []).append(row["condition"])
    assert {len(own) for own in counts.values()} == {conditions}
    with pytest.raises(InputError, match="it exists; give a new folder"):
        bundle(items, tmp_path / "bundle")
