"""What the page of `negengine view` asks is answered as plain loops answer it; a stranger is not answered."""

import csv
import io
import json
import shutil
import threading
import urllib.error
import urllib.request
from dataclasses import replace
from http.client import HTTPConnection
from itertools import groupby
from pathlib import Path
from random import Random
from urllib.parse import quote

import negengine as ng
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.results.view.items import Items
from negengine.engine.results.view.page import bundle
from negengine.engine.results.view.query import Criterion
from negengine.engine.results.view.server import Viewer
from python_calamine import CalamineWorkbook
from table_questions import named, question, written


@pytest.fixture(scope="module")
def items(scored_run):
    return Items.open([scored_run])


@pytest.fixture(scope="module")
def rows(scored_run):
    """The rows of the run as the page has them: no truth values and no lists."""
    found = ng.open(scored_run).sentences().to_dicts()
    texts = {True: "yes", False: "no"}
    return [
        {name: texts.get(cell, cell) if isinstance(cell, bool) else cell for name, cell in row.items()} for row in found
    ]


SIGNS = {
    "=": lambda own, value: own == value,
    "<": lambda own, value: own < value,
    "<=": lambda own, value: own <= value,
    ">": lambda own, value: own > value,
    ">=": lambda own, value: own >= value,
    "between": lambda own, *ends: min(ends) <= own <= max(ends),
    "contains": lambda own, value: value.lower() in own.lower(),
    "starts": lambda own, value: own.lower().startswith(value.lower()),
    "ends": lambda own, value: own.lower().endswith(value.lower()),
}
ASKED = [
    {},
    {"sort": "logprob", "descending": True},
    {"sort": "sentence", "where": [("condition", "!=", "CpTp")]},
    {"sort": "sentence", "descending": True},
    {"sort": "repeated"},
    {"sort": "verb", "descending": True, "where": [("repeated", "=", "yes"), ("logprob", "<=", "-0.5")]},
    {"where": [("condition", "=", "CpTn"), ("condition", "=", "CnTp"), ("rank", ">", "90")], "logic": "OR"},
    {"where": [("logprob", "between", "-0.5", "-2"), ("rank", ">=", "1"), ("rank", "!=", "2")], "sort": "logprob"},
    {"where": [("sentence", "contains", "NOT")], "search": "IS A d"},
    {"where": [("verb", "starts", "S"), ("profession", "!ends", "R"), ("logprob", "!between", "-1", "-0.2")]},
    {"where": [("failed", "null")]},
    {"where": [("failed", "!null"), ("sentence", "!contains", "is not"), ("rank", "<", "3")]},
    {"search": "no sentence holds this"},
]


def plain(rows, where=(), search="", sort="", descending=False, logic="AND"):
    def holds(row, name, sign, *values):
        own, is_number = row[name], name in {"rank", "logprob"}
        if sign.endswith("null"):
            return (own is None) == (sign == "null")
        found = own is not None and SIGNS[sign.removeprefix("!")](own, *map(float if is_number else str, values))
        return found != sign.startswith("!")

    texts = ("sentence", "expected", "answer")
    found = [
        row
        for row in rows
        if (any if logic == "OR" else all)(holds(row, *one) for one in where or [("item", "!null")])
        and (not search or any(search.lower() in (row[name] or "").lower() for name in texts))
    ]
    return sorted(found, key=lambda row: row[sort], reverse=descending) if sort else found


def ask_for(items, where=(), **others):
    return question(items, *where, **others)


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_pages_hold_the_rows_that_a_plain_loop_finds_in_its_order(items, rows, asked):
    wanted = plain(rows, **asked)
    for start in (0, 7, max(0, len(wanted) - 3), 1_005):
        found = items.page(ask_for(items, start=start, **asked))
        assert (found["recordsFiltered"], found["recordsTotal"]) == (len(wanted), len(rows))
        assert named(items, found) == [{name: row[name] for name in items.names} for row in wanted[start : start + 10]]


def test_a_group_of_conditions_within_another_counts_as_one_and_an_unfinished_one_does_not_count(items, rows):
    inner = ask_for(items, [("verb", "starts", "s"), ("rank", "=", "1")], logic="OR").filters
    outer = ask_for(items, [("condition", "=", "CnTp"), ("logprob", "<", ""), ("rank", "between", "1"), ("rank", "<")])
    nested = replace(outer.filters, criteria=(inner, *outer.filters.criteria, Criterion()))
    wanted = [row for row in rows if row["condition"] == "CnTp" and (row["verb"][0] in "sS" or row["rank"] == 1)]
    assert items.page(replace(outer, filters=nested))["recordsFiltered"] == len(wanted)


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
        found = named(items, items.page(ask_for(items, search=text, length=500)))
        assert [row["sentence"] for row in found] == [row["sentence"] for row in plain(rows, search=text)][:500], text


def test_groups_count_rows_and_failures(items, rows):
    asked = {"where": [("rank", ">", "1")], "sort": "rank", "descending": True}
    found = items.groups(ask_for(items, **asked), items.names.index("condition"))
    by = sorted(plain(rows, **asked), key=lambda row: row["condition"])
    counted = {name: list(own) for name, own in groupby(by, key=lambda row: row["condition"])}
    assert {value: (n, wrong) for value, n, _, wrong in found["groups"]} == {
        name: (len(own), sum(row["failed"] == "yes" for row in own)) for name, own in counted.items()
    }
    assert [own[1] for own in found["groups"]] == sorted((len(own) for own in counted.values()), reverse=True)
    every = {row["sentence"]: (1, row["failed"] is not None, row["failed"] == "yes") for row in rows}
    found = items.groups(ask_for(items), items.names.index("sentence"))
    assert (found["of"], len(found["groups"])) == (len(every), min(200, len(every)))
    assert all(tuple(counts) == every[value] for value, *counts in found["groups"])
    for column in range(len(items.names)):
        assert items.groups(ask_for(items, search="no sentence holds this"), column) == {"groups": [], "of": 0}


