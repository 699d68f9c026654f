"""What people see of single items: pairs in one row, and a user's own columns with the user's own names."""

import csv
import importlib
import io
import shutil
from importlib.util import find_spec
from urllib.parse import unquote

import negengine as ng
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.library.sentences import COLUMNS, names_for_people
from negengine.engine.results.report.chapters import chapter
from negengine.engine.results.report.chosen_sentences import Examples, chosen
from negengine.engine.results.report.row_files import RowFile
from negengine.engine.results.report.single_sentences import examples
from negengine.engine.results.view.items import Items
from negengine.engine.views.to_html import table_html
from python_calamine import CalamineWorkbook
from table_questions import named, question

PAIRS = pl.DataFrame(
    {
        "good": ["Anna is happy.", "He smokes.", "She likes to dance.", "Öl schwimmt."],
        "bad": ["Anna are happy.", "He smoke.", "She likes to dances.", "Öl schwimmen."],
        "group": ["all", "all vs no", "no", "no"],
        "Difference": ["a", "b", "=c", "-1"],
        "role": ["r1", "r2", "r3", "007"],
    }
)
OWN = pl.DataFrame(
    {
        "sentence": [f"A {fish} is {polarity}a [MASK]." for fish in ("robin", "trout") for polarity in ("", "not ")],
        "target": ["bird", "bird", "fish", "fish"],
        "condition": ["affirmative", "negated"] * 2,
        "Item": [1, 1, 2, 2],
        "splits": ["p", "q", "p", "q"],
    }
)


@pytest.fixture(scope="module")
def pairs(mini, tmp_path_factory):
    return ng.likelihood(mini.folder, PAIRS, output=tmp_path_factory.mktemp("pairs") / "run", progress=False)


