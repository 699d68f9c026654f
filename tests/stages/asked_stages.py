"""Stages and runs of questions, from data that a test has made."""

from pathlib import Path

from negengine.engine.experiments.diagnostics.diagnostics import Diagnostics
from negengine.engine.experiments.lama.lama import Lama
from negengine.engine.runs.record import StageRecord
from negengine.engine.runs.stage import changed


def lama_stage(exported, facts, ranked=None, *, with_p159=False, facts_per_part=512, **attributes):
    experiment = changed(Lama(with_p159=with_p159), facts=facts, **({"ranked": ranked} if ranked else {}))
    return changed(experiment.stage(exported), size=facts_per_part, **attributes)


def diagnostics_stage(exported, rows, *, draws=3, seed=0, items_per_part=128):
    return changed(changed(Diagnostics(draws=draws, seed=seed), read=rows).stage(exported), size=items_per_part)


def asked_run(kind, summary, items=None, model="mini", **attributes):
    """A run with these results."""
    return changed(kind(Path(), StageRecord({"model": model}, 1)), summary=summary, items=items, **attributes)


def only(frame, **wanted):
    """The one row with these values."""
    [row] = frame.filter(**wanted).to_dicts()
    return row


def cell(summary, *key):
    """The one row of a data set, condition, split and metric."""
    return only(summary, **dict(zip(("dataset", "condition", "split", "metric"), key, strict=True)))
