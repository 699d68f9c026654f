"""A device that rounds otherwise gives the ranks of the reference model; an audit finds what a bound misses."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.choices import TargetMethod
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.items import ITEMS_FILE
from negengine.engine.inference import near_ties
from negengine.engine.inference.cpu import CPU, Cores, Cpu
from negengine.engine.runs import executors, masked_stages
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.record import read_run
from negengine.engine.runs.stage import changed

from .test_execution import lama, own_stimuli


class Rough(Cpu):
    """Its logits are wrong by 0.03 or so."""

    kind = "webgpu"
    reference = CPU

    def precision(self, graph):
        return self.kind

    def runner(self, graph, batch_tokens, at_a_time):
        return RoughCores(self.session(graph), 1)


class RoughCores(Cores):
    def run_one(self, outputs, feeds):
        (logits,) = super().run_one(outputs, feeds)
        return [logits + np.random.default_rng(feeds["input_ids"]).normal(0, 0.03, logits.shape).astype(np.float32)]


STAGES = {
    "lama": lama,
    "several targets": own_stimuli,
    "one target": lambda exported: changed(
        stage := own_stimuli(exported), columns=changed(stage.columns, targets=("target",))
    ),
    "whole words": lambda exported: changed(own_stimuli(exported), method=TargetMethod.WHOLE_WORD),
}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a stage; gives what its items are besides numbers, and its record."""
    for module in (masked_stages, executors):
        monkeypatch.setattr(module, "choose_device", {"cpu": CPU, "webgpu": Rough()}.get)

    def made(stage, name, device=None, precision="mixed"):
        execution = Execution(
            ThisProcess(device or Rough()), Opening(precision=precision), reporter=Reporter(silent=True)
        )
        run_stage(stage, tmp_path / name, execution)
        items = pl.read_parquet(tmp_path / name / ITEMS_FILE)
        return items.drop(pl.selectors.float()), read_run(tmp_path / name).stages[stage.name]

    return made


@pytest.mark.parametrize(
    "name",
    [
        first := next(iter(STAGES)),
        *(pytest.param(name, marks=pytest.mark.everything) for name in STAGES if name != first),
    ],
)
def test_near_ties_are_decided_by_the_reference_and_an_audit_corrects_the_others(name, run, mini, monkeypatch):
    stage, known = STAGES[name](mini), near_ties.NearTies.measured
    exact, _ = run(stage, "exact", CPU)
    for case, share, bound in (("bound", 0.0, None), ("audit", 1.0, 1e-6), ("neither", 0.0, 0.0)):

        def measured(self, *args, share=share, bound=bound):
            found = replace(known(self, *args), audit_share=share)
            return found if bound is None else replace(found, bound=bound)

        monkeypatch.setattr(near_ties.NearTies, "measured", measured)
        found, record = run(stage, case)
        assert found.equals(exact) == (case != "neither")
        assert (record.calibration[stage.name]["bound"] > 0.05) == (case == "bound")
        assert (record.counts["close"] > 0, record.counts["disagreements"] > 0) == (case != "neither", case == "audit")
    found, record = run(stage, "short", precision="auto")
    assert found.equals(exact)
    assert ([own.workers[0]["device"] for own in record.sessions], record.calibration) == (["cpu"], {})