def same_item(items, row):
    keys = [(items.names[key], "=", str(row[items.names[key]])) for key in items.keys]
    return named(items, items.page(ask_for(items, keys, length=100)))


def test_the_keys_of_a_row_lead_to_all_of_its_item(items, rows):
    row = named(items, items.page(ask_for(items, start=3)))[0]
    same = [own for own in rows if all(own[word] == row[word] for word in ("name", "profession", "verb"))]
    assert [own["sentence"] for own in same_item(items, row)] == [own["sentence"] for own in same]


def test_the_models_of_several_runs_stand_side_by_side(scored_run, rows, tmp_path):
    shutil.copytree(scored_run, tmp_path / "second")
    both = Items.open([scored_run, tmp_path / "second"])
    assert both.total == 2 * len(rows)
    models = {own[0] for own in both.groups(ask_for(both), both.names.index("model"))["groups"]}
    assert len(models) == 2
    ordered = named(both, both.page(ask_for(both, sort="sentence", descending=True, length=500)))
    twice = sorted(rows + rows, key=lambda row: row["sentence"], reverse=True)
    assert [row["sentence"] for row in ordered] == [row["sentence"] for row in twice][:500]
    assert {own[1] for own in both.groups(ask_for(both), both.names.index("sentence"))["groups"]} == {2}
    alike = same_item(both, ordered[0])
    assert len(alike) == 2 * len({row["condition"] for row in rows})
    assert {row["model"] for row in alike} == models


@pytest.fixture
def viewer(items):
    with Viewer(items) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def ask(viewer, path, query=None, **headers):
    asked = {} if query is None else {"query": query}
    given = urllib.parse.urlencode({"token": viewer.token} | asked)
    joined = path if "token=" in path else f"{path}{'&' if '?' in path else '?'}{given}"
    request = urllib.request.Request(f"http://127.0.0.1:{viewer.server_port}{joined}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310 - our own address
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_only_who_has_the_address_is_answered_and_only_this_computer(viewer):
    assert viewer.server_address[0] == "127.0.0.1"
    asked = written(viewer.items, ("rank", ">", "1"), length=2)
    status, body = ask(viewer, "/rows.json", asked)
    assert (status, len(json.loads(body)["data"])) == (200, 2)
    for path in ("/?token=", "/?token=guess", "/?token=gu%C3%A9ss", f"/rows.json?token=&query={quote(asked)}"):
        assert ask(viewer, path)[0] == 403
    assert ask(viewer, "/rows.json", asked, Host="example.org")[0] == 403
    for text, said in [
        ("[]", "Expected `object`"),
        (asked[:-9], "Input data was truncated"),
        (asked.replace('"start": 0', '"start": -1'), "Expected `int` >= 0"),
        (asked.replace('["1"]', '["first"]'), "rank: first is not a number"),
        (asked.replace('["1"]', '[["1"]]'), "Expected `str`, got `array`"),
        (asked.replace('">"', '"like"'), "rank has numbers, and no condition like"),
        (asked.replace('">"', '"contains"'), "rank has numbers, and no condition contains"),
        (written(viewer.items, ("sentence", ">", "a")), "sentence has texts, and no condition >"),
        (written(viewer.items, ("colour", "=", "red")), "no column 999"),
        (written(viewer.items, sort="rank").replace('"order": [[', '"order": [[99'), "no column 99"),
        ("", "not a question of the page"),
    ]:
        status, answer = ask(viewer, "/rows.json", text)
        assert (status, said in json.loads(answer)["error"]) == (400, True), answer
    for column in ("", "999", "-1", "x"):
        status, answer = ask(viewer, f"/groups.json?column={column}", "{}")
        assert (status, json.loads(answer)) == (400, {"error": f"no column {column}"})
    for path in ("/run.json", "/../run.json", "/rows.parquet", "/dt_bundle.html"):
        assert ask(viewer, path)[0] == 404


def test_every_answer_has_the_headers_that_keep_other_pages_out(viewer):
    for path, status in ((f"/?token={viewer.token}", 200), ("/", 403), (f"/no?token={viewer.token}", 404)):
        connection = HTTPConnection("127.0.0.1", viewer.server_port)
        connection.request("GET", path)
        reply = connection.getresponse()
        assert (reply.status, reply.headers["Cache-Control"]) == (status, "no-store")
        assert reply.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self' 'nonce-")
        assert (reply.headers["X-Content-Type-Options"], reply.headers["Referrer-Policy"]) == ("nosniff", "no-referrer")
        connection.close()


def test_the_wanted_rows_are_saved_as_csv_and_as_a_sheet(viewer, rows):
    asked = {"where": [("condition", "=", "CnTp")], "sort": "verb"}
    text = written(viewer.items, *asked["where"], sort="verb")
    wanted = [[row["sentence"], row["rank"]] for row in plain(rows, **asked)]
    content = ask(viewer, "/rows.csv", text)[1].decode("utf-8-sig")
    assert [[row["sentence"], int(row["rank"])] for row in csv.DictReader(io.StringIO(content))] == wanted
    sheet = CalamineWorkbook.from_filelike(io.BytesIO(ask(viewer, "/rows.xlsx", text)[1])).get_sheet_by_index(0)
    assert [path.name for path in Path(viewer.items.folder.name).iterdir()] == ["rows.parquet"]  # saved files are gone
    heading, *cells = sheet.to_python()
    place = [heading.index(name) for name in ("sentence", "rank")]
    assert [[row[place[0]], int(row[place[1]])] for row in cells] == wanted


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
