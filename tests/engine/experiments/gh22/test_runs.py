"""`ng.gh22`, and what compare is told of its runs."""

from dataclasses import replace

import msgspec
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22.acts import Acts
from negengine.engine.experiments.gh22.gh22 import Gh22Run, gh22, run_both
from negengine.engine.experiments.gh22.repetitions import Repetitions
from negengine.engine.library.finished import open_run
from negengine.engine.library.run import ShardRun
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.report.citation import cite
from negengine.engine.results.report.reproduction import reproduce
from negengine.engine.runs.record import read_run
from negengine.engine.runs.session import Session

from .conftest import LEXICON, execution


@pytest.fixture(scope="module")
def library_run(mini, tmp_path_factory):
    output = tmp_path_factory.mktemp("run") / "gh22"
    return gh22(str(mini.folder), pairs=2, ranks=[1], variant="connective", output=output, progress=False)


def test_the_function_gives_frames_tables_and_a_document(library_run):
    assert library_run.acts["rank"].to_list() == [1, 1]
    assert set(library_run.items["condition"]) == {"connective"}
    assert [table.title.split(":")[0] for table in library_run.tables()] == ["GH22, connective"] * 2
    assert library_run.document() == {"run": str(library_run.folder), "summary": library_run.summary.to_dicts()}
    assert library_run.remarks() == []


def test_a_run_is_opened_again_from_its_folder(library_run):
    opened = open_run(library_run.folder)
    assert isinstance(opened, Gh22Run)
    assert str(opened) == str(library_run)


def test_what_made_the_run_is_recorded(library_run):
    stages = read_run(library_run.folder).stages
    assert list(stages) == ["acts", "gh22"]
    assert stages["gh22"].sessions[0].workers[0]["device"] == "cpu"
    assert stages["gh22"].sessions[0].precision == "fp32"


def test_a_shard_says_what_is_next(mini, tmp_path):
    run = gh22(str(mini.folder), pairs=2, ranks=[1], variant="original", shard="1/2", output=tmp_path, progress=False)
    assert isinstance(run, ShardRun)
    assert "merge" in run.remarks()[0]


@pytest.mark.parametrize(
    ("stage", "function", "call", "state"),
    [
        (Acts, "decide", 2, "acts is not finished"),
        (Repetitions, "check", 1, "acts is finished, but the run is not"),
        (Repetitions, "decide", 2, "gh22 is not finished"),
    ],
)
def test_a_run_that_was_stopped_says_how_to_go_on(stage, function, call, state, acts, original, tmp_path, interrupt):
    interrupt(stage, function, call)
    work = replace(execution(), session=Session(command="negengine gh22 mini"))
    with pytest.raises(KeyboardInterrupt):
        run_both(acts, original, tmp_path / "run", work, acts_per_part=5)
    with pytest.raises(InputError, match=f"{state}; to resume it: negengine gh22 mini"):
        open_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranks": [0]}, "--ranks 0: give a number from 1"),
        (
            {"variant": ["orignal"]},
            "--variant orignal: did you mean 'original'",
        ),
        ({"shard": "3/2"}, "--shard 3/2"),
    ],
)
def test_wrong_options_are_refused_before_the_model_is_looked_for(options, message):
    with pytest.raises(InputError, match=message):
        gh22("there is no such model", **options)


# ---------------------------------------------------------------- comparisons


def test_pairs_are_compared_by_their_words(in_parts, acts, original, tmp_path):
    """A lexicon with some of the words in another order: the same model differs from itself in nothing."""
    words = replace(LEXICON, names=("John", "Jessica"), genders=("m", "f"), professions=LEXICON.professions[::-1])
    other = Acts.plan(acts.exported, words, acts.pattern, ranks=acts.ranks)
    run_both(other, original, tmp_path / "run", execution())
    found = compare(in_parts, tmp_path / "run").frame
    assert set(found["n"]) == {4}
    assert set(found["difference"]) == {0.0}
    assert len(found) == 8 * len(acts.ranks)


def test_runs_with_other_variants_are_compared_on_what_both_have(finished, in_parts):
    found = compare(finished, in_parts).frame
    assert set(found["condition"]) == {"original"}
    assert set(found["difference"]) == {0.0}


@pytest.mark.parametrize("key", ["sentence", "original patterns sha256"])
def test_runs_with_other_sentences_are_refused(in_parts, key, tmp_path):
    record = msgspec.structs.replace(in_parts.record, identity={**in_parts.record.identity, key: "another"})
    with pytest.raises(InputError, match=f"cannot be compared: {key} .*there another"):
        compare(in_parts, replace(in_parts, folder=tmp_path, record=record))


def test_the_methods_paragraph_has_its_numbers_and_papers(library_run):
    found = cite(library_run)
    assert "the test of Gubelmann and Handschuh, 2022 with 2 pairs" in found.methods[0]
    assert "at ranks 1. Variants: connective." in found.methods[0]
    assert "the negative pattern, connective, at rank 1" in found.methods[0]
    keys = [reference.key for reference in found.references]
    assert keys[1:3] == ["gubelmann-handschuh-2022-context", "kletz-etal-2023-self"]


def test_both_stages_are_made_again_by_one_call(library_run, tmp_path):
    again = reproduce(library_run.folder, tmp_path / "again", progress=False)
    assert again.is_same
    assert {found.file for found in again.differences} >= {"acts.parquet", "items.parquet"}
