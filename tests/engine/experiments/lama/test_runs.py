"""`ng.lama`: options, results as frames, tables and one document, and what two runs are compared by."""

import json

import negengine as ng
import polars as pl
import pytest
from negengine.engine.basics.choices import output_formats
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.lama.lama import Lama, LamaRun
from negengine.engine.library.model import find_model
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.comparison.groups import by_group
from negengine.engine.results.report.citation import cite
from negengine.engine.results.report.reproduction import reproduce
from pages import drawn_figures

lama = Lama.function()
FACTS = [("Paris", "paris", "France"), ("Rome", "rome", "Italy"), ("Lego", "unspeakableness", "Denmark")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "TREx.jsonl"
    rows = [
        {
            "relation": "P36",
            "sub_label": land,
            "obj_label": answer,
            "masked_sentence": f"The capital of {land} is [MASK] .",
            "masked_negation": f"The capital of {land} is not [MASK] .",
            "misprimed_low": f"{name}? The capital of {land} is [MASK] .",
        }
        for name, answer, land in FACTS
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture(scope="module")
def model(mini):
    return find_model(mini.folder)


@pytest.fixture(scope="module")
def run(model, data, tmp_path_factory):
    return lama(model, data=data, output=tmp_path_factory.mktemp("runs") / "run", progress=False)


def test_items_and_summary_are_frames(run):
    assert isinstance(run, LamaRun)
    assert run.items["gold"].to_list() == ["paris", "rome"] * 2
    assert run.summary.columns[:8] == ["dataset", "condition", "split", "metric", "value", "low", "high", "n"]
    assert run.summary.columns[8:] == ["clusters", "design_effect", "detectable", "tests"]
    assert run.document() == {"run": str(run.folder), "summary": run.summary.to_dicts()}


def test_facts_that_do_not_count_are_told_below_the_tables(run):
    assert run.remarks() == ["facts excluded: 1 (the answer is not one token of the model)"]
    assert run.render().endswith(f"{run.remarks()[0]}\n")


def test_all_tables_are_written_in_every_format(run):
    for form in output_formats():
        assert run.render(form)


def test_a_finished_run_is_opened_by_its_folder(run):
    assert LamaRun.open(run.folder).items.equals(run.items)


def test_runs_are_compared_item_by_item(run, model, data, tmp_path):
    other = lama(model, data=data, output=tmp_path / "other", progress=False)
    frame = compare(run, other).frame
    assert set(frame["metric"]) == {"spearman", "overlap@1", "precision@1", "precision@5", "precision@10"}
    assert set(frame["condition"]) == {"original", "misprimed-low"}
    assert set(frame["n"]) == {2}
    assert frame["difference"].to_list() == [0] * len(frame)


def test_items_are_grouped_by_relation(run):
    found = by_group(run, by="relation").frame
    relations = run.items["cluster"].unique().to_list()
    assert set(found["relation"]) == set(relations)
    one = found.filter((pl.col("metric") == "precision@1") & (pl.col("condition") == "original"))
    right = run.items.filter(condition="original").group_by("cluster").agg(pl.col("precision@1").mean())
    assert dict(one.select("relation", "value").iter_rows()) == {
        relation: pytest.approx(100 * rate) for relation, rate in right.iter_rows()
    }


def test_runs_that_rank_other_tokens_are_not_compared(run, model, data, tmp_path):
    other = lama(model, data=data, vocabulary="words", output=tmp_path / "other", progress=False)
    with pytest.raises(InputError, match="cannot be compared: vocabulary all, there words"):
        compare(run, other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corpus": "Wikipedia"}, "--corpus Wikipedia: give GoogleRE, TREx"),
        ({"vocabulary": "nouns"}, "--vocabulary nouns: not all, not words, and not a file"),
        ({"data": "nowhere"}, "nowhere: "),
    ],
)
def test_wrong_options_are_one_line(model, data, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        lama(model, **{"data": data, "output": tmp_path / "run", **options})
    assert not (tmp_path / "run").exists()


def test_mixed_precision_is_refused_before_anything_else(mini, data, tmp_path):
    with pytest.raises(InputError, match="--precision mixed: lama reports ranks and probabilities"):
        lama(ng.load(mini.folder, precision="mixed"), data=data, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_report_shows_correlation_overlap_and_precision_of_the_summary(run):
    figures = drawn_figures(run)
    assert set(figures) == {"correlation", "overlap", "precision"}
    for name, metric in (("correlation", "spearman"), ("overlap", "overlap@1")):
        expected = run.summary.filter((pl.col("metric") == metric) & (pl.col("split") == "all"))["value"].item()
        shown = figures[name].plot.data.filter(pl.col("split") == "all")["value"].item()
        assert shown == pytest.approx(100 * expected)
    precision = figures["precision"].plot.data
    assert precision["condition"].to_list() == ["original", "misprimed-low"]


def test_the_methods_paragraph_has_its_numbers(run):
    (text,) = cite(run).methods
    assert "(Kassner and Schütze, 2020)" in text
    assert "ranked all tokens" in text
    (precision,) = run.summary.filter(condition="original", split="all", metric="precision@1")["value"]
    assert f"Precision at rank 1: TREx {precision:.2f}" in text
    assert cite(run).facts["Data"].endswith("TREx.jsonl")


def test_the_same_run_again_has_the_same_bytes(run, tmp_path):
    assert reproduce(run.folder, tmp_path / "again", progress=False).is_same


def test_facts_that_changed_since_are_refused_with_the_digest(run, data, tmp_path):
    content = data.read_bytes()
    try:
        data.write_bytes(content + b"\n")
        with pytest.raises(
            InputError, match=r"TREx\.jsonl is not the file that .* was made with \(sha256 [0-9a-f]{64}\)"
        ):
            reproduce(run.folder, tmp_path / "again", progress=False)
    finally:
        data.write_bytes(content)
