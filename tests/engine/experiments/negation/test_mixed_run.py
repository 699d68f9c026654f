"""A mixed run is one run: whole, interrupted or in several processes, it gives the same bytes.

The low-precision model errs rarely (see `fake_models`); the wider margin that one audit asks for must reach every part.
"""

import itertools
import json
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from fake_models import CALIBRATION, PUBLISHERS, FakeScoring, FakeSelection, execute, summary
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.negation_runs import ScoresRun, read_selected
from negengine.engine.experiments.negation.negation_views import scored
from negengine.engine.experiments.negation.score import Scoring
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.runs.merge import merge
from negengine.engine.runs.processes import Processes
from negengine.engine.runs.record import read_run
from negengine.engine.runs.results import finished_stage
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import Lexicon, load_lexicon
from negengine.engine.text.pattern_files import load_patterns
from small_stages import InterruptedAfter, results

pytestmark = pytest.mark.long

LEXICON = Lexicon(
    names=("Jessica", "Maria", "Anna", "Linda", "Susan", "John", "Peter", "Mark", "Paul", "David"),
    genders=("f",) * 5 + ("m",) * 5,
    professions=("a dancer", "an architect", "a doctor", "a baker", "an actor", "a teacher", "a pilot", "a nurse"),
    verbs=("smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt", "dig", "laugh", "agree", "cook"),
)


@dataclass(frozen=True, eq=False)
class Case:
    """A stage, what was asked for, the earlier stages that it needs, and its whole run."""

    stage: Any
    precision: Precision
    earlier: dict[str, Path] | None
    whole: Path

    def run(self, folder, **options):
        return execute(self.stage, folder, **{"precision": self.precision, "earlier": self.earlier, **options})


@pytest.fixture(scope="module")
def cases(mini, tmp_path_factory):
    """A kind of work and a precision → the stage and its whole run, which is made when it is first asked for."""
    place = tmp_path_factory.mktemp("cases")

    @cache
    def make(kind, precision):
        """`auto` takes fp32 for fewer than 10,000 sentences, so it gets more verbs."""
        large, lazy, earlier = precision is Precision.AUTO, kind == "lazy", None
        if kind == "score":
            earlier = {"select": make("select", precision).whole}
            selected, size = read_selected(earlier["select"]), 8_000 if large else 40
            stage = FakeScoring.plan(selected, mini, triplets_per_part=size)
        else:
            lexicon = replace(LEXICON, verbs=load_lexicon().verbs) if large else LEXICON
            settings = Settings(max_verbs=(150 if lazy else 763) if large else 3, lazy=lazy)
            sizes = {"candidates_per_part": 16_000 if large else 240, "pairs_per_lazy_part": 20}
            stage = FakeSelection.plan(mini, lexicon, load_patterns(), settings, **sizes)
        whole = execute(stage, place / f"{kind} {precision}", precision=precision, earlier=earlier)
        return Case(stage, precision, earlier, whole)

    return make


def each(which):
    return pytest.mark.parametrize("case", which, indirect=True, ids=" ".join)


@pytest.fixture
def case(request, cases):
    return cases(*request.param)


@each(itertools.product(("select", "lazy", "score"), (Precision.MIXED, Precision.AUTO)))
def test_decisions_are_those_of_fp32_and_each_row_says_which_model_gave_its_numbers(case, tmp_path):
    """An audit has widened the margin of parts that had not asked for it."""
    markers = sorted((case.whole / "parts" / case.stage.name).glob("*.json"))
    found = [json.loads(path.read_text()) for path in markers]
    pattern = "CpTp" if case.stage.name == "select" else next(p for m in found for p, n in m["needed"].items() if n)
    asked = [marker["needed"][pattern] > 0 for marker in found]
    assert any(asked)
    assert not (case.precision is Precision.MIXED and all(asked))  # the parts of `auto` are larger
    assert {marker["bounds"][pattern] for marker in found} == {1.5 * 2.0}
    assert finished_stage(case.whole, case.stage.name).counts["disagreements"] > 0
    exact = case.run(tmp_path, precision=Precision.FP32)
    if case.stage.name == "select":
        assert (exact / "triplets.parquet").read_bytes() == (case.whole / "triplets.parquet").read_bytes()
        return
    wanted, scores = (pl.read_parquet(folder / "scores.parquet") for folder in (exact, case.whole))
    assert set(wanted["precision"]) == {"fp32"}
    is_exact = scores["precision"] == "fp32"
    assert scores.filter(is_exact).equals(wanted.filter(is_exact))
    widest = {name: max(own["bounds"][name] for own in found) for name in found[0]["bounds"]}
    asked = pl.col("pattern").is_in([name for name, bound in widest.items() if bound > CALIBRATION.bound])
    decisions = [own.filter(asked)["triplet", "pattern", "repeated"] for own in (scores, wanted)]
    assert len(decisions[0])
    assert decisions[0].equals(decisions[1])
    assert set(scores["precision"]) == {"fp32", "int8"}
    assert ((scores["expected_logprob"] != wanted["expected_logprob"]) == ~is_exact).all()
    counts = finished_stage(case.whole, "score").counts
    assert is_exact.sum() == counts["close"] + counts["audited"]


