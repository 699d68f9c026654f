"""A mixed run: its decisions are those of fp32. The low-precision model errs rarely (see `fake_models`).

That the wider margin that one audit asks for reaches every part, however a run is cut: tests/engine/runs/test_loop.py.
"""

import json
from dataclasses import replace
from functools import cache

import polars as pl
import pytest
from fake_models import CALIBRATION, FakeScoring, FakeSelection, execute
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.negation_runs import ScoresRun, read_selected
from negengine.engine.experiments.negation.negation_views import scored
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.runs.record import read_run
from negengine.engine.runs.results import finished_stage
from negengine.engine.text.lexicon import Lexicon, load_lexicon
from negengine.engine.text.pattern_files import load_patterns
from small_stages import InterruptedAfter

pytestmark = pytest.mark.long

LEXICON = Lexicon(
    names=("Jessica", "Maria", "Anna", "Linda", "Susan", "John", "Peter", "Mark", "Paul", "David"),
    genders=("f",) * 5 + ("m",) * 5,
    professions=("a dancer", "an architect", "a doctor", "a baker", "an actor", "a teacher", "a pilot", "a nurse"),
    verbs=("smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt", "dig", "laugh", "agree", "cook"),
)


@pytest.fixture(scope="module")
def cases(mini, tmp_path_factory):
    """A kind of work and a precision → the stage, the earlier stages that it needs, and its run, which is made once."""
    place = tmp_path_factory.mktemp("cases")

    @cache
    def make(kind, precision):
        """`auto` takes fp32 for fewer than 10,000 sentences, so it gets more verbs."""
        large, lazy, earlier = precision is Precision.AUTO, kind == "lazy", None
        if kind == "score":
            earlier = {"select": make("select", precision)[2]}
            selected, size = read_selected(earlier["select"]), 8_000 if large else 40
            stage = FakeScoring.plan(selected, mini, triplets_per_part=size)
        else:
            lexicon = replace(LEXICON, verbs=load_lexicon().verbs) if large else LEXICON
            settings = Settings(max_verbs=(150 if lazy else 763) if large else 3, lazy=lazy)
            sizes = {"candidates_per_part": 16_000 if large else 240, "pairs_per_lazy_part": 20}
            stage = FakeSelection.plan(mini, lexicon, load_patterns(), settings, **sizes)
        return stage, earlier, execute(stage, place / f"{kind} {precision}", precision=precision, earlier=earlier)

    return make


@pytest.mark.parametrize("precision", [Precision.MIXED, Precision.AUTO])
@pytest.mark.parametrize("kind", ["select", "lazy", "score"])
def test_decisions_are_those_of_fp32_and_each_row_says_which_model_gave_its_numbers(cases, kind, precision, tmp_path):
    """An audit has widened the margin of parts that had not asked for it."""
    stage, earlier, run = cases(kind, precision)
    markers = sorted((run / "parts" / stage.name).glob("*.json"))
    found = [json.loads(path.read_text()) for path in markers]
    pattern = "CpTp" if stage.name == "select" else next(p for m in found for p, n in m["needed"].items() if n)
    asked = [marker["needed"][pattern] > 0 for marker in found]
    assert any(asked)
    assert not (precision is Precision.MIXED and all(asked))  # the parts of `auto` are larger
    assert {marker["bounds"][pattern] for marker in found} == {1.5 * 2.0}
    assert finished_stage(run, stage.name).counts["disagreements"] > 0
    exact = execute(stage, tmp_path, earlier=earlier)
    if stage.name == "select":
        assert (exact / "triplets.parquet").read_bytes() == (run / "triplets.parquet").read_bytes()
        return
    wanted, scores = (pl.read_parquet(folder / "scores.parquet") for folder in (exact, run))
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
    counts = finished_stage(run, "score").counts
    assert is_exact.sum() == counts["close"] + counts["audited"]


def test_tables_and_reports_say_what_the_audit_found_and_whose_numbers_are_shown(cases):
    run = ScoresRun.open(cases("score", Precision.MIXED)[2])
    assert any("of the decisions were close calls" in note for table in run.tables() for note in table.notes)
    (said,) = next(own for own in scored(run) if own.title.startswith("What does the model say")).notes
    percent = 100 * (run.items["precision"] == "int8").mean()
    assert f"come from the low-precision model (int8) in {percent:.0f} % of" in said


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
