"""Runs whose names are ours give the numbers of neutral names: report, view, show, files, cite and verify.

These are real runs of all experiments in folders, of models whose names differ in a sign or in case alone.
"""

import json
import re
from collections import Counter, defaultdict
from contextlib import suppress
from functools import cache
from html.parser import HTMLParser

import negengine as ng
import polars as pl
import pytest
from fake_exports import write_checkpoint
from few import few
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from named_data import cases
from negengine.engine.basics.choices import Task
from negengine.engine.experiments.registry import experiment, experiments
from negengine.engine.library.sentences import COLUMNS
from negengine.engine.results.comparison.groups import by_group
from negengine.engine.results.report.chapters import chapters
from negengine.engine.results.report.chosen_sentences import Examples, chosen
from negengine.engine.results.report.citation import cite
from negengine.engine.results.report.page import page
from negengine.engine.results.report.row_files import RowFile
from negengine.engine.results.report.row_filters import Filter
from negengine.engine.results.suite.suite_file import SuiteModel, SuiteProbe, chain
from negengine.engine.results.suite.suite_members import Member, model_tables, suite_table
from negengine.engine.results.suite.suite_report import curves
from negengine.engine.results.view.items import Items
from negengine.engine.views.formats import render
from negengine.engine.views.table import cells, with_unit
from pictures import refuse_faults_of_pictures
from python_calamine import CalamineWorkbook
from table_questions import question

from ...conftest import write_lexicon
from ..results import test_names
from ..results.test_names import NAMES, NEUTRAL, numbers

MODELS = st.sampled_from([("my_model", "my-model"), ("A", "a"), ("all", "paper"), ("a, b", "a"), ("x − y", "1")])
# Where our words have a meaning: the whole, types of relations, another column; where Polars reads a pattern.
OURS = ["all", "^all$", "*", "1-1", "N-1", "N-M", "negated", "overall", "a | b", "CpTn, control"]
NUMBER = re.compile(r"[-+−]?\d[\d,]*(\.\d+)?(e-?\d+)?")
OF_ANY_UNIT = {"value", "low", "high", "difference", "detectable", "effect"}  # which a column `unit` tells
_TEXTS = 8  # columns of texts that are grouped and filtered by


class Tags(HTMLParser):
    """How often each element of a page is there."""

    def __init__(self, text):
        super().__init__()
        self.found = Counter()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found[tag] += 1


@pytest.fixture(scope="module")
def made(mini, classifiers, detector, nli_data, tmp_path_factory):
    """Makes two finished runs of an experiment on data with these names."""
    exports = {Task.TEXT_CLASSIFICATION: classifiers["two-way"][1], Task.TOKEN_CLASSIFICATION: detector}
    written = cases(nli_data)

    def make(kind, names, models):
        folder, runs = tmp_path_factory.mktemp("names") / "data", []
        folder.mkdir()
        first, *further = chain(kind)
        options, exported = written[first](folder, names), exports.get(experiment(first).task, mini)
        for number, name in enumerate(models):
            place = write_checkpoint(exported.folder, folder.parent / str(number) / name, name, 0.1 * number)
            model = ng.load(place, device="cpu", precision="fp32", task=exported.task)
            run = getattr(ng, first)(model, **options, output=folder.parent / f"run{number}", progress=False)
            for function in further:
                run = getattr(ng, function)(run, progress=False)
            runs.append(run)
        return runs

    return make


