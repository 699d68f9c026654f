"""Names of groups, columns, conditions and models are never read back: any names give the numbers of neutral names.

The model is asked once for each experiment, and the names are substituted in its questions.
"""

import csv
import io
import json

import polars as pl
from hypothesis import strategies as st
from named_data import BAD, GOOD
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.registry import experiment
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.comparison.groups import by_group
from negengine.engine.results.comparison.runs import item_rows, labels
from negengine.engine.results.report.chapters import joined
from negengine.engine.results.suite.suite_file import SuiteModel, SuiteProbe
from negengine.engine.results.suite.suite_members import Member, State, model_tables, suite_table
from negengine.engine.results.suite.suite_report import curves, write_report
from negengine.engine.results.suite.suite_run import members_table
from negengine.engine.text.table_cells import MISSING
from negengine.engine.views.formats import render
from negengine.engine.views.to_csv import csv_rows
from pages import read

OURS = [
    *("all", "group: all", "difference", "bird vs fish", "original", "split", "column", "other_split", "by", "group"),
    *("paper", "chance", "model", "n", "unit", "low", "value", "p_holm", "why", "item", "condition", "dataset", "row"),
    *("a|b", "a: b", "a=b", "x − y", "-0.1", "+", "1", "16", "A", "מסכה", "日本", "a low", "{}"),
    *("is_wanted", "repeats", "right", "candidate", "role", "file", "comparable", "tokens", "all, b", "table"),
    *("remarks", "a of b", "a vs b", "a/b", "total", "overall", "rate", "experiment", "no c: 1", "*", "$x$"),
    *("label", "label of the split", "table_n", "cluster", "metric", "word", "text", "correct", "answer", "series"),
    *(
        "5 %",
        "a & b",
        "<b>",
        "“q”",
        "it's",
        "اسم",
        "שם − שם",
        "n = 5",
        "a (n = 5)",
        "a (2)",
        "[a]",
        "…",
        "#c2",
        "--where",
        "null",
        "-a",
    ),
]


def is_name(text):
    """An empty cell is not a group, and spaces at the ends do not count."""
    return text == text.strip() and text not in MISSING


NAMES = st.lists(st.sampled_from(OURS) | st.text("aA:=|−-. {}_1*$%&<',/()ا", min_size=1, max_size=4).filter(is_name),
                 min_size=10, max_size=10, unique_by=lambda name: name.strip().casefold())  # fmt: skip
NEUTRAL = [f"name{i}" for i in range(10)]


def numbers(frame):
    """The numbers of a frame, by rows that stand in an order of their own."""
    own = frame.select(pl.col(pl.Float64, pl.Int64, pl.Int32, pl.Boolean).cast(pl.Float64).round(9) + 0.0)
    return sorted(map(repr, own.rows()))


