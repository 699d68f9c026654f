"""What the model answered in the selecting pattern: the selection keeps it, so that the scoring need not ask again.

answers.parquet has one row for each row of triplets.parquet: top1 (text), expected_rank, expected_logprob, top1_logprob
(natural logarithms), precision (of the graph that gave the row's numbers). The verb is repeated in all of them. In the
parts of a selection these columns stand beside the triplet's, with a mark before their names.

The numbers are those of the machine that selected. So the scoring takes them only if this machine finds the same: some
hundred triplets are decided again (`disagreement`). The last digits of a sentence can depend on its batch, so a few of
these rows may differ there, but not by more than a near-tie.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...errors import InputError
from ...inference.exported import PRECISIONS, REFERENCE
from ...inference.model import Decider, Decisions
from ...runs.part_rows import FURTHER
from ...runs.record import StageRecord
from ...runs.results import read_frame
from ...text.spans import Bucket, small_buckets
from ...text.tokenizer import MaskTokenizer

ANSWERS_FILE = "answers.parquet"
SAMPLE = 512
"""How many triplets are decided again before a scoring takes the answers of the selection."""

_MARK = FURTHER  # no slot of a pattern has such a name
_SCHEMA = {
    "top1": pl.String,
    "expected_rank": pl.Int32,
    "expected_logprob": pl.Float32,
    "top1_logprob": pl.Float32,
    "precision": pl.String,
}
_OTHER_DIGITS = 0.05  # of the sample; on another kind of processor nearly all rows have other last digits


def decide_all(
    decider: Decider, buckets: Iterable[Bucket], expected: NDArray[np.int32], advance: Callable[[int], None]
) -> Decisions:
    """The decisions about sentences of several lengths, in the order of their rows.

    Args:
        decider: Decides.
        buckets: The sentences.
        expected: int32 [n] or [n, k], the accepted tokens of each row.
        advance: Called with numbers of sentences.
    """
    decisions = Decisions.empty(len(expected))
    for bucket in small_buckets(buckets):
        own = expected[bucket.rows]
        decisions.put(bucket.rows, decider.decide(bucket.ids, bucket.mask_position, own, advance))
    return decisions


def columns_of(decisions: Decisions, tokenizer: MaskTokenizer) -> dict[str, pl.Series]:
    """Decisions as columns of a result, with the types of answers.parquet."""
    ids, where = np.unique(decisions.top1, return_inverse=True)
    texts = pl.Series([tokenizer.token_text(int(i)) for i in ids], dtype=pl.String)
    values: dict[str, Any] = {
        "top1": texts.gather(where),
        "expected_rank": decisions.expected_rank,
        "expected_logprob": decisions.expected_logprob,
        "top1_logprob": decisions.top1_logprob,
        "precision": pl.Series(PRECISIONS, dtype=pl.String).gather(decisions.precision),
    }
    return {name: pl.Series(name, value, dtype=_SCHEMA[name]) for name, value in values.items()}


def marked(columns: Mapping[str, pl.Series]) -> list[pl.Series]:
    """The columns as they stand in a part, beside those of the triplets."""
    return [values.alias(f"{_MARK}{name}") for name, values in columns.items()]


def rejoined(files: Mapping[str, pl.LazyFrame], triplets: str) -> pl.LazyFrame:
    """The inverse of `divided`: the rows of a selection's parts from its final files.

    Args:
        files: The files that have rows → their content. Those of answers.parquet belong to the rows of `triplets`.
        triplets: The file with the triplets that have answers.
    """
    rows = dict(files)
    if (answers := rows.pop(ANSWERS_FILE, None)) is not None:
        marks = answers.drop("triplet").select(pl.all().name.prefix(_MARK))
        rows[triplets] = pl.concat([rows[triplets], marks], how="horizontal", strict=True)
    return pl.concat(rows.values(), how="diagonal")


def divided(rows: pl.LazyFrame) -> tuple[pl.LazyFrame, pl.LazyFrame | None]:
    """The rows of a selection's parts as triplets and answers; None where an earlier version has kept no answers."""
    marks = [name for name in rows.collect_schema().names() if name.startswith(_MARK)]
    if not marks:
        return rows, None
    answers = rows.select(pl.col(name).alias(name.removeprefix(_MARK)) for name in marks)
    return rows.drop(marks), answers


def kept_answers(folder: Path, stage: StageRecord, triplets: int) -> pl.DataFrame | None:
    """The answers of a finished selection; None where they were not kept, or not for all triplets.

    Args:
        folder: The run folder.
        stage: The record of the selection.
        triplets: How many triplets it has.

    Raises:
        InputError: The file is not as the selection wrote it.
    """
    if ANSWERS_FILE not in stage.files:
        return None
    frame = read_frame(folder, stage, ANSWERS_FILE)
    if dict(frame.schema) != {"triplet": pl.Int64(), **{name: kind() for name, kind in _SCHEMA.items()}}:
        raise InputError(f"{folder / ANSWERS_FILE}: not as negengine writes it; run the selection again elsewhere")
    if len(frame) != triplets or not frame["precision"].is_in(PRECISIONS).all() or frame["precision"].null_count():
        return None
    return frame.drop("triplet").with_columns(pl.col("top1", "precision").cast(pl.Categorical))  # few different texts


def is_exact(answers: pl.DataFrame) -> bool:
    """Whether the reference model gave all numbers."""
    return bool((answers["precision"].cast(pl.String) == REFERENCE).all())


def disagreement(
    answers: pl.DataFrame,
    decisions: Decisions,
    expected: NDArray[np.int32],
    tokenizer: MaskTokenizer,
    near_tie: float,
) -> str:
    """Why answers are not those of the reference model on this machine, in one clause; empty if they are.

    Where the low-precision model gave the numbers, only that the verb is repeated is compared.

    Args:
        answers: Of some triplets.
        decisions: Of the reference model, about the same triplets.
        expected: int32 [n] or [n, k], the accepted tokens.
        tokenizer: The model's.
        near_tie: Logits; a decision this close can differ between two ways to compute the same model in fp32.
    """
    now = pl.DataFrame(columns_of(decisions, tokenizer))
    exact = (answers["precision"].cast(pl.String) == REFERENCE).to_numpy()
    close = np.abs(decisions.margin(expected)) < near_tie
    if not (decisions.repeated(expected) | close).all():
        return "this machine decides otherwise about a verb"
    same_choice = (answers["top1"].cast(pl.String) == now["top1"]).to_numpy()
    same_rank = (answers["expected_rank"] == now["expected_rank"]).to_numpy()
    if not ((same_choice & same_rank) | close)[exact].all():
        return "this machine finds other ranks"
    kept, found = (own.select("expected_logprob", "top1_logprob").to_numpy()[exact] for own in (answers, now))
    if not (np.abs(kept - found) < near_tie).all():
        return "this machine finds other log-probabilities"
    other = (kept != found).any(axis=1)
    return "this machine finds other last digits" if len(other) and other.mean() > _OTHER_DIGITS else ""
