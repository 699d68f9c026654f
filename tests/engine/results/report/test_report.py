import json
import re
import shutil
import struct
from dataclasses import replace
from itertools import pairwise

import negengine as ng
import polars as pl
import pytest
from fake_models import LEXICON
from negengine.engine.basics.errors import InputError
from negengine.engine.results.report.chapters import chapters
from negengine.engine.results.report.single_sentences import WORST, examples, minimal_pairs
from pages import read

from .conftest import make

FIGURES = {"drops", "replacements", "ranks"}
LOADING = {"src", "srcset", "data", "action", "poster", "background", "xlink:href"}


def headings(page, level):
    return [element.words for element in read(page).all(f"h{level}")]


def test_sections_stand_in_the_order_of_reading_and_a_pattern_is_one_hover_away_from_its_sentence(page, scores):
    assert headings(page, 3) == [
        "What is asked, and what does the model answer?",
        "Does the model pass the test?",
        "How much does each pattern lower the repetition of the verb?",
        "What does the model say instead of the verb?",
        "How far does the verb fall?",
        "Do the patterns differ?",
        "What do single sentences look like?",
        "How exact are the decisions?",
        "What made this run?",
    ]
    question, table, answer = [
        own for own in read(page).all("main")[0].everything()
        if own.name == "table" or (own.name == "p" and "class" not in own.attributes)
    ][:3]  # fmt: skip
    assert "Does the model know that a negation" in question.words
    assert answer.words == scores.reading
    rows = [[cell.words for cell in row.children] for body in table.all("tbody") for row in body.all("tr")]
    assert [row[0] for row in rows] == ["CpTp", "CpTn", "CnTp", "CnTn", "CpTv"]
    assert ["other than" in row[2] for row in rows] == [False, True, True, False, False]
    sentence = minimal_pairs(scores).row(1, named=True)["sentence"]
    shorts = [own.attributes["title"] for own in read(page).all("abbr") if own.words == "CpTn"]
    assert len(shorts) > 10
    assert all(sentence in told for told in shorts)


def test_the_example_is_one_item_and_failures_are_the_worst_ones(scores, monkeypatch):
    pairs = minimal_pairs(scores)
    assert pairs["item"].n_unique() == 1
    rows = scores.sentence_rows().collect()
    for row in pairs.iter_rows(named=True):
        own = rows.filter(item=row["item"], condition=row["condition"]).row(0, named=True)
        right = None if own["failed"] is None else not own["failed"]
        assert (row["sentence"], row["answer"], row["right"]) == (own["sentence"], own["answer"], right)
        failed = rows.filter(condition=row["condition"])["failed"]
        share = failed.mean()
        assert (row["n"], row["share"]) == (len(failed), None if share is None else pytest.approx(1 - share))
    some = pl.when(pl.int_range(pl.len()) > 9).then("failed").alias("failed")  # others are not judged
    monkeypatch.setattr(type(scores), "sentence_rows", lambda _: rows.lazy().with_columns(some))
    for row in minimal_pairs.__wrapped__(scores).drop_nulls("share").iter_rows(named=True):
        failed = rows[10:].filter(condition=row["condition"])["failed"]
        assert (row["n"], row["share"]) == (len(failed), pytest.approx(1 - failed.mean()))
    monkeypatch.undo()
    # The worst failures are the most probable repetitions and the least probable misses.
    (section,) = examples(scores)
    shown, rows = section.listing.frame.filter(why="worst failure"), rows.filter("failed")
    for (condition,), own in rows.group_by("condition"):
        found = shown.filter(condition=condition)["logprob"].to_list()
        expected = own.sort("logprob", descending=own["repeated"][0])["logprob"].to_list()
        assert found == expected[: WORST // rows["condition"].n_unique()]


def test_a_page_loads_nothing_has_all_rows_without_the_script_and_says_what_figures_and_tables_show(page):
    root = read(page)
    elements = root.everything()
    assert not {element.name for element in elements} & {"link", "img", "iframe", "object", "embed", "base"}
    assert not {name for element in elements for name in element.attributes} & LOADING
    ids = [element.attributes["id"] for element in elements if "id" in element.attributes]
    links = [element.attributes["href"] for element in elements if "href" in element.attributes]
    links += [f"#{name}" for element in elements for name in element.attributes.get("aria-labelledby", "").split()]
    assert len(ids) == len(set(ids))
    assert {link for link in links if not link.startswith("data:text/csv;charset=utf-8,")} <= {f"#{own}" for own in ids}
    order = [int(element.name[1]) for element in elements if element.name in {"h1", "h2", "h3", "h4"}]
    assert order.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(order))
    (style,) = root.all("style")
    assert not any(word in style.text for word in ("url(", "@import"))
    (policy,) = [own.attributes["content"] for own in root.all("meta") if "http-equiv" in own.attributes]
    assert policy.startswith("default-src 'none';")
    figures = root.all("figure")
    assert len(figures) == len(FIGURES)
    for figure in figures:
        assert [own.attributes["class"] for own in figure.all("div")] == ["picture broad", "picture narrow"]
        for svg in figure.all("svg"):
            assert svg.attributes["role"] == "img"
            assert all(svg.all(name)[0].text for name in ("title", "desc"))
            assert {text.attributes["fill"] for text in svg.all("text")} == {"currentColor"}
        assert figure.all("figcaption")[0].words
    assert len([own for own in root.all("summary") if own.words == "The values as a table"]) == len(figures)
    for table in root.all("table"):
        assert table.all("caption")[0].words
        assert {cell.attributes["scope"] for cell in table.all("thead")[0].all("th")} == {"col"}
        assert {cell.attributes["scope"] for body in table.all("tbody") for cell in body.all("th")} <= {"row"}
    (listing,) = [own for own in root.all("div") if own.attributes.get("class") == "listing"]
    rows = [row for body in listing.all("tbody") for row in body.all("tr") if "hidden" not in row.attributes]
    assert (listing.all("input"), len(rows) > 50) == ([], True)


