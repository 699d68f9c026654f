"""What a run would do: sentences, tokens, rows through the model, and about how long that takes here.

Nothing is written. The time is measured on sentences of the first part, the median one in length first, for a few
seconds; a model takes a time that grows with its tokens, so it is scaled by them.
"""

import time
from dataclasses import dataclass
from typing import Any

import polars as pl

from ...library.model import Model
from ...library.run import Shown
from ...tables import Column, Table
from .stage import Likelihoods, Prepared

_SECONDS = 2.0  # of measuring
_AT_ONCE = 64  # sentences


@dataclass(frozen=True, eq=False)
class Plan(Shown):
    """The size of a run.

    Attributes:
        frame: One row: sentences, tokens (scored ones), model_rows (sentences or masked copies that the model reads),
            model_tokens (their tokens), longest (tokens), skipped (rows), parts, seconds (about).
    """

    frame: pl.DataFrame

    def tables(self) -> list[Table]:
        """One table."""
        columns = [
            Column("sentences", "sentences"),
            Column("tokens to score", "tokens"),
            Column("rows through the model", "model_rows"),
            Column("longest", "longest"),
            Column("rows skipped", "skipped"),
            Column("parts", "parts"),
            Column("about, seconds", "seconds", significant=2),
        ]
        return [Table("What the run would do", self.frame, columns, notes=["measured for a moment on this machine"])]

    def document(self) -> dict[str, Any]:
        """One object."""
        return dict(self.frame.row(0, named=True))


def planned(stage: Likelihoods, model: Model) -> Plan:
    """Count what a run would do, and measure how fast this machine does it.

    Args:
        stage: The run.
        model: Its model; it is opened.
    """
    counts = {"sentences": 0, "tokens": 0, "model_rows": 0, "model_tokens": 0, "longest": 0}
    for number in range(len(stage.tables.parts)):
        for name, value in _counted(stage, stage.prepare(number)).items():
            counts[name] = max(counts[name], value) if name == "longest" else counts[name] + value
    skipped = sum(stimuli.skipped for stimuli in stage.tables.stimuli)
    seconds = counts["model_tokens"] * _seconds_a_token(stage, model)
    row = {**counts, "skipped": skipped, "parts": len(stage.tables.parts), "seconds": seconds}
    return Plan(pl.DataFrame([row]))


def _counted(stage: Likelihoods, part: Prepared) -> dict[str, int]:
    longest = stage.exported.max_length
    scored = [len(sentence.scored) for sentence in part.sentences]
    lengths = [min(len(sentence.ids), longest) for sentence in part.sentences]
    copies = scored if stage.method else [1] * len(scored)
    return {
        "sentences": len(scored),
        "tokens": sum(scored),
        "model_rows": sum(copies),
        "model_tokens": sum(n * length for n, length in zip(copies, lengths, strict=True)),
        "longest": max((len(sentence.ids) for sentence in part.sentences), default=0),
    }


def _seconds_a_token(stage: Likelihoods, model: Model) -> float:
    """Seconds for each token that the model reads."""
    opened = stage.open(model.options)
    part = next(own for own in map(stage.prepare, range(len(stage.tables.parts))) if own.sentences)
    order = sorted(range(len(part.sentences)), key=lambda i: len(part.sentences[i].ids))
    middle = len(order) // 2
    order = sorted(order[middle - _AT_ONCE // 2 if middle > _AT_ONCE // 2 else 0 :][:_AT_ONCE])
    some = Prepared(part.rows, part.file, [part.texts[i] for i in order], [part.sentences[i] for i in order])
    stage.logprobs(opened, some.sentences[:2], lambda *_: None)  # the first run of a graph takes longer
    began, tokens = time.perf_counter(), 0
    while True:
        stage.logprobs(opened, some.sentences, lambda *_: None)
        tokens += _counted(stage, some)["model_tokens"]
        if (spent := time.perf_counter() - began) > _SECONDS:
            return spent / tokens