def test_tables_and_reports_say_what_the_audit_found_and_whose_numbers_are_shown(cases):
    run = ScoresRun.open(cases("score", Precision.MIXED).whole)
    assert any("of the decisions were close calls" in note for table in run.tables() for note in table.notes)
    (said,) = next(own for own in scored(run) if own.title.startswith("What does the model say")).notes
    percent = 100 * (run.items["precision"] == "int8").mean()
    assert f"come from the low-precision model (int8) in {percent:.0f} % of" in said


# Each kind of work and each precision: the way that a run is cut does not depend on both together.
@each([("lazy", Precision.AUTO), ("score", Precision.MIXED)])
def test_interrupted_after_any_part_and_resumed(case, tmp_path):
    """Also between the parts that are decided again. The parts of `auto` are large: every third one is enough."""
    for parts in range(0, 2 * len(case.stage.sizes), 3 if case.precision is Precision.AUTO else 1):
        folder = tmp_path / str(parts)
        with pytest.raises(KeyboardInterrupt):
            case.run(folder, executor=InterruptedAfter(parts))
        case.run(folder)
        assert results(folder) == results(case.whole), f"after {parts} parts"


@each([("select", Precision.AUTO), ("score", Precision.AUTO)])
def test_shards_on_different_kinds_of_processors_are_merged_with_the_same_decisions(case, tmp_path, monkeypatch):
    folders = [case.run(tmp_path / "1", shard=Shard(1, 2))]
    monkeypatch.setattr(type(case.stage), "speed", 1.05)
    folders.append(case.run(tmp_path / "2", shard=Shard(2, 2)))
    said = []
    merge(folders, tmp_path / "merged", PUBLISHERS, said.append)
    assert said
    assert all("1/2 in mixed (int8); 2/2 in fp32. The decisions are exact in each." in line for line in said)
    exact = {"select": "triplets.parquet", "score": "rates.parquet"}[case.stage.name]
    assert (tmp_path / "merged" / exact).read_bytes() == (case.whole / exact).read_bytes()
    if case.stage.name == "score":
        scores, whole = (pl.read_parquet(folder / "scores.parquet") for folder in (tmp_path / "merged", case.whole))
        assert scores["repeated"].equals(whole["repeated"])
        of_second = scores["triplet"] // case.stage.triplets_per_part % 2 == 1
        assert set(scores.filter(of_second)["precision"]) == {"fp32"}
        assert scores.filter(~of_second).equals(whole.filter(~of_second))


@pytest.mark.everything
def test_the_bundled_model_gives_the_same_bytes_with_any_threads_and_in_processes(mini, tmp_path):
    lexicon = Lexicon(("Maria", "John"), ("f", "m"), ("a dancer", "a doctor"), load_lexicon().verbs[:40])
    selection = Selection.plan(mini, lexicon, load_patterns(), Settings(max_verbs=5), candidates_per_part=40)

    def run(folder, precision=Precision.MIXED, **how):
        execute(selection, folder, precision=precision, **how)
        scoring = Scoring.plan(read_selected(folder), mini, triplets_per_part=8)
        return execute(scoring, folder, precision=precision, earlier={"select": folder}, **how)

    mixed, exact = run(tmp_path / "mixed", threads=1), run(tmp_path / "exact", Precision.FP32, threads=1)
    assert results(run(tmp_path / "threads", threads=3)) == results(mixed)
    assert results(run(tmp_path / "processes", executor=Processes((CPU, CPU)))) == results(mixed)
    for name in ("triplets.parquet", "rates.parquet"):
        assert (mixed / name).read_bytes() == (exact / name).read_bytes()
    found = summary(mixed)["precision"]
    assert found["kind"] == Precision.MIXED
    assert found["close_calls"] < 0.5
    assert found["audited"] > 0


def test_a_run_goes_on_with_the_low_precision_model_that_it_was_started_with(mini, tmp_path):
    """A new export can have the same fp32 model and another int8 model, whose errors nobody has measured."""
    lexicon = Lexicon(("Maria",), ("f",), ("a dancer", "a doctor"), load_lexicon().verbs[:30])
    plan = Selection.plan(mini, lexicon, load_patterns(), candidates_per_part=15)
    with pytest.raises(KeyboardInterrupt):
        execute(plan, tmp_path, executor=InterruptedAfter(1), precision=Precision.MIXED)
    (choice,) = read_run(tmp_path).stages["select"].calibration.values()
    assert choice["low_precision_sha256"] == mini.low_precision_sha256("int8")
    files_now = {**mini.info["files"], "model.int8.onnx_data": "0" * 64}
    other = replace(mini, info={**mini.info, "files": files_now})
    assert other.low_precision_sha256("int8") != mini.low_precision_sha256("int8")
    assert other.low_precision_sha256("fp16") == mini.low_precision_sha256("fp16")
    with pytest.raises(InputError, match="this run was started with another int8 model than"):
        replace(plan, exported=other).use(plan.open(Opening(precision=Precision.MIXED)), {"CpTp": choice})
    execute(plan, tmp_path, precision=Precision.MIXED)