def test_words_of_a_lexicon_are_never_markup(mini, tmp_path):
    professions = ("a <script>alert(1)</script>", "a dancer &amp; 'cook\"")
    lexicon = replace(LEXICON, names=("<b>Jessica", "John"), genders=("f", "m"), professions=professions)
    text = make(mini, tmp_path / "run", lexicon).report(tmp_path / "report.html").read_text("utf-8")
    root = read(text)
    assert len(root.all("script")) == 1
    assert "alert" not in root.all("script")[0].text
    assert root.all("b") == []
    assert "a &lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert any("<b>Jessica" in cell.words for cell in root.all("td"))


def test_a_report_is_of_a_finished_run_and_replaces_no_other_file(scores, selected_run, page, tmp_path):
    path = tmp_path / "new" / "report.html"
    assert scores.report(path) == path
    assert path.read_text("utf-8") == page  # the same run gives the same bytes
    ng.report(scores, path)
    assert [found.name for found in path.parent.iterdir()] == ["report.html"]
    for content in (b"", b"my notes", b"<!DOCTYPE html>\n<html><title>mine</title></html>"):
        path.write_bytes(content)
        with pytest.raises(InputError, match="exists and is not a report of negengine"):
            ng.report(scores, path)
        assert path.read_bytes() == content
    with pytest.raises(InputError, match="is a folder; give the name of a file"):
        ng.report(scores, tmp_path)
    path, folder = tmp_path / "report.html", shutil.copytree(scores.folder, tmp_path / "run")
    (folder / "score.done.json").unlink()
    for given, said in {tmp_path: "is not a run folder", (): "no runs given", folder: "score is not finished"}.items():
        with pytest.raises(InputError, match=said):
            ng.report(given, path)
    assert not path.exists()
    assert "Selected triplets" in headings(ng.report(selected_run, path).read_text("utf-8"), 3)


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
    (printed,) = [table for table in tables if table.title == "Models: drop of the repetition rate"]
    assert printed.columns[0].heading == "model"
    assert {column.heading.partition(",")[0] for column in printed.columns[1:]} == {"CpTn", "CnTp", "CnTn", "CpTv"}
    assert all(column.low and column.high for column in printed.columns[1:])
    assert len(printed.frame) == 2
    section = together.sections[-1]
    (shown,) = [figure.table for figure in section.figures]
    assert section.title == "Paired differences"
    assert shown.frame["difference"].to_list() == ng.compare(scores, other_scores).frame["difference"].to_list()