def told(runs, folder):
    """All numbers that a report, the view, `show`, its files, `cite` and `verify` give, beside those of comparisons."""
    first = runs[0]
    for run in runs:
        assert not ng.verify(run, sample=4).damage
    yield from test_names.told(runs)
    found = chapters(runs)
    for part in found:
        for section in part.sections:
            yield section.title, len(section.notes), [numbers(own.figures) for own in section.tables]
            yield [(numbers(own.table.figures), own.plot.data.shape) for own in section.figures]
    yield {
        tag: n for tag, n in Tags(page("names", found)).found.items() if tag in {"table", "tr", "td", "svg", "circle"}
    }
    drawn = ng.figures(runs, folder / "figures")
    refuse_faults_of_pictures(drawn)
    yield Counter(path.suffix for path in drawn)
    yield sorted(numbers(pl.read_csv(path)) for path in drawn if path.suffix == ".csv")
    items = Items.open(runs)
    yield items.total, len(items.names)
    rows = chosen(first).collect()
    ordered = next(name for name in ("logprob", "difference", "item") if name in rows.columns)
    yield from _asked_for(first, items, rows, ordered)
    floats = rows.select(pl.col(pl.Float32, pl.Float64)).columns
    for ending in ("xlsx", "csv", "parquet"):
        assert RowFile(folder / f"rows.{ending}").write(rows.lazy()) == len(rows)
    heads, *cells = CalamineWorkbook.from_path(folder / "rows.xlsx").get_sheet_by_index(0).to_python()
    assert (heads, len({*map(str.casefold, heads)})) == (rows.columns, len(heads))
    as_csv = pl.read_csv(folder / "rows.csv", infer_schema=False).rows()
    for read in (cells, as_csv, pl.read_parquet(folder / "rows.parquet").rows()):
        own = [[row[rows.columns.index(name)] for name in floats] for row in read]
        yield sorted(repr([None if cell in {None, ""} else round(float(cell), 4) for cell in row]) for row in own)
    assert len(Examples.draw(first, chosen(first), 4, 0).render().splitlines()) > 4
    said = cite(*runs)
    yield [sorted(re.findall(r"\[95 % CI -?\d+\.\d+, -?\d+\.\d+\]|\(n = [\d,]+\)", " ".join(said.methods)))]


def _asked_for(run, items, rows, ordered):
    """What `view` and `show --where --sort` give for the names of each column of texts, in any order."""
    texts = [name for name, kind in rows.schema.items() if kind == pl.String and name not in COLUMNS[2:]]
    for name in texts:
        values = rows[name].drop_nulls().unique(maintain_order=True).to_list()
        own = []
        for value in values[:_TEXTS]:
            wanted = chosen(run).filter(pl.col(name) == value).collect()
            if Filter.parse(f"{name}={value}", rows.columns) == (name, "=", value):
                assert chosen(run, [f"{name}={value}"]).collect().equals(wanted)
            if name not in items.names:  # of a pair in one row
                continue
            query = question(items, (name, "=", value), sort=ordered if ordered in items.names else "", descending=True)
            own.append((items.page(query)["recordsFiltered"], len(wanted)))
        yield len(values), sorted(own)
        if name in items.names:
            groups = items.groups(question(items), items.names.index(name))["groups"]
            yield sorted((n, judged, wrong or 0) for _, n, judged, wrong in groups)


@pytest.mark.parametrize("kind", few(experiments(), "choice"))
@settings(max_examples=1, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck),
          phases=[Phase.explicit, Phase.generate])  # fmt: skip
@example(names=OURS, models=("list of words", "words"))
@given(names=NAMES, models=MODELS)
def test_any_names_give_the_numbers_of_neutral_names_in_every_command(
    kind, made, plain, tmp_path_factory, names, models
):
    runs = made(kind, names, models)
    own = [*told(runs, runs[0].folder.parent)]
    for found, wanted in zip(own, plain(kind), strict=True):
        assert found == wanted


WORDS = {
    "names_female": ["all", "Anna, a dancer", "n"],
    "names_male": ["overall", "Anna", "paper"],
    "professions": ["a dancer", "a dancer, a model", "a model", "a name, a verb"],
    "verbs": ["smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt", "rate", "total"],
}


@pytest.mark.everything
@pytest.mark.parametrize("kind", ["score", "gh22"])
def test_words_that_are_ours_have_the_rates_of_a_plain_count(kind, mini, tmp_path):
    """Words of a lexicon are read by the model, so neutral ones have other numbers."""
    write_lexicon(tmp_path / "lexicon", **WORDS)
    model = ng.load(mini.folder, device="cpu", precision="fp32")
    options = {"lexicon": tmp_path / "lexicon", "output": tmp_path / "run", "progress": False}
    run = ng.score(ng.select(model, **options), progress=False) if kind == "score" else ng.gh22(model, **options)
    assert ng.verify(run, sample=100).damage == ()
    rows = run.sentences().to_dicts()
    for by in run.groupings:
        counts = defaultdict(list)
        for row in rows:
            split = row["condition"] if kind == "score" else f"{row['pattern']}@{row['at_rank']}"
            condition = "pronoun" if kind == "score" else row["condition"]
            counts[condition, split, row["act" if (kind, by) == ("gh22", "verb") else by]].append(row["repeated"])
        found = by_group(run, by=by).frame.filter(metric="repetition_rate")
        own = {
            tuple(key): value
            for *key, value in found.select("condition", "split", "group", pl.struct("n", "value")).rows()
        }
        wanted = {
            key: {"n": len(values), "value": pytest.approx(sum(values) / len(values))}
            for key, values in counts.items()
            if key[1] not in run.by_construction
        }
        assert own == wanted


