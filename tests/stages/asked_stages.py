"""Stages and runs of questions, from data that a test has made."""

from pathlib import Path

import polars as pl
from negengine.engine.experiments.lama.lama import Lama
from negengine.engine.requests.items import ITEMS_FILE, KEYS, SUMMARY_FILE
from negengine.engine.runs.record import StageRecord
from negengine.engine.runs.stage import FinishedParts, changed


def lama_stage(exported, facts, ranked=None, *, with_p159=False, requests_per_part=512):
    own = {"facts": facts, "requests_per_part": requests_per_part, **({"ranked": ranked} if ranked else {})}
    return changed(Lama(with_p159=with_p159), **own).stage(exported)


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
