"""What a person reads of a summary: the tables of every experiment, and the values of its figures, beside the paper's.

The files in `views` have the tables as a terminal and as CSV show them, and what a report says. To write them again
after a change that is meant, set WRITE_VIEWS=1, run this file, and read the difference.
"""

import json
import os
import tomllib
from pathlib import Path

import negengine as ng
import polars as pl
import pytest
from asked_stages import asked_run
from msgspec import structs
from negengine.engine.experiments.finished_run import CELL, paper_of
from negengine.engine.experiments.lama.lama import Lama
from negengine.engine.experiments.negation.negation_tables import published as published_test
from negengine.engine.experiments.registry import experiment
from negengine.engine.experiments.view import POINTS, Values, View
from negengine.engine.requests.items import OWN
from negengine.engine.requests.summary import SCHEMA, Row, correction_note, frame
from negengine.engine.runs.stage import changed
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.views import Column
from negengine.engine.views.charts import Points
from negengine.engine.views.formats import render

from .conftest import EVERY

VIEWS = Path(__file__).parent / "views"


def compared(metric, dataset, condition, split, column=None, **others):
    figures = (0.25, -0.05, 0.5, 40, 20, 1.1, 0.31)
    sides = {"other_condition": condition, "other_split": split, "other_column": column, **others}
    return Row(
        dataset,
        condition,
        split,
        metric,
        *figures,
        column=column,
        p=0.0123456,
        least_p=0.001,
        p_holm=0.0246912,
        tests=2,
        **sides,
    )


MODELS = {  # of which papers print figures
    "lama": "bert-base-cased",
    "diagnostics": "google-bert/bert-large-uncased",
    "gh22": "roberta-large",
}


def with_other_figures(run, model):
    """A run of another model with the same cells, whose values all differ: 0.50, 0.51 …, with an interval of ± 0.1."""
    value, estimated = (50 + pl.int_range(pl.len()) % 40) / 100, pl.col("metric").is_in([*run.metrics, "preferred"])
    known = {"n": 40, "clusters": 20, "detectable": 0.31, "p": 0.0123456, "least_p": 0.001, "p_holm": 0.0246912}
    summary = run.summary.with_columns(
        value.alias("value"),
        *(pl.when(estimated).then((value + end).round(2)).alias(name) for name, end in (("low", -0.1), ("high", 0.1))),
        *(pl.when(pl.col(name).is_not_null()).then(pl.lit(own)).alias(name) for name, own in known.items()),
    )
    record = structs.replace(run.record, identity=run.record.identity | {"model": model})
    return changed(run, record=record, summary=summary.cast(SCHEMA))


def written(kind, run):
    texts = [render(run.tables(), "table", width=120), render(run.tables(), "csv")]
    for section in kind.sections(run):
        texts.append("\n".join([f"# {section.title}", *section.sentences, *section.notes, ""]))
        for figure in section.figures:
            plot = figure.plot
            axis = plot.axis
            told = [f"## {figure.name} ({axis}): {figure.legend}", figure.alt, *figure.table.notes]
            columns = [name for name in (plot.panel, plot.y, plot.series, plot.x, plot.low, plot.high) if name]
            texts.append("\n".join([*told, plot.data.select(columns).write_csv(float_precision=2)]))
            assert plot.chart().to_dict(validate=False)
    return "\n".join(texts)


@pytest.mark.parametrize("name", [name for name in EVERY if name != "cues"])
def test_tables_and_figures_are_those_that_were_read_and_found_right_and_fit_in_80_columns(name, made):
    run, kind = with_other_figures(ng.open(made(name).folder), MODELS.get(name, "some/bert")), experiment(name)
    text, file = written(kind, run), VIEWS / f"{name}.txt"
    if os.environ.get("WRITE_VIEWS"):
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")
    assert max(map(len, render(run.tables(), "table", width=80).splitlines())) <= 80