@pytest.fixture(scope="module")
def neutral(made):
    """Experiment → two runs with neutral names."""
    return cache(lambda kind: made(kind, NEUTRAL, ("one", "two")))


@pytest.fixture(scope="module")
def plain(neutral):
    """Experiment → what is told of two runs with neutral names."""
    return cache(lambda kind: [*told(neutral(kind), neutral(kind)[0].folder.parent)])


def compared(runs):
    """Comparisons of runs, as far as they can be compared."""
    asked = [(ng.compare, runs, {}), (ng.compare, runs[:1], {})]
    asked += [(ng.by_group, runs, {"by": by}) for by in (*runs[0].groupings, "split")]
    for function, several, options in asked:
        with suppress(ng.InputError):
            yield function(*several, **options)


def rows_in(document):
    """The rows of a document, with their names."""
    for own in document.values() if isinstance(document, dict) else document:
        if isinstance(own, dict | list):
            yield from rows_in(own)
    if isinstance(document, dict):
        yield document


@pytest.mark.parametrize("kind", few(experiments()))
def test_a_quantity_has_one_unit_under_one_name_in_every_format(kind, neutral):
    """Fractions wherever a machine reads; hundredths where a heading or a row says so, and in the papers' columns.

    What is printed is what stands in the frame, or 100 times as much.
    """
    runs, probe, members = neutral(kind), SuiteProbe("p", kind, {}, None, ""), []
    papers = re.compile("(published )?drop.*" + "|repetition_rate|ratio.*" * (kind in {"select", "score"}))
    results = [*runs, *compared(runs)]
    tables = [table for result in results for table in result.tables()]
    for section in (section for part in chapters(runs) for section in part.sections):
        tables += [*section.tables, *(figure.table for figure in section.figures)]
    for step, run in enumerate(runs):
        members.append((Member(step, SuiteModel("m", f"{step}", "s", step, None, ""), probe, run.folder), run))
    if len(suite := suite_table(members)):
        tables += [*model_tables(suite, members, brief=False), *(figure.table for figure in curves(suite, "p"))]
    units = defaultdict(dict)
    for table in tables:
        (document,) = json.loads(render([table], "json"))
        for name, unit in document["units"].items():
            units[name].setdefault(unit, table.title)
        for texts, row in zip(cells(table), table.frame.to_dicts(), strict=True):
            for column, text in zip(table.columns, texts, strict=True):
                figure = row.get(column.value)
                if isinstance(figure, float) and column.value not in table.texts and (digits := NUMBER.search(text)):
                    by_row = row.get("unit") == "fraction" and column.value in OF_ANY_UNIT
                    in_hundredths = by_row or re.search("%|points|× 100", with_unit(column))
                    times = 100 if in_hundredths and not papers.fullmatch(column.value) else 1
                    assert float(digits[0].replace(",", "")) == pytest.approx(times * figure, rel=0.06, abs=0.051)
    assert not {name: told for name, told in units.items() if len(told) > 1}
    fractions = {name for name, told in units.items() if "fraction" in told}
    assert not any(map(papers.fullmatch, fractions))
    documents = [*(result.document() for result in results), suite.to_dicts()]
    documents += [run.summary.to_dicts() for run in runs if "summary.parquet" in run.record.files]
    for row in rows_in(documents):
        assert row.get("unit", "") in {"", "fraction"}
        known = fractions - OF_ANY_UNIT if row.get("unit") != "fraction" else fractions | OF_ANY_UNIT
        assert all(abs(row[name] or 0) <= 1 for name in known & {*row})
        if "drop" in row:
            rate = row["repetition_rate"] if "repetition_rate" in row else 100 * row["value"]
            assert row["drop"] == pytest.approx(100 - rate)
