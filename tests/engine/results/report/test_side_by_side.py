"""Several runs in one report."""

import negengine as ng
import polars as pl
from negengine.engine.results.report.chapters import chapters
from negengine.engine.text.lexicon import Lexicon


def test_all_runs_stand_in_one_chapter_before_the_runs(scores, other_scores):
    together, *single = chapters([scores, other_scores])
    names = [f"{run.model_name} ({run.folder.name})" for run in (scores, other_scores)]
    assert [chapter.title for chapter in (together, *single)] == ["Side by side", *names]
    figures = {figure.name: figure for section in together.sections for figure in section.figures}
    plot = figures["all-drops"].plot
    for run, name in zip((scores, other_scores), names, strict=True):
        drops = dict(run.rates.filter(pl.col("pattern") != "CpTp").select("pattern", "drop").iter_rows())
        own = plot.data.filter(pl.col("model") == name).select(plot.y, plot.x)
        assert {pattern.partition(",")[0]: drop for pattern, drop in own.iter_rows()} == drops
    tables = [table for section in together.sections for table in section.tables]
    (printed,) = [table for table in tables if "drop" in table.title and table.title.startswith("Models in rows")]
    assert printed.columns[0].heading == "model"
    assert {column.heading.partition(",")[0] for column in printed.columns[1:]} == {"CpTn", "CnTp", "CnTn", "CpTv"}
    assert all(column.low and column.high for column in printed.columns[1:])
    assert len(printed.frame) == 2
    section = together.sections[-1]
    (shown,) = [*section.tables, *(figure.table for figure in section.figures)]
    assert section.title == "Paired differences"
    assert shown.frame["difference"].to_list() == ng.compare(scores, other_scores).frame["difference"].to_list()


def test_runs_without_a_common_item_have_charts_but_no_test(scores, mini, make_scores, tmp_path):
    words = Lexicon(("Anna",), ("f",), ("a judge", "a cook"), ("smoke", "dance", "sing", "swim", "walk", "argue"))
    found = chapters([scores, ng.open(make_scores(mini, tmp_path / "run", words))])
    assert found[0].sections[-1].sentences[-1].endswith("have no item in common.")
    assert found[0].sections[0].figures


def test_runs_that_differ_in_the_target_have_the_table_of_the_paper(scores, mini, make_scores, tmp_path):
    found = chapters([scores, ng.open(make_scores(mini, tmp_path / "run", coreference="same-name"))])
    assert found[1].title == "mini, pronoun"
    assert found[0].sections[-1].tables[0].title.startswith("Drop of ACT repetition by what the target is about")