def test_runs_without_a_common_item_have_no_test_and_other_targets_the_table_of_the_paper(scores, mini, tmp_path):
    words = replace(LEXICON, names=("Anna",), genders=("f",), professions=("a judge", "a cook"))
    found = chapters([scores, make(mini, tmp_path / "words", words)])
    assert found[0].sections[-1].sentences[-1].endswith("have no item in common.")
    assert found[0].sections[0].figures
    found = chapters([scores, make(mini, tmp_path / "target", coreference="same-name")])
    assert found[1].title == "mini, pronoun"
    assert found[0].sections[-1].tables[0].title.startswith("Drop of verb repetition by what the target is about")


def test_figures_are_written_in_every_form_with_the_numbers_of_the_run_in_the_place_of_no_other_file(
    scores, other_scores, tmp_path
):
    folder = tmp_path / "figures"
    paths = ng.figures(scores, folder)
    wanted = {f"{stem}.{end}" for stem in FIGURES for end in ("svg", "pdf", "png", "csv")}
    assert {path.name for path in paths if path.stat().st_size} == wanted
    assert {path.name for path in folder.iterdir()} == wanted | {"figures.json"}
    drops = pl.read_csv(folder / "drops.csv")
    columns = ("pattern", "n", "repetitions", "repetition_rate", "drop", "drop_low", "drop_high")
    for row, found in zip(scores.rates.to_dicts(), drops.to_dicts(), strict=True):
        assert {key: found[key] for key in columns} == pytest.approx({key: row[key] for key in columns})
    ranks = pl.read_csv(folder / "ranks.csv").filter(pl.col("rank") == "1")
    assert ranks.select("pattern", repetitions="n").rows() == scores.rates.select("pattern", "repetitions").rows()
    # They fit a column or a page, and are readable in print.
    for name, millimetres in {"drops": 77, "ranks": 77, "replacements": 160}.items():
        svg = (folder / f"{name}.svg").read_text("utf-8")
        width, pixels = (float(re.search(key, svg)[1]) for key in (r'width="([\d.]+)mm"', r'viewBox="\S+ 0 ([\d.]+)'))
        assert 0.6 * millimetres < width <= millimetres
        box = re.search(rb"MediaBox \[0 0 ([\d.]+)", (folder / f"{name}.pdf").read_bytes())
        assert float(box[1]) == pytest.approx(width / 25.4 * 72, abs=1)
        png = (folder / f"{name}.png").read_bytes()
        assert struct.unpack(">I", png[16:20])[0] == pytest.approx(width / 25.4 * 300, abs=5)
        sizes = [float(size) * width / 25.4 * 72 / pixels for size in re.findall(r'font-size="([\d.]+)px"', svg)]
        assert min(sizes) >= 5.5, name
    # A call replaces its own files and no others.
    before = (folder / "drops.svg").read_bytes()
    assert ng.figures(scores, folder) == paths
    assert (folder / "drops.svg").read_bytes() == before
    (tmp_path / "drops.pdf").write_bytes(b"mine")
    with pytest.raises(InputError, match=r"drops.pdf exists and was not written by"):
        ng.figures(scores, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"drops.pdf", "figures"}
    for content in ("", "[1]", '{"figures": 3}', '{"files": []}'):
        (tmp_path / "figures.json").write_text(content)
        with pytest.raises(InputError, match=r"figures\.json: not as negengine writes it"):
            ng.figures(scores, tmp_path)
    with pytest.raises(InputError, match="not a folder"):
        ng.figures(scores, tmp_path / "figures.json")
    names = [path.name for path in ng.figures([scores, other_scores], tmp_path / "both")]
    assert len(names) == len(set(names))
    assert "all-drops.pdf" in names
    assert json.loads((tmp_path / "both" / "figures.json").read_text())["figures"] == sorted(names)