@pytest.fixture(scope="module")
def own(mini, tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "run"
    return ng.probe(mini.folder, OWN, group="condition", item="Item", output=folder, progress=False)


def test_a_pair_is_one_row_with_both_sentences_and_their_difference(pairs):
    rows = chosen(pairs).collect()
    sums = pairs.items.select("item", "role", "text", "logprob").rows()
    by_hand = {}
    for item, role, text, logprob in sums:
        by_hand.setdefault(item, {})[role] = text, logprob
    for row in rows.iter_rows(named=True):
        good, bad = by_hand[row["item"]]["good"], by_hand[row["item"]]["bad"]
        assert (row["good"], row["bad"]) == (good[0], bad[0])
        assert row["difference"] == pytest.approx(good[1] - bad[1])
        assert row["failed"] == (good[1] - bad[1] <= 1e-4)
    assert rows["table_Difference"].to_list() == PAIRS["Difference"].to_list()
    assert rows["role"].to_list() == PAIRS["role"].to_list()
    first = chosen(pairs, ["group=no"], sort="difference").collect()
    assert first["difference"].is_sorted()
    assert set(first["group"]) == {"no"}
    assert len(chosen(pairs, ["difference>0"]).collect()) == (rows["difference"] > 0).sum()
    text = Examples.draw(pairs, chosen(pairs), 4, 0).render()
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert all(word in text for word in ("good", "bad", "difference", "logprob"))
    (section,) = examples(pairs)
    assert {"good", "bad", "difference", "wrong"} <= {column.heading for column in section.listing.columns}
    shown = section.listing.frame.filter(why="worst failure")
    assert shown["difference"].to_list() == rows.filter("failed")["difference"].sort().to_list()


def test_the_right_candidate_of_a_choice_stands_beside_the_best_wrong_one(mini, tmp_path):
    words = ['["blue", "green", "red"]', '["red", "green", "blue"]']
    items = pl.DataFrame({"question": ["The sky is", "Grass is"], "choices": words, "answer": [0, 1]})
    named = {"context": "question", "candidates": "choices", "answer": "answer"}
    run = ng.choice(mini.folder, items, **named, output=tmp_path / "run", progress=False)
    for row in chosen(run).collect().iter_rows(named=True):
        own = run.items.filter(pl.col("item") == row["item"])
        own = own.filter(pl.col("role").ne_missing("alone"))
        best = own.filter(~pl.col("right"))["logprob"].max()
        assert row["difference"] == pytest.approx(own.filter("right")["logprob"].item() - best)
        assert row["bad"].endswith(own.filter(~pl.col("right")).sort("logprob")["text"][-1])


def test_of_many_own_columns_those_with_the_groups_stand_before_the_sentences(own, monkeypatch):
    monkeypatch.setattr("negengine.engine.results.report.chosen_sentences._MOST_OWN", 1)
    table = Examples.draw(own, chosen(own), 4, 0).tables()[0]
    assert [column.heading for column in table.columns][:2] == ["condition", "sentence"]
    assert Items([own]).names[:2] == ["condition", "sentence"]


def test_own_columns_keep_their_names_are_shown_and_are_filters_everywhere(own, tmp_path):
    rows = chosen(own).collect()
    assert rows.select("condition", "Item", "splits").rows() == OWN.select("condition", "Item", "splits").rows()
    assert set(rows["target_column"]) == {"target"}
    assert len({name.casefold() for name in rows.columns}) == len(rows.columns)
    assert chosen(own, ["condition=negated"]).collect()["sentence"].str.contains(" not ").all()
    table = Examples.draw(own, chosen(own), 4, 0).tables()[0]
    assert {"condition", "Item"} <= {column.heading for column in table.columns}
    items = Items([own])
    assert {"condition", "Item"} <= {*items.names}
    found = named(items, items.page(question(items, ("condition", "=", "negated"))))
    assert [row["condition"] for row in found] == ["negated"] * 2
    assert items.groups(question(items), items.names.index("condition"))["of"] == 2
    assert items.keys
    (section,) = examples(own)
    assert {"condition", "Item", "splits"} <= {column.heading for column in section.listing.columns}
    sections = chapter(own, "x").sections
    assert "condition" in {column.heading for column in sections[0].tables[0].columns}
    assert RowFile(tmp_path / "rows.csv").write(chosen(own)) == 4
    assert pl.read_csv(tmp_path / "rows.csv")["condition"].to_list() == OWN["condition"].to_list()


NAMES = st.sampled_from([*COLUMNS, "ITEM", "Condition", "Sätze", "role", "Role", "group", "run_item", "text", "Splits"])


@given(st.lists(NAMES, unique_by=str.casefold, max_size=6))
def test_no_two_columns_differ_in_case_alone(users):
    own = {f"table_{user}" if user in {"item", "condition", "role", "text"} else user: user for user in users}
    ours = [*COLUMNS, "dataset", "role", "splits", "text"]
    named = names_for_people([*ours, *(kept for kept in own if kept not in ours)], own, {"condition": "target_column"})
    assert len({name.casefold() for name in named.values()}) == len(named)


def test_a_table_of_a_report_and_a_sheet_are_read_by_other_programs_as_they_are(pairs, tmp_path):
    (section,) = examples(pairs)
    for separator, number in ((",", "."), (";", ",")):
        page = table_html(section.listing, separator=separator)
        assert 'class="table stacks"' in page  # its columns do not fit on a phone
        saved = unquote(page.split('href="data:text/csv;charset=utf-8,')[1].split('"')[0])
        assert saved.startswith("\ufeff")
        first, *rows = csv.reader(io.StringIO(saved.removeprefix("\ufeff")), delimiter=separator)
        assert {"good", "bad", "table_Difference"} <= set(first)
        assert {row[first.index("good")] for row in rows} == set(PAIRS["good"])
        value = rows[0][first.index("difference")]
        assert float(value.replace(number, ".")) == pytest.approx(section.listing.frame["difference"][0], rel=1e-5)
    path = tmp_path / "pairs.xlsx"
    assert RowFile(path).write(chosen(pairs)) == 4
    sheets = [CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python()]
    if find_spec("openpyxl"):
        sheets.append(list(importlib.import_module("openpyxl").load_workbook(path).active.iter_rows(values_only=True)))
    differences = chosen(pairs).collect()["difference"].to_list()
    for heads, *cells in sheets:
        read = [dict(zip(heads, row, strict=True)) for row in cells]
        assert [row["table_Difference"] for row in read] == PAIRS["Difference"].to_list()
        for name in ("good", "bad", "group", "role"):  # a text stays one: no formula, no number
            assert [row[name] for row in read] == PAIRS[name].to_list()
        assert [row["difference"] for row in read] == pytest.approx(differences)


def test_log_probabilities_of_models_with_other_vocabularies_have_a_warning(own, tmp_path, monkeypatch):
    copy = shutil.copytree(own.folder, tmp_path / "copy")
    said = "the models have different vocabularies"
    assert said not in ng.compare(own.folder, copy).render()
    monkeypatch.setattr(type(own), "tokenizer_sha256", property(lambda run: run.folder.name))
    assert said in ng.compare(own.folder, copy).render().replace("\n", " ")
    assert said.capitalize() in ng.report([own.folder, copy], tmp_path / "report.html").read_text("utf-8")
