"""Choosing sentences of a run, and showing some of them."""

import negengine as ng
import polars as pl
import pytest
from negengine.engine.choices import output_formats
from negengine.engine.errors import InputError
from negengine.engine.results.report.chosen_sentences import OPTIONS, Examples, Filter, chosen


@pytest.fixture(scope="module")
def run(scored_run):
    return ng.open(scored_run)


@pytest.fixture(scope="module")
def sentences(run):
    return run.sentences()


def by(option, *values):
    return Filter(option, OPTIONS[option], values)


def test_without_a_filter_all_sentences_are_chosen(run, sentences):
    assert chosen(run).collect().equals(sentences)


@pytest.mark.parametrize(
    ("filters", "failed", "kept"),
    [
        ([by("--pattern", "CpTn")], False, pl.col("condition") == "CpTn"),
        ([by("--pattern", "CpTn", "CnTn")], False, pl.col("condition").is_in(["CpTn", "CnTn"])),
        (
            [by("--name", "Maria"), by("--pattern", "CnTp")],
            False,
            (pl.col("name") == "Maria") & (pl.col("condition") == "CnTp"),
        ),
        ([], True, pl.col("failed")),
        ([Filter.parse("rank=1")], False, pl.col("rank") == 1),
        ([Filter.parse("repeated=false")], False, ~pl.col("repeated")),
        ([Filter.parse("profession=a dancer")], False, pl.col("profession") == "a dancer"),
    ],
)
def test_sentences_are_chosen_by_their_columns(run, sentences, filters, failed, kept):
    found = chosen(run, filters, failed=failed).collect()
    assert found.equals(sentences.filter(kept))
    assert 0 < len(found) < len(sentences)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (by("--pattern", "CpTQ"), "--pattern CpTQ: .* does not have it: did you mean 'CpT.'"),
        (by("--name", "Mariah"), "did you mean 'Maria'"),
        (by("--profession", "dancer"), "did you mean 'a dancer'"),
        (Filter.parse("gendr=f"), "no such column: did you mean 'gender'"),
        (Filter.parse("colour=red"), "no such column: Its columns are item, condition"),
        (Filter.parse("failed=yes"), "give true or false"),
        (Filter.parse("rank=first"), "give a number"),
    ],
)
def test_what_a_run_does_not_have_is_refused_with_what_is_near(run, wanted, message):
    with pytest.raises(InputError, match=message):
        chosen(run, [wanted])


@pytest.mark.parametrize("text", ["gender", "=f"])
def test_a_filter_needs_a_column_and_a_value(text):
    with pytest.raises(InputError, match="give COLUMN=VALUE"):
        Filter.parse(text)


def test_a_table_has_the_sentences_within_80_columns(run):
    found = Examples.draw(run, chosen(run), 6, 0)
    text = found.render()
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert "expected (rank)" in text
    assert f"6 of {len(run.items):,} sentences, drawn at random with --seed 0" in text


def test_a_condition_of_all_sentences_stands_in_the_title(run):
    found = Examples.draw(run, chosen(run, [by("--pattern", "CnTn")], failed=True), 3, 0, failed=True)
    [table] = found.tables()
    assert table.title.endswith("condition CnTn, failed")
    assert [column.heading for column in table.columns] == ["sentence", "answer", "expected (rank)"]


def test_no_sentence_is_told(run):
    found = Examples.draw(run, chosen(run, [by("--pattern", "CpTp")], failed=True), 3, 0)
    assert found.tables() == []
    assert found.remarks() == ["no sentence of this run has all that is asked for"]


def test_every_format_has_the_sentences(run):
    found = Examples.draw(run, chosen(run), 2, 0)
    first = found.rows["answer"][0]
    assert all(first in found.render(form) for form in output_formats())
