"""Items of `nli`: the pairs with their labels, what `verify` counts and asks again, how a classifier was trained."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ...inference.exported import REFERENCE
from ...inference.free_text import log_softmax
from ...library.again import NEAR_TIE, ROUNDING, Compared, Logits, Reference, Verdict
from ...library.recount import LOGARITHM, Recount, holds, same_figures
from ..finished_run import item_once
from ..items import ALL, ORIGINAL
from ..published import CELL
from .nli_pairs import NEW, Label

TRAINER = "transformers' Trainer"
"""What trains; a reference has it as its data set."""
_NEEDED = {
    **dict.fromkeys(("model", "task"), str),
    **dict.fromkeys(("epochs", "batch_size", "max_length", "seed"), int),
    **dict.fromkeys(("learning_rate", "weight_decay"), float),
}
CHOSEN = "the epoch was chosen by its accuracy on dev, so this accuracy on dev is on average too high"
"""Said below an accuracy on dev where the training had `--patience`."""


def recounts(items: pl.DataFrame, summary: pl.DataFrame, head: Sequence[str]) -> Iterator[Recount]:
    """What must hold of the two files of a finished run; `head` are the labels of the classifier."""
    yield item_once(items)
    agree = pl.col("correct") == (pl.col("expected") == pl.col("answer"))
    yield holds("a pair is right where both labels are the same", items, agree)
    yield holds("labels are those of the classifier", items, pl.col("predicted").is_in(list(head)))
    for fine, coarse in (("predicted", "answer"), ("gold", "expected")):
        two_way = (pl.col(coarse) == str(Label.NOT_ENTAILMENT)) & (pl.col(fine) != str(Label.ENTAILMENT))
        yield holds(f"{coarse} follows from {fine}", items, (pl.col(coarse) == pl.col(fine)) | two_way)
    most_probable = pl.col("probability").is_between(1 / len(head) - LOGARITHM, 1 + LOGARITHM)
    yield holds("the label given is the most probable one", items, most_probable)
    yield _accuracies(items, summary)


def _accuracies(items: pl.DataFrame, summary: pl.DataFrame) -> Recount:
    splits = pl.concat(
        [
            items.with_columns(split=pl.lit(ALL)),
            items.filter(pl.col("condition") == NEW),
            items.filter((pl.col("condition") == ORIGINAL) & pl.col("negation")).with_columns(split=pl.lit("negation")),
        ]
    )
    accuracy = splits.group_by(CELL[:-1]).agg(value=pl.col("correct").mean(), n=pl.len().cast(pl.Int64))
    before = accuracy.filter((pl.col("condition") == ORIGINAL) & (pl.col("split") == ALL)).select(
        "dataset", before="value"
    )
    drops = accuracy.filter(pl.col("condition") == NEW).join(before, on="dataset")
    counted = pl.concat(
        [
            accuracy.with_columns(metric=pl.lit("accuracy")).select(*CELL, "value", "n"),
            drops.select(*CELL[:-1], metric=pl.lit("drop"), value=pl.col("before") - pl.col("value"), n="n"),
        ]
    )
    found = summary.filter(pl.col("metric").is_in(["accuracy", "drop"]))
    return same_figures("accuracies and drops of summary.parquet are those of the items", found, counted, CELL)


@dataclass(frozen=True, eq=False)
class Labelled:
    """A row of `sentence_rows`, the labels of the logits, and the largest number of tokens of a pair."""

    row: Mapping[str, Any]
    labels: Sequence[str]
    longest: int

    def again(self, reference: Reference) -> Compared:
        """A probability of low precision is not compared."""
        row = self.row
        name, is_exact = f"{row['item']} of {row['dataset']} {row['condition']}", row["precision"] == REFERENCE
        logits = reference.pair(row["premise"], row["hypothesis"], self.longest)
        return Compared(name, *self.compare(logits, row["probability"] if is_exact else None), is_exact)

    def compare(self, logits: Logits, probability: float | None) -> tuple[Verdict, str]:
        """The recorded label and its probability against the logits, float32 [labels]."""
        predicted = self.row["predicted"]
        own, best = self.labels.index(predicted), int(logits.argmax())
        if own != best:
            behind = float(logits[best] - logits[own])
            said = f"the label was {predicted}, but now {self.labels[best]} (margin {behind:.2g} logits)"
            return Verdict.NEAR_TIE if behind < NEAR_TIE else Verdict.WRONG, said
        now = float(np.exp(log_softmax(logits)[own]))
        if probability is not None and abs(now - probability) > ROUNDING:
            return Verdict.WRONG, f"probability {probability:.4f}, but now {now:.4f}"
        return Verdict.AGREES, ""


def training_told(training: Mapping[str, Any] | None) -> str:
    """How `negengine nli train` trained, as a sentence with a space after it; empty if export.json does not say it."""
    if not isinstance(training, Mapping) or not _NEEDED.items() <= {k: type(v) for k, v in training.items()}.items():
        return ""
    settings = (
        f"{training['epochs']} epochs, batches of {training['batch_size']}, learning rate "
        f"{training['learning_rate']:g}, weight decay {training['weight_decay']:g}, at most {training['max_length']} "
        f"tokens, seed {training['seed']}"
    )
    if type(training.get("patience")) is int:
        settings += f", the best epoch on dev with a patience of {training['patience']}"
    learned = f"{training['limit']:,} pairs of the" if type(training.get("limit")) is int else "the"
    hub, copy = training.get("hub"), ""
    if isinstance(hub, Mapping):
        copy = f" ({hub.get('repository')} on the hub, revision {hub.get('revision')})"
    fraction = training.get("negation")
    added = ""
    if isinstance(fraction, float):
        added = f", with {100 * fraction:.0f} % of the new pairs; the other new pairs are the test"
    return (
        f"We fine-tuned {training['model']} on {learned} original training split of {training['task']}{copy}{added} "
        f"({TRAINER}; {settings}). "
    )
