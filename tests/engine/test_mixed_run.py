"""A mixed run is one run: whole, interrupted, in several processes or in shards, it gives the same bytes.

The low-precision model errs rarely (see `fake_models`). Some parts' audits find it, others' do not; the wider margin
that one audit asks for must reach every part, in whichever process and folder it was decided.
"""

import json
from contextlib import suppress

import polars as pl
import pytest
from fake_models import CALIBRATION, FakeScoring, FakeSelection
from negengine.engine.choices import Precision
from negengine.engine.errors import InputError
from negengine.engine.inference.device import CPU
from negengine.engine.negation.score import Scoring, read_selected
from negengine.engine.negation.select import Selection, Settings
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.merge import merge
from negengine.engine.runs.processes import Processes
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.record import read_run
from negengine.engine.runs.results import finished_stage
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import ModelOptions
from negengine.engine.sentences.lexicon import Lexicon, load_lexicon
from negengine.engine.sentences.patterns import load_patterns
from small_stages import InterruptedAfter

LEXICON = Lexicon(
    names=("Jessica", "Maria", "Anna", "Linda", "Susan", "John", "Peter", "Mark", "Paul", "David"),
    genders=("f",) * 5 + ("m",) * 5,
    professions=("a dancer", "an architect", "a doctor", "a baker", "an actor", "a teacher", "a pilot", "a nurse"),
    verbs=("smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt", "dig", "laugh", "agree", "cook"),
)
PUBLISHERS = {"select": Selection.publish, "score": Scoring.publish}


def execute(stage, folder, *, executor=None, shard=None, precision=Precision.MIXED, earlier=None):
    execution = Execution(
        executor or ThisProcess(CPU), ModelOptions(precision=precision), shard or Shard(), Reporter(silent=True)
    )
    run_stage(stage, folder, execution, earlier=earlier)
    return folder


