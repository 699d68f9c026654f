"""A report: one file, in order, whole, and never in the place of another file."""

import shutil
import subprocess
import sys
from itertools import pairwise

import negengine as ng
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.results.report.single_sentences import WORST, examples, minimal_pairs
from negengine.engine.text.lexicon import Lexicon
from pages import read

LOADING = {"src", "srcset", "data", "action", "poster", "background", "xlink:href"}


def headings(page, level):
    return [element.words for element in read(page).all(f"h{level}")]


def test_the_answer_and_the_sections_stand_in_the_order_of_reading(page, scores):
    assert headings(page, 3) == [
        "What is asked, and what does the model answer?",
        "Does the model pass the test?",
        "How much does each pattern lower the repetition of the verb?",
        "What changes between two patterns of a minimal pair?",
        "What does the model say instead of the verb?",
        "How far does the verb fall?",
        "Which words drive the result?",
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


def test_the_example_is_one_item_with_what_the_model_says_and_how_often_it_is_right(scores):
    pairs = minimal_pairs(scores)
    assert pairs["item"].n_unique() == 1
    rows = scores.sentence_rows().collect()
    for row in pairs.iter_rows(named=True):
        own = rows.filter(item=row["item"], condition=row["condition"]).row(0, named=True)
        assert (row["sentence"], row["answer"], row["right"]) == (own["sentence"], own["answer"], not own["failed"])
        failed = rows.filter(condition=row["condition"])["failed"]
        assert (row["n"], row["share"]) == (len(failed), pytest.approx(100 * (1 - failed.mean())))


def test_a_pattern_is_always_one_hover_away_from_its_sentence(page, scores):
    example = minimal_pairs(scores).row(1, named=True)
    shorts = [own for own in read(page).all("abbr") if own.words == "CpTn"]
    assert len(shorts) > 10
    assert {own.attributes["title"].startswith(example["sentence"]) for own in shorts} == {True}
    drops, *_ = read(page).all("figure")
    labels = [text for text in drops.all("text") if text.text.startswith("CpTn")]
    assert all(example["sentence"] in label.all("title")[0].text for label in labels)
    assert labels


def test_nothing_is_loaded_links_lead_to_the_page_and_headings_leave_no_gap(page):
    root = read(page)
    elements = root.everything()
    assert not {element.name for element in elements} & {"link", "img", "iframe", "object", "embed", "base"}
    assert not {name for element in elements for name in element.attributes} & LOADING
    ids = [element.attributes["id"] for element in elements if "id" in element.attributes]
    links = [element.attributes["href"] for element in elements if "href" in element.attributes]
    links += [f"#{name}" for element in elements for name in element.attributes.get("aria-labelledby", "").split()]
    assert len(ids) == len(set(ids))
    assert {link for link in links if not link.startswith("data:text/csv;charset=utf-8,")} <= {
        f"#{name}" for name in ids
    }
    order = [int(element.name[1]) for element in elements if element.name in {"h1", "h2", "h3", "h4"}]
    assert order.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(order))
    (style,) = root.all("style")
    assert not any(word in style.text for word in ("url(", "@import"))
    (policy,) = [own.attributes["content"] for own in root.all("meta") if "http-equiv" in own.attributes]
    assert policy.startswith("default-src 'none';")


def test_figures_and_tables_say_what_they_show_and_every_row_is_there_without_the_script(page):
    root = read(page)
    figures = root.all("figure")
    assert len(figures) == 9
    for figure in figures:
        assert [own.attributes["class"] for own in figure.all("div")] == ["picture broad", "picture narrow"]
        for svg in figure.all("svg"):
            assert svg.attributes["role"] == "img"
            assert svg.all("title")[0].text
            assert svg.all("desc")[0].text
            assert {text.attributes["fill"] for text in svg.all("text")} == {"currentColor"}
        assert figure.all("figcaption")[0].words
    assert len([own for own in root.all("summary") if own.words == "The values as a table"]) == len(figures)
    for table in root.all("table"):
        assert table.all("caption")[0].words
        assert {cell.attributes["scope"] for cell in table.all("thead")[0].all("th")} == {"col"}
        assert {cell.attributes["scope"] for body in table.all("tbody") for cell in body.all("th")} <= {"row"}
    (listing,) = [own for own in root.all("div") if own.attributes.get("class") == "listing"]
    assert not listing.all("input")
    rows = [row for body in listing.all("tbody") for row in body.all("tr")]
    assert len(rows) > 50
    assert not any("hidden" in row.attributes for row in rows)


def test_words_of_a_lexicon_are_never_markup(mini, make_scores, tmp_path):
    lexicon = Lexicon(
        names=("<b>Jessica", "John"),
        genders=("f", "m"),
        professions=("a <script>alert(1)</script>", "a dancer &amp; 'cook\""),
        verbs=("smoke", "dance", "sing", "swim", "walk", "argue"),
    )
    text = ng.open(make_scores(mini, tmp_path / "run", lexicon)).report(tmp_path / "report.html").read_text("utf-8")
    root = read(text)
    assert len(root.all("script")) == 1
    assert "alert" not in root.all("script")[0].text
    assert root.all("b") == []
    assert "a &lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert any("<b>Jessica" in cell.words for cell in root.all("td"))


def test_the_worst_failures_are_the_most_probable_repetitions_and_the_least_probable_misses(scores):
    (section,) = examples(scores)
    shown = section.listing.frame.filter(pl.col("why") == "worst failure")
    rows = scores.sentence_rows().filter(pl.col("failed")).collect()
    for (condition,), own in rows.group_by("condition"):
        found = shown.filter(pl.col("condition") == condition)["logprob"].to_list()
        expected = own.sort("logprob", descending=own["repeated"][0])["logprob"].to_list()
        assert found == expected[: WORST // rows["condition"].n_unique()]


def test_a_report_replaces_a_report_and_no_other_file(scores, page, tmp_path):
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


def test_what_is_not_a_finished_run_is_refused(scores, selected_run, tmp_path):
    path, folder = tmp_path / "report.html", shutil.copytree(scores.folder, tmp_path / "run")
    (folder / "score.done.json").unlink()
    for given, said in {tmp_path: "is not a run folder", (): "no runs given", folder: "score is not finished"}.items():
        with pytest.raises(InputError, match=said):
            ng.report(given, path)
    assert not path.exists()
    assert "Selected triplets" in headings(ng.report(selected_run, path).read_text("utf-8"), 3)


CODE = """
import sys
if sys.argv[3]: sys.modules[sys.argv[3]] = None
import negengine as ng
try: ng.report(sys.argv[1], sys.argv[2])
except ng.InputError as error: print(error)
"""


@pytest.mark.everything
def test_a_missing_library_is_one_line_and_another_process_writes_the_same_bytes(scores, page, tmp_path):
    path = tmp_path / "report.html"
    for name in ("altair", "vl_convert", "jinja2", ""):
        assert not path.exists()
        command = [sys.executable, "-c", CODE, str(scores.folder), str(path), name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        said = f"a report or figure needs {name}: pip install 'negengine[report]'\n" if name else ""
        assert done.stdout == said
    assert path.read_text("utf-8") == page