def told(runs):
    """All numbers that commands and formats give of two runs."""
    first, tables = runs[0], runs[0].tables()
    yield [numbers(run.frame(name)) for run in runs for name in run.record.files if name.endswith(".parquet")]
    yield [(len(own.columns), numbers(own.figures), len(render([own], "table").splitlines()) > 0) for own in tables]
    for section in experiment(first.stage).sections(first):
        for figure in section.figures:
            yield (
                figure.name,
                numbers(figure.plot.data),
                # what is drawn: `split` alone may be called as the whole is, which the column `column` tells apart
                sorted(figure.plot.data.drop("split", strict=False).select(pl.col(pl.String).n_unique()).row(0)),
            )
            assert figure.plot.chart().to_dict(validate=False)
    assert len(set(labels(runs))) == 2
    compared = [*_compared(runs)]
    yield from compared[:-1]
    every = [*tables, *compared[-1]]
    read = [*csv.reader(io.StringIO(render(every, "csv")))]
    yield len(read)
    assert {*map(len, read)} == {len(set(read[0]))}
    yield [{*map(len, csv.reader(io.StringIO(render([own], "csv"))))} for own in every]  # each has columns of its own
    shown = [own["rows"] for own in json.loads(render(every, "json"))]
    yield [(len(rows), {len(row) for row in rows}) for rows in shown]
    yield [
        render(every, form).count(mark) for form, mark in (("markdown", "\n| "), ("latex", "\\\\"), ("html", "<tr>"))
    ]
    rows = item_rows(*runs).collect()
    yield len(rows), len(rows.columns), numbers(rows.select(pl.col(pl.Float64)))
    read = [*csv.reader(io.StringIO("".join(csv_rows(rows.lazy()))))]
    assert len(read) == len(rows) + 1
    assert set(map(len, read)) == {len(rows.columns)}
    assert len(set(read[0])) == len(read[0])
    probe, members = SuiteProbe("p", first.stage, {}, None, ""), []
    for i, (label, own) in enumerate(zip(labels(runs), runs, strict=True)):
        members.append((Member(i, SuiteModel("m", label, "s", i, None, ""), probe, own.folder), own))
    found = suite_table(members)
    yield numbers(found), [numbers(own.figures) for own in model_tables(found, members, brief=False)]
    if len(found):
        yield [(numbers(own.plot.data), own.plot.data["category"].n_unique()) for own in curves(found, "p")]
    drawn = [[own for part in experiment(run.stage).sections(run) for own in part.figures if own.joint] for run in runs]
    for both in zip(*drawn, strict=True):
        own = joined([*zip(labels(runs), both, strict=True)])
        assert own.plot.chart().to_dict(validate=False)
        yield own.plot.data["model"].n_unique(), numbers(own.plot.data)
    assert first.methods("a test")


def _compared(runs):
    """The numbers of comparisons, and at last their tables; of runs that cannot be compared, no table."""
    first, second = runs
    try:
        both = compare(first, second)
    except InputError:
        assert first.stage in {"cues", "select"}
        yield []
        return
    yield numbers(both.frame), numbers(both.rates), [numbers(own.figures) for own in both.tables()]
    for by in first.groupings:  # the user's columns, by their own names
        found = by_group(first, second, by=by)
        yield "by", len(found.frame), [len(own.frame) for own in found.tables()], numbers(found.frame.drop("effect"))
    for by in ("split", "dataset"):  # a column of the user's comes first
        assert by_group(first, second, by=by).tables()
    yield both.tables()


def test_rows_without_a_cluster_are_clusters_of_their_own_in_every_file_whatever_others_are_called(mini, tmp_path):
    for file in ("a", "b"):
        rows = {"sentence_good": GOOD[:3], "sentence_bad": BAD[:3], "c": [" no c: 2", None, "no c: 2"]}
        pl.DataFrame(rows).write_csv(tmp_path / f"{file}.csv")
    stage = experiment("likelihood")(tmp_path, cluster="c").stage(mini)
    rows = pl.concat([stage.prepare(part)[0] for part in range(len(stage.sizes))])
    assert rows["cluster"].n_unique() == 3


def test_members_of_a_suite_are_told_apart_where_their_labels_join_to_one_text(tmp_path):
    labels = [("a", "b of c"), ("a of b", "c")]
    members = [
        Member(number, SuiteModel("m", model, "s", None, None, ""), SuiteProbe(probe, "lama", {}, None, ""), tmp_path)
        for number, (probe, model) in enumerate(labels, 1)
    ]
    overview = members_table("All runs", members, {1: State.FAILED, 2: State.FAILED})
    path, _ = write_report("suite", tmp_path, overview, {2: "no data", 1: "no file"}, [], suite_table([]))
    page = read(path.read_text("utf-8"))
    assert [cell.words for cell in page.all("a") if " of " in cell.words] == ["a of b of c", "a of b of c (2)"]
    assert [own.words for own in page.all("p") if "failed" in own.words] == [
        "a of b of c failed: no file", "a of b of c (2) failed: no data",
    ]  # fmt: skip
