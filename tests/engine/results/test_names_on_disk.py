"""Runs whose names are ours give the numbers of neutral names: report, view, show, files, cite and verify.

These are real runs in folders, of models whose names differ in a sign or in case alone.
"""

import re
import shutil
from collections import Counter
from html.parser import HTMLParser

import negengine as ng
import polars as pl
import pytest
from few import few
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from negengine.engine.results.report.chapters import chapters
from negengine.engine.results.report.chosen_sentences import Examples, chosen
from negengine.engine.results.report.citation import cite
from negengine.engine.results.report.page import page
from negengine.engine.results.report.row_files import RowFile
from negengine.engine.results.report.row_filters import Filter, Sorting
from negengine.engine.results.view.items import Items, Query
from python_calamine import CalamineWorkbook

from .test_names import NAMES, NEUTRAL, numbers, options, table

MODELS = st.sampled_from([("my_model", "my-model"), ("A", "a"), ("all", "paper"), ("a|b", "a: b"), ("x − y", "1")])


class Tags(HTMLParser):
    """How often each element of a page is there."""

    def __init__(self, text):
        super().__init__()
        self.found = Counter()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found[tag] += 1


def made(kind, names, models, folder, exported):
    """Two finished runs on a table with these names."""
    folder.mkdir()
    data, runs = folder / "table.csv", []
    pl.DataFrame(table(kind, names)).write_csv(data)
    for number, name in enumerate(models):
        place = folder / str(number) / name
        shutil.copytree(exported.folder, place)
        model = ng.load(place, device="cpu", precision="fp32")
        function = getattr(ng, kind)
        runs.append(function(model, data, **options(kind, names), output=folder / f"run{number}", progress=False))
    return runs


def told(kind, runs, names, folder):
    """All numbers that a report, the view, `show`, its files, `cite` and `verify` give."""
    first = runs[0]
    for run in runs:
        assert not ng.verify(run, sample=4).damage
    found = chapters(runs)
    for part in found:
        for section in part.sections:
            yield section.title, len(section.notes), [numbers(own.figures) for own in section.tables]
            yield [(numbers(own.table.figures), own.plot.data.shape) for own in section.figures]
    yield {
        tag: n for tag, n in Tags(page("names", found)).found.items() if tag in {"table", "tr", "td", "svg", "circle"}
    }
    items = Items.open(runs)
    yield items.total, len(items.columns)
    pairs = first.pair_rows()
    shown = first.sentence_rows(), first.sentence_rows() if pairs is None else pairs
    for name, values in zip(names[:2], (names[3:5], names[5:7]), strict=True):
        kept = next(own for own, user in first.own_columns.items() if user == name)
        of_view, of_show = (first.named_for_people(rows.collect_schema().names())[kept] for rows in shown)
        counted = items.groups(Query(), of_view)["groups"]
        yield sorted((own["n"], own["judged"], own["failed"]) for own in counted)
        for value in values:
            query = Query((Filter(of_view, "=", value),), sort=Sorting("logprob", descending=True))
            found = items.page(query, 0, 500)
            yield found["wanted"], [row["logprob"] for row in found["rows"]]
            text = f"{of_show}={value}"
            if Filter.parse(text, chosen(first).collect_schema().names()) == (of_show, "=", value):
                wanted = chosen(first).filter(pl.col(of_show) == value).collect()
                assert chosen(first, [text]).collect().equals(wanted)
    rows = chosen(first).collect()
    for ending in ("xlsx", "csv", "parquet"):
        assert RowFile(folder / f"rows.{ending}").write(rows.lazy()) == len(rows)
    heads, *cells = CalamineWorkbook.from_path(folder / "rows.xlsx").get_sheet_by_index(0).to_python()
    place = rows.columns.index("logprob" if "logprob" in rows.columns else "difference")
    assert (heads, len({*map(str.casefold, heads)})) == (rows.columns, len(heads))
    for read in (cells, pl.read_csv(folder / "rows.csv").rows(), pl.read_parquet(folder / "rows.parquet").rows()):
        yield [round(row[place], 4) for row in read]
    assert len(Examples.draw(first, chosen(first), 4, 0).render().splitlines()) > 4
    said = cite(*runs)
    yield [sorted(re.findall(r"\[-?\d+\.\d+, -?\d+\.\d+\]|\(n = [\d,]+\)", " ".join(said.methods)))]


@pytest.mark.parametrize("kind", few(["probe", "likelihood", "choice"]))
@settings(
    max_examples=3, deadline=None, phases=[Phase.generate], derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(names=NAMES, models=MODELS)
def test_any_names_give_the_numbers_of_neutral_names_in_every_command(kind, mini, tmp_path_factory, names, models):
    every = {}
    for own, called in ((names, models), (NEUTRAL, ("one", "two"))):
        folder = tmp_path_factory.mktemp("names") / "runs"
        every[called] = [*told(kind, made(kind, own, called, folder, mini), own, folder)]
    first, second = every.values()
    for own, wanted in zip(first, second, strict=True):
        assert own == wanted
