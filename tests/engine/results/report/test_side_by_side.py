"""Several runs in one report."""

import negengine as ng
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.results.report.side_by_side import chapters
from negengine.engine.text.lexicon import Lexicon
from pages import read


@pytest.fixture(scope="module")
def together(scores, other_scores):
    return chapters([scores, other_scores])


def test_a_chapter_with_all_runs_stands_before_the_runs(together, scores, other_scores):
    names = [f"{run.model_name} ({run.folder.name})" for run in (scores, other_scores)]
    assert [chapter.title for chapter in together] == ["Side by side", *names]


def test_one_chart_has_all_runs(together, scores, other_scores):
    figures = {figure.name: figure for section in together[0].sections for figure in section.figures}
    data = figures["all-drops"].plot.data
    for run in (scores, other_scores):
        own = data.filter(pl.col("model") == f"mini ({run.folder.name})")
        drops = dict(run.rates.filter(pl.col("pattern") != "CpTp").select("pattern", "drop").iter_rows())
        assert {name.partition(",")[0]: drop for name, drop in own.select("pattern", "drop").iter_rows()} == drops


def test_the_table_of_a_paper_has_models_in_rows_and_patterns_in_columns(together):
    tables = [table for section in together[0].sections for table in section.tables]
    (printed,) = [table for table in tables if "drop" in table.title and table.title.startswith("Models in rows")]
    assert printed.columns[0].heading == "model"
    assert {column.heading.partition(",")[0] for column in printed.columns[1:]} == {"CpTn", "CnTp", "CnTn", "CpTv"}
    assert all(column.low and column.high for column in printed.columns[1:])
    assert len(printed.frame) == 2


def test_paired_differences_are_those_of_compare(together, scores, other_scores):
    section = together[0].sections[-1]
    found = ng.compare(scores, other_scores).frame
    (shown,) = [*section.tables, *(figure.table for figure in section.figures)]
    assert section.title == "Paired differences"
    assert shown.frame["difference"].to_list() == found["difference"].to_list()


def test_the_page_of_several_runs_is_whole(scores, other_scores, tmp_path):
    root = read(ng.report([scores, other_scores], tmp_path / "report.html").read_text("utf-8"))
    assert len(root.all("h2")) == 3


def test_runs_without_a_common_item_have_charts_but_no_test(scores, mini, make_scores, tmp_path):
    words = Lexicon(("Anna",), ("f",), ("a judge", "a cook"), ("smoke", "dance", "sing", "swim", "walk", "argue"))
    found = chapters([scores, ng.open(make_scores(mini, tmp_path / "run", words))])
    assert found[0].sections[-1].sentences[-1].endswith("have no item in common.")
    assert found[0].sections[0].figures


def test_runs_of_different_kinds_are_refused(scores, selected_run, tmp_path):
    with pytest.raises(InputError, match="are runs of different kinds"):
        ng.report([scores, selected_run], tmp_path / "report.html")


def test_a_run_that_is_given_twice_is_refused(scores, tmp_path):
    with pytest.raises(InputError, match="is given more than once"):
        ng.report([scores, scores.folder], tmp_path / "report.html")


def test_runs_that_differ_in_the_target_have_the_table_of_the_paper(scores, mini, make_scores, tmp_path):
    other = make_scores(mini, tmp_path / "run", coreference="same-name")
    found = chapters([scores, ng.open(other)])
    assert found[1].title == "mini, pronoun"
    assert found[0].sections[-1].tables[0].title.startswith("Drop of ACT repetition by what the target is about")


def test_every_two_of_three_runs_are_tested_as_one_family(scores, other_scores, mini, make_scores, tmp_path):
    third = ng.open(make_scores(mini, tmp_path / "third", seed=2, max_verbs=2))
    section = chapters([scores, other_scores, third])[0].sections[-1]
    tables = [*section.tables, *(figure.table for figure in section.figures)]
    assert len(tables) == 3
    assert {n for table in tables for n in table.frame["tests"]} == {15}
    assert all("corrected for 15 tests" in " ".join(table.notes) for table in tables)