CORPORA = {"Google-RE": "GoogleRE", "T-REx": "TREx", "ConceptNet": "ConceptNet", "SQuAD": "SQuAD"}
SPLITS = {f"{what}-{of}": f"{of}_of_{what}" for what in ("birth", "death") for of in ("place", "date")}
SPLITS |= {"Total": "all"}
PATTERNS = load_patterns()
COLUMNS = {"same-name": "coref", "same-gender": "noncoref_same_gender", "other-gender": "noncoref_other_gender"}


@pytest.fixture
def transcript(shared):
    def read(name):
        return tomllib.loads((shared / f"data/published/{name}.toml").read_text("utf-8"))

    return read


def figures(experiment, model):
    """Cell of the summary → percent, as `paper_of` has it."""
    found = paper_of(experiment, model).figures
    return {row[:4]: pytest.approx(100 * row[4]) for row in found.select(*CELL, "published").iter_rows()}


def test_our_copies_of_the_tables_of_negated_lama_and_of_the_replication_are_the_transcripts(transcript):
    rows = transcript("negated-lama")["table_1"]["rows"]
    names = {"spearman": "spearman_x100", "overlap@1": "overlap_percent"}
    cells = [(CORPORA[row["corpus"]], SPLITS.get(row["relation_group"], row["relation_group"]), row) for row in rows]
    for model in ("bert_base", "bert_large"):
        assert figures("lama", f"{model.replace('_', '-')}-cased") == {
            (corpus, "original", split, metric): row[name][model]
            for corpus, split, row in cells
            for metric, name in names.items()
        }
    assert figures("gh22", "roberta") == figures("gh22", "someone/roberta-large") == {}
    rows = transcript("self-contained-negation-test")["table_2"]["rows"]
    for model in ("roberta-large", "bert-large-cased"):
        rates = {f"{row['pattern']}{row['polarity']}@1": row["repetition_percent"][model] for row in rows}
        cells = {("GH22", "original", split, "repetition_rate"): rate for split, rate in rates.items()}
        assert figures("gh22", model) == cells


def test_our_copy_of_tables_5_to_9_of_the_negation_test_is_the_transcript(transcript):
    found, millions = transcript("self-contained-negation-test"), 1_000_000
    table = found["table_5"]
    for model in ("bert-base-cased", "bert-large-cased", "roberta-base", "roberta-large"):
        pronoun = published_test(model, PATTERNS)["pronoun"]
        assert pronoun.selection == {
            "verbs": table["row_1_available_verbs_count"][model],
            "pairs": table["row_2_available_name_prof_pairs_count"][model],
            "tested": table["row_3_tested_triplets_millions"][model] * millions,
            "repeating": table["row_4_triplets_with_act_repetition_millions"][model] * millions,
            "ratio": table["row_5_repetition_ratio_percent"][model],
            "selected": table["row_6_selected_triplets_count"][model],
        }
        assert pronoun.drops == {pattern.name: found["table_6"][pattern.name][model] for pattern in PATTERNS.scored}
        assert pronoun.triplets == pronoun.selection["selected"]
    for theirs in (found[f"table_{name}"] for name in ("8a", "8b", "9a", "9b")):
        thousands = theirs["triplets_thousands"]
        for coreference, column in COLUMNS.items():
            own = published_test(theirs["model"], PATTERNS)[coreference]
            assert own.drops == {pattern: drops[column] for pattern, drops in theirs["drop_points"].items()}
            assert own.triplets == (round(thousands[column] * 1000) if column in thousands else None)
    assert published_test("FacebookAI/roberta-base", PATTERNS) == published_test("roberta-base", PATTERNS)
    assert published_test("bert-base-uncased", PATTERNS) == published_test("roberta", PATTERNS) == {}


def test_what_a_run_can_find_is_told_of_fractions_alone():
    """0.7 of a log-probability is not 70 points."""
    of_numbers = compared("logprob", "D", "c", "a", other_split="b")._replace(detectable=0.7)
    run = asked_run(Lama.results, frame([compared("right", "D", "c", "a", other_split="b"), of_numbers]))
    columns = [Values("right", "right", style=POINTS), Values("log-probability", "logprob", style={"decimals": 2})]
    table = View("t", ("dataset",), columns, compares=True, test="x").table(run)
    assert "true differences of 31.0 points or more are found with 80 % power" in table.notes