def files(folder):
    """All files, the parts' too, but run.json, which tells times, and the lock."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in {"run.json", ".lock"}]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def selection(mini):
    return FakeSelection.plan(mini, LEXICON, load_patterns(), Settings(max_verbs=3), candidates_per_part=240)


@pytest.fixture(scope="module")
def selected(selection, tmp_path_factory):
    """A whole selection in mixed precision."""
    return execute(selection, tmp_path_factory.mktemp("selected") / "run")


@pytest.fixture(scope="module")
def scoring(mini, selected):
    return FakeScoring.plan(read_selected(selected), mini, triplets_per_part=40)


@pytest.fixture(scope="module")
def whole(scoring, selected, tmp_path_factory):
    """The whole scores of it, in a folder of their own."""
    return execute(scoring, tmp_path_factory.mktemp("scored") / "run", earlier={"select": selected})


@pytest.fixture(params=["select", "score"])
def case(request, selection, scoring, selected, whole):
    """A stage, the earlier stages that it needs, and its whole run."""
    return (selection, None, selected) if request.param == "select" else (scoring, {"select": selected}, whole)


def test_an_audit_has_widened_the_margin_of_parts_that_had_not_asked_for_it(case):
    stage, _, whole = case
    markers = [json.loads(path.read_text()) for path in sorted((whole / "parts" / stage.name).glob("*.json"))]
    pattern = "CpTp" if stage.name == "select" else next(p for m in markers for p, n in m["needed"].items() if n)
    asked = [marker["needed"][pattern] > 0 for marker in markers]
    assert any(asked)
    assert not all(asked)
    assert {marker["bounds"][pattern] for marker in markers} == {1.5 * 2.0}
    assert CALIBRATION.bound < 1.5 * 2.0


def test_decisions_are_those_of_fp32(case, tmp_path):
    stage, earlier, whole = case
    exact = execute(stage, tmp_path, precision=Precision.FP32, earlier=earlier)
    if stage.name == "select":
        assert (exact / "triplets.parquet").read_bytes() == (whole / "triplets.parquet").read_bytes()
    else:
        columns = ["triplet", "pattern", "repeated"]
        exact_scores, scores = (pl.read_parquet(folder / "scores.parquet") for folder in (exact, whole))
        asked = {pattern for pattern, choice in _widest(whole, stage.name).items() if choice > CALIBRATION.bound}
        ours, theirs = (frame.filter(pl.col("pattern").is_in(asked))[columns] for frame in (scores, exact_scores))
        assert len(ours)
        assert ours.equals(theirs)


def _widest(folder, stage):
    markers = [json.loads(path.read_text()) for path in (folder / "parts" / stage).glob("*.json")]
    return {pattern: max(marker["bounds"][pattern] for marker in markers) for pattern in markers[0]["bounds"]}


def test_interrupted_after_any_part_and_resumed(case, tmp_path):
    """Also between the parts that are decided again."""
    stage, earlier, whole = case
    for parts in range(2 * len(stage.parts)):
        folder = tmp_path / str(parts)
        with pytest.raises(KeyboardInterrupt):
            execute(stage, folder, executor=InterruptedAfter(parts), earlier=earlier)
        execute(stage, folder, earlier=earlier)
        assert files(folder) == files(whole), f"after {parts} parts"


def test_in_two_processes(case, tmp_path):
    stage, earlier, whole = case
    assert files(execute(stage, tmp_path / "run", executor=Processes((CPU, CPU)), earlier=earlier)) == files(whole)


def test_with_a_damaged_part(case, tmp_path):
    """It is decided as at first, and again with the wider margin."""
    stage, earlier, whole = case
    folder = execute(stage, tmp_path / "run", earlier=earlier)
    for path in sorted((folder / "parts" / stage.name).glob("*.parquet"))[:2]:
        path.write_bytes(b"")
    for name in finished_stage(folder, stage.name).files:
        (folder / name).unlink()
    execute(stage, folder, earlier=earlier)
    assert files(folder) == files(whole)


def test_in_shards_that_are_interrupted_resumed_and_merged(case, tmp_path):
    """One shard's audit finds nothing: its parts are decided again after the merge, by the command that is told."""
    stage, earlier, whole = case
    shards = [Shard(index, 3) for index in (1, 2, 3)]
    for shard in shards:
        with suppress(KeyboardInterrupt):  # a shard with one part ends before
            execute(stage, tmp_path / shard.suffix, executor=InterruptedAfter(1), shard=shard, earlier=earlier)
        execute(stage, tmp_path / shard.suffix, shard=shard, earlier=earlier)
    with pytest.raises(
        InputError, match=r"must be decided again with a wider margin; to do it: run the command of a shard"
    ):
        merge([tmp_path / shard.suffix for shard in shards], tmp_path / "merged", PUBLISHERS)
    execute(stage, tmp_path / "merged", earlier=earlier)  # what the line says
    assert files(tmp_path / "merged") == files(whole)


def test_in_more_shards_than_parts(mini, tmp_path):
    """Most of them have nothing to do, and nothing to calibrate."""
    stage = FakeSelection.plan(mini, LEXICON, load_patterns(), Settings(pairs=2), candidates_per_part=12)
    whole = execute(stage, tmp_path / "whole")
    folders = [execute(stage, tmp_path / str(i), shard=Shard(i, 5)) for i in range(1, 6)]
    merge(folders[::-1], tmp_path / "merged", PUBLISHERS)
    assert files(tmp_path / "merged") == files(whole)
    assert read_run(tmp_path / "merged").stages["select"].calibration == read_run(whole).stages["select"].calibration


def test_the_bundled_model_gives_the_triplets_and_rates_of_fp32_byte_for_byte(mini, tmp_path):
    results = {}
    lexicon = Lexicon(("Maria",), ("f",), ("a dancer",), load_lexicon().verbs[:250])
    for precision in (Precision.FP32, Precision.MIXED):
        folder = tmp_path / precision
        plan = Selection.plan(mini, lexicon, load_patterns())
        execute(plan, folder, precision=precision)
        execute(Scoring.plan(read_selected(folder), mini), folder, precision=precision)
        results[precision] = [(folder / name).read_bytes() for name in ("triplets.parquet", "rates.parquet")]
        summary = json.loads((folder / "selection.json").read_text())
        assert summary["precision"]["kind"] == precision
        assert read_run(folder).stages["score"].sessions[0].precision == precision
    assert results[Precision.FP32] == results[Precision.MIXED]
    assert 0 < summary["precision"]["close_calls"] < 0.5
    assert summary["precision"]["audited"] > 100
