"""How exact the decisions of a run are: the precision of each pattern, and what the audit found."""

from typing import Any

import polars as pl

from ...choices import Precision
from ...inference.audit import audit_sentences, audit_summary
from ...library.run import Run
from ...runs.record import StageRecord, read_run
from ...views import Column, Section, Table

_COLUMNS = {
    "stage": pl.String,
    "pattern": pl.String,
    "precision": pl.String,
    "reason": pl.String,
    "bound": pl.Float64,
    "close": pl.Float64,
    "speedup": pl.Float64,
    "sentences": pl.Int64,
}


def precision(run: Run) -> list[Section]:
    """The section; none for a run whose precision is not a choice."""
    stages = {name: stage for name, stage in read_run(run.folder).stages.items() if stage.calibration}
    if not stages:
        return []
    rows = [
        {"stage": name, "pattern": pattern, **{key: choice.get(key) for key in list(_COLUMNS)[2:]}}
        for name, stage in stages.items()
        for pattern, choice in (stage.calibration or {}).items()
    ]
    frame = pl.DataFrame(rows, schema=_COLUMNS, strict=False)
    percent: dict[str, Any] = {"decimals": 1, "scale": 100, "unit": "%"}
    columns = [
        Column("stage", "stage"),
        Column("pattern", "pattern"),
        Column("precision", "precision"),
        Column("reason", "reason"),
        Column("bound", "bound", decimals=3, unit="logits"),
        Column("close calls", "close", **percent),
        Column("speed of fp32 ×", "speedup", decimals=2),
        Column("measured on", "sentences", unit="sentences"),
    ]
    known = [column for column in columns if column.value and frame[column.value].null_count() < len(frame)]
    table = Table("Precision of each pattern", frame, known)
    said = [sentence for name, stage in stages.items() for sentence in _audit(name, stage)]
    return [Section("How exact are the decisions?", said, tables=[table])]


def _audit(name: str, stage: StageRecord) -> list[str]:
    found = audit_summary(stage.counts)
    if found["kind"] == Precision.FP32:
        return [f"{name}: the reference model (fp32) made every decision."]
    return [f"{name}: {sentence}" for sentence in audit_sentences(found)]