@pytest.mark.parametrize(
    ("counts", "headings", "told"),
    [
        ({"a": (40, 40, None), "b": (40, 40, None)}, ["group", "@1", "@5"], ["n = 40 in every row"]),
        ({"a": (40, 40, 9), "b": (40, 40, 9)}, ["group", "@1", "@5"], ["n = 40 in every row", "clusters (facts): 9"]),
        ({"a": (40, 38, None), "b": (40, 40, None)}, ["group", "@1", "@5", "n (@5)"], ["n = 40 in every row"]),
        ({"a": (40, 40, 1), "b": (40, 40, 9)}, ["group", "n", "@1", "@5"], ["in brackets behind n: the number of"]),
        ({"a": (40, 40, 9), "b": (7, 7, None)}, ["group", "n", "@1", "@5"], ["without one, items are independent"]),
    ],
)
def test_n_stands_beside_each_rate_and_the_number_of_clusters_where_it_differs(counts, headings, told):
    rows = [
        Row("D", "c", split, metric, 0.5, 0.4, 0.6, n, clusters, column=OWN)
        for split, (first, second, clusters) in counts.items()
        for metric, n in (("@1", first), ("@5", second))
    ]
    run = asked_run(Lama.results, frame(rows), clusters="facts")
    columns = [Column("group", "split"), Values("@1", "@1"), Values("@5", "@5")]
    table = View("t", ("split",), columns).table(run)
    assert [column.heading for column in table.columns] == headings
    assert all(any(own in note for note in table.notes) for own in told), table.notes
    assert table.frame.select("n", "@5_n").rows() == [own[:2] for own in counts.values()]
    names = {name for column in table.columns for name in column.names}
    assert ("clusters" in names) == (len({own[2] for own in counts.values()}) > 1)


def test_a_picture_has_n_beside_its_rates():
    """Of all values in the title of the axis; else behind the names that have one n each; and on hover."""
    data = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": ["a", "b", "a", "b"], "s": ["k", "k", "l", "l"]})
    for numbers, panel, said in (
        ((9, 9, 9, 9), None, {"x; n = 9"}),
        ((9, 9, 9, 9), "s", {"k (n = 9)", "l (n = 9)"}),
        ((9, 1200, 9, 1200), None, {"a (n = 9)", "b (n = 1,200)"}),
        ((9, 9, 1200, 1200), None, {"k (n = 9)", "l (n = 1,200)"}),
        ((9, 8, 7, 6), None, set()),
    ):
        plot = Points(data.with_columns(n=pl.Series(numbers)), x="x", y="y", series="s", panel=panel, title="x", n="n")
        drawn = json.dumps(plot.chart().to_dict(), ensure_ascii=False)
        assert {name for name in ("x; n = 9", *(f"{one} (n = {n})" for one in "abkl" for n in ("9", "1,200")))
                if f'"{name}"' in drawn} == said  # fmt: skip
        assert f"(n = {numbers[0]})" in drawn
        low, high = min(numbers), max(numbers)
        assert plot.promise == (f"n: {low:,}." if low == high else f"n: {low:,} to {high:,}.")


def test_a_note_says_where_no_test_can_come_below_the_limit():
    """Ten tests whose least p is 2 / 2⁶ = 0.031: times ten it is above 0.05, and alone it is not."""
    tested = pl.DataFrame({"p": [0.1 + i / 100 for i in range(10)], "least_p": 2 / 2**6, "n": 40, "tests": 10})
    assert "too few clusters differ" in correction_note(tested, "x")
    assert "too few clusters differ" not in correction_note(tested.head(1).with_columns(tests=1), "x")
    one = tested.with_columns(least_p=pl.Series([0.001, *[2 / 2**6] * 9]))  # only this one counts at so small a p
    assert "too few clusters differ" not in correction_note(one, "x")
