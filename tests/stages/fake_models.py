"""Select and score with models that are pure functions of a sentence: quick, and the same in every batch and process.

The low-precision model errs on about one sentence in 23: its margin has the wrong sign there, and is wide enough to be
trusted. The calibration here does not know of that, as a calibration that happens not to see an error would not.
"""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
from negengine.engine.basics.choices import Precision, VerbConvention
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.negation_runs import read_selected
from negengine.engine.experiments.negation.score import Scoring
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.inference.batches import ignored
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.mixed import Calibration
from negengine.engine.inference.model import Decider, Decisions
from negengine.engine.inference.precision import Models, choose_precisions
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.masked_stages import PatternDeciders
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import Lexicon
from negengine.engine.text.pattern_files import load_patterns

LEXICON = Lexicon(
    names=("Jessica", "Maria", "John", "Peter"),
    genders=("f", "f", "m", "m"),
    professions=("a dancer", "an architect", "a doctor"),
    verbs=("smoke", "dance", "sing", "swim", "walk", "argue", "sleep", "hunt", "dig", "laugh", "agree", "cook"),
)
SEVERAL = ("beware", "crackle", "rustle", "pant", "abdicate", "acetify", "alkalize", "ameliorate", "agglomerate")
BOTH_KINDS = replace(LEXICON, verbs=("smoke", "dance", "sing", *SEVERAL, "swim", "walk"))
CALIBRATION = Calibration(0.0, 0.1, 0.5, never=(), close=0.1, sentences=1_000, audit_share=0.1)


class HashDecider(Decider):
    """Repeats a verb where a hash of the sentence says so: a third of them, or none."""

    def __init__(self, *, low_precision=False, never=False):
        self.low_precision, self.never = low_precision, never
        self.precision = "int8" if low_precision else "fp32"

    def deciding(self, ids, mask_position, expected, advance=ignored):
        yield ()
        weights = np.arange(1, ids.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        bits = (ids.astype(np.uint64) * weights).sum(axis=1) >> np.uint64(20)
        repeats = (bits % np.uint64(3) == 0) & (not self.never)
        hard = (bits >> np.uint64(8)) % np.uint64(23) == 0
        margin = np.where(hard, 1.0, 10.0)
        if self.low_precision:
            repeats, margin = repeats ^ hard, np.where(hard, 2.0, 9.5)
        decisions = Decisions.empty(len(ids), self.precision)
        decisions.ids[:, 0] = np.where(repeats, expected, expected + 1)
        decisions.ids[:, 1] = np.where(repeats, 1, 2)
        columns = margin * repeats, np.where(repeats, 0, -margin), np.where(repeats, margin, -margin)
        decisions.logits[:, :3] = np.stack(columns, axis=1)
        decisions.logits[:, 3] = 11 + self.low_precision / 4
        advance(len(ids))
        return decisions


class _Fake:
    """Opens fake models, and calibrates without measuring.

    `auto` chooses as always, but that the calibration is the same one that does not know of the errors.
    """

    speed = 3.0  # how many times as fast as fp32 the low-precision model is on this processor
    never = False  # whether the model repeats nothing

    def open(self, options):
        low = None if options.precision is Precision.FP32 else partial(HashDecider, low_precision=True)
        return PatternDeciders(Models(HashDecider(never=self.never), low), options.precision)

    def describe(self, model):
        return {"device": "cpu"}

    def calibrate(self, model, say):
        workloads, chosen = self.workloads(), model.precision
        if chosen is Precision.AUTO:
            choices = choose_precisions(model.models, chosen, workloads, seed=0, say=say, speed_ratio=self.speed)
        else:
            choices = {workload.pattern: {"precision": str(chosen)} for workload in workloads}
        blind = CALIBRATION.to_json()
        return {name: own | (blind if own["precision"] == "mixed" else {}) for name, own in choices.items()}


class FakeSelection(_Fake, Selection):
    pass


class NeverSelection(_Fake, Selection):
    never = True


class FakeScoring(_Fake, Scoring):
    pass


def execute(stage, folder, *, executor=None, shard=None, earlier=None, precision=Precision.FP32, **options):
    opened = Opening(precision=precision, **options)
    execution = Execution(executor or ThisProcess(CPU), opened, shard or Shard(), Reporter(silent=True))
    run_stage(stage, folder, execution, earlier=earlier)
    return folder


_plans = {}  # a plan is a pure function of what is chosen; to prove its composer takes most of a small run's time


def select(mini, folder, *, kind=FakeSelection, lexicon=BOTH_KINDS, how=None, **settings):
    """Verbs of several tokens, at most three of a pair; `how` are arguments of `execute`."""
    chosen = Settings(**{"max_verbs": 3, "verbs": VerbConvention.SEVERAL_TOKENS, **settings})
    key = mini.folder, kind, chosen, lexicon.sha256
    if key not in _plans:
        parts = {"candidates_per_part": 12, "pairs_per_lazy_part": 3}
        _plans[key] = kind.plan(load_exported(mini.folder), lexicon, load_patterns(), chosen, **parts)
    return execute(_plans[key], folder, **(how or {}))


def plan_scores(mini, folder, kind=FakeScoring):
    return kind.plan(read_selected(folder), mini, triplets_per_part=7)


def score(plan, folder=None, **how):
    """Into the selection's folder by default."""
    source = plan.selected.folder
    return execute(plan, folder or source, earlier={"select": source}, **how)


def triplets(folder, name="triplets.parquet"):
    return pl.read_parquet(folder / name)


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}


def summary(folder):
    return json.loads((folder / "selection.json").read_text())
