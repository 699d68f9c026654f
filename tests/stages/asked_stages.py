"""Stages and runs of questions, from data that a test has made."""

from pathlib import Path

import numpy as np
import polars as pl
from negengine.engine.experiments.diagnostics.diagnostics import Diagnostics
from negengine.engine.experiments.lama.lama import Lama
from negengine.engine.requests.items import ITEMS_FILE, KEYS, SUMMARY_FILE
from negengine.engine.runs.record import StageRecord
from negengine.engine.runs.stage import FinishedParts, changed


def lama_stage(exported, facts, ranked=None, *, with_p159=False, requests_per_part=512):
    own = {"facts": facts, "requests_per_part": requests_per_part, **({"ranked": ranked} if ranked else {})}
    return changed(Lama(with_p159=with_p159), **own).stage(exported)


def diagnostics_stage(exported, rows, *, draws=3, seed=0):
    return changed(Diagnostics(draws=draws, seed=seed), read=rows).stage(exported)


def published(experiment, rows, told=None):
    """Items and summary that an experiment publishes of requests and answers; keys that are not given are null."""
    whole = rows.with_columns(pl.lit(None, kind).alias(name) for name, kind in KEYS.items() if name not in rows.columns)
    files = experiment.publish(FinishedParts(Path(), whole.lazy(), {}, told or {}))
    return files[ITEMS_FILE].lazy().collect(), files[SUMMARY_FILE]


def asked_run(kind, summary, items=None, model="mini", **attributes):
    """A run with these results."""
    identity = {"model": model, "labels": ["entailment", "neutral", "contradiction"], "ranks": [1, 50]}
    return changed(
        kind(Path(), StageRecord(identity, 1)),
        summary=summary,
        items=items,
        **attributes,
    )


def only(frame, **wanted):
    """The one row with these values."""
    [row] = frame.filter(**wanted).to_dicts()
    return row


def cell(summary, *key):
    """The one row of a data set, condition, split and metric; differences have further keys."""
    single = summary.filter(pl.col("other_split").is_null())
    return only(single, **dict(zip(("dataset", "condition", "split", "metric"), key, strict=True)))


def decided(stage, model):
    """What a stage publishes, items and summary; what it says is done is all that there is."""
    done, model.exported = [], stage.exported
    parts = [stage.decide(model, i, stage.prepare(i), lambda n, _: done.append(n)) for i in range(len(stage.sizes))]
    rows = pl.concat([part.rows for part in parts])
    files = stage.publish(FinishedParts(Path(), rows.lazy(), {}, stage.metadata))
    assert sum(done) == sum(stage.sizes)
    return files[ITEMS_FILE].lazy().collect(), files[SUMMARY_FILE]


class Given:
    """A model whose logits at the mask, float32 [V], are given for the token ids of a sentence."""

    def __init__(self, logits):
        self._logits = logits

    def divide_together(self, shapes):
        return [[slice(start, start + 2) for start in range(0, n, 2)] for n, _ in shapes]

    def reduce_logits(self, batches, reduce):
        yield ()
        for number, sentences in enumerate(batches):
            reduce(number, [np.stack([self._logits(tuple(row)) for row in ids.tolist()]) for ids, _ in sentences])
