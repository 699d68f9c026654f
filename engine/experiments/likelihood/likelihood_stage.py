"""`negengine likelihood`: the log-probabilities of the tokens of a user's own sentences.

A part is a range of the table's rows. Each row is read where it lies, so that a file of any size can be scored. The
sentences of a part with the same number of tokens go through the model together.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.errors import InputError
from ...basics.printable import counted
from ...inference.causal import CausalLM
from ...inference.exported import ExportedModel
from ...inference.model import LanguageModel
from ...runs.masked_stages import ReferenceStage
from ...runs.record import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult, changed
from ...statistics import LIBRARIES
from ...text.table_rows import Rows
from ..items import ITEMS_FILE, SUMMARY_FILE, model_identity
from ..probe.probe_items import SKIPPED_FILE
from ..probe.probe_sentences import ROW, SKIPPED
from .likelihood_items import (
    FILE,
    LISTS,
    REASON,
    SIDE,
    TOKENS_FILE,
    WORDS_FILE,
    Faults,
    item_rows,
    item_schema,
    opened_lists,
    with_joined_verdicts,
    with_verdicts,
)
from .likelihood_scores import Encoder, Sentence, causal_logprobs, pseudo_logprobs
from .likelihood_summary import summarise
from .likelihood_tables import Columns, Method, Tables

ROWS_PER_PART = 2048
PSEUDO, LOG_LIKELIHOOD = "pseudo-log-likelihood", "log-likelihood"
COLUMNS, NAME, DETAILS = "columns", "dataset", "details"  # keys of the metadata


@dataclass(frozen=True, eq=False)
class Prepared:
    """A part that is ready for the model."""

    rows: Rows
    file: str | None  # what results call the table; None for a single one
    texts: Sequence[str]  # of pairs in one row the good one, then the bad one
    sentences: Sequence[Sentence]  # the same as tokens


@dataclass(frozen=True, eq=False)
class Likelihoods(ReferenceStage[Prepared]):
    """A run."""

    name: ClassVar[str] = "likelihood"
    rows_file: ClassVar[str | None] = ITEMS_FILE
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES

    exported: ExportedModel
    tables: Tables
    columns: Columns
    method: Method | None = Method.ORIGINAL  # None for a causal model
    windows: bool = False  # whether long sentences are read in windows
    per_token: bool = False
    per_word: bool = False
    skip_bad: bool = False

    @property
    def sizes(self) -> Sequence[int]:
        return [size * len(self.columns.texts) for size in self.tables.sizes]

    @property
    def identity(self) -> dict[str, Any]:
        return {
            **model_identity(self.exported),
            "data sha256": self.tables.sha256,
            **self.columns.to_json(),
            "scores": LOG_LIKELIHOOD if self.method is None else PSEUDO,
            "method": None if self.method is None else str(self.method),
            "windows": self.windows,
            "skip bad rows": self.skip_bad,
            "per token": self.per_token,
            "per word": self.per_word,
            "rows per part": self.tables.stimuli[0].parts[0].size,
        }

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            **model_metadata(self.exported),
            COLUMNS: self.columns.to_json(),
            NAME: self.tables.name,
            DETAILS: [name for name, wanted in ((TOKENS_FILE, self.per_token), (WORDS_FILE, self.per_word)) if wanted],
        }

    def files(self) -> Mapping[str, Path]:
        return {**super().files(), **self.tables.places()}

    def with_files(self, places: Mapping[str, Path]) -> Self:
        return changed(super().with_files(places), tables=self.tables.at(places))

    @cached_property
    def encoder(self) -> Encoder:
        return Encoder(self.exported.tokenizer, self.method is None)

    @cached_property
    def faults(self) -> Faults:
        return Faults(self.columns, self.encoder, None if self.windows else self.exported.max_length)

    def check(self, say: Callable[[str], None]) -> None:
        """All rows were checked when the tables were read."""
        rows, skipped = (sum(getattr(own, name) for own in self.tables.stimuli) for name in ("n", "skipped"))
        say(f"{counted(rows, 'row')}, skipped: {skipped:,}; {counted(len(self.tables.parts), 'part')}")

    def prepare(self, number: int) -> Prepared:
        """The sentences of a part as tokens; an `InputError` if one cannot be scored."""
        rows, file = self.tables.read(number, self.faults)
        texts = [text for row in rows.frame.select(self.columns.texts).iter_rows() for text in row]
        sentences = self.encoder.encode(texts)
        for place, sentence in enumerate(sentences):
            if not len(sentence.scored) or (not self.windows and len(sentence.ids) > self.exported.max_length):
                row, side = divmod(place, len(self.columns.texts))
                line = None if rows.lines is None else int(rows.lines[row])
                where = self.tables.location(number, int(rows.numbers[row]), line)
                raise InputError(f"{where}: {self.faults.of(texts[place], sentence, self.columns.texts[side])}")
        return Prepared(rows, file, texts, sentences)

    def decide(self, model: LanguageModel, number: int, prepared: Prepared | None, advance: Advance) -> PartResult:
        """One row for each sentence; then, with `skip_bad`, the rows that are skipped."""
        part = prepared or self.prepare(number)
        logprobs = self.logprobs(model, part.sentences, advance)
        skipped = part.rows.skipped.rename(dict(zip(("line", "reason", "content"), SKIPPED, strict=True)))
        advance(len(skipped) * len(self.columns.texts), 0)
        items = item_rows(part.rows, part.file, self.columns, part.texts, part.sentences, logprobs)
        if self.columns.good is not None:
            items = with_verdicts(items)
        if self.per_token or self.per_word:
            lists = opened_lists(self.encoder.tokenizer, part.texts, part.sentences, logprobs)
            items = items.with_columns(lists[name] for names in self._lists for name in names)
        schema = item_schema(self.tables.schema, self.columns, several=bool(self.tables.files))
        schema |= {name: dtype for names in self._lists for name, dtype in names.items()}
        if self.skip_bad:
            schema |= dict(zip(SKIPPED, (pl.Int64(), pl.String(), pl.String()), strict=True))
        named = [] if part.file is None else [pl.lit(part.file).alias(FILE)]
        rows = [pl.DataFrame(schema=schema), items, *([skipped.with_columns(named)] if self.skip_bad else [])]
        unknown = sum(int(np.isin(sentence.tokens, self._unknown).any()) for sentence in part.sentences)
        counts = {"sentences": len(part.texts), "with unknown tokens": unknown, "skipped": len(skipped)}
        return PartResult(pl.concat(rows, how="diagonal"), counts)

    def logprobs(self, model: LanguageModel, sentences: Sequence[Sentence], advance: Advance) -> NDArray[np.float32]:
        """The log-probabilities of all scored tokens; a sentence counts as done in proportion to its tokens."""
        total, tokens, said, lock = sum(len(sentence.scored) for sentence in sentences), 0, 0, Lock()

        def scored(count: int) -> None:
            nonlocal tokens, said
            with lock:
                tokens += count
                done = tokens * len(sentences) // total
                advance(done - said, count if self.method else done - said)
                said = done

        longest = self.exported.max_length
        if isinstance(model, CausalLM):
            return causal_logprobs(model, self.encoder, sentences, longest, scored)
        method = self.method or Method.ORIGINAL
        return pseudo_logprobs(model, self.encoder, sentences, method, longest, scored)

    @cached_property
    def _unknown(self) -> NDArray[np.int32]:
        token = self.encoder.tokenizer.unknown_id
        return np.array([] if token is None else [token], np.int32)

    @property
    def _lists(self) -> list[Mapping[str, pl.DataType]]:
        return [LISTS[name] for name, wanted in ((TOKENS_FILE, self.per_token), (WORDS_FILE, self.per_word)) if wanted]

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        columns, metadata = Columns.from_json(parts.metadata[COLUMNS]), parts.metadata
        names = parts.rows.collect_schema().names()
        rows, files = parts.rows, {}
        if REASON in names:
            good = pl.col(REASON).is_null()
            place = [name for name in (FILE, ROW) if name in names]
            own = dict(zip(SKIPPED, ("line", "reason", "content"), strict=True))
            files[SKIPPED_FILE] = rows.filter(~good).select(*place, *SKIPPED).rename(own)
            rows = rows.filter(good).drop(SKIPPED)
        elif (parts.folder / SKIPPED_FILE).exists():  # the rows come from items.parquet
            files[SKIPPED_FILE] = pl.scan_parquet(parts.folder / SKIPPED_FILE)
        for name in metadata[DETAILS]:
            files[name] = (
                _opened(rows, name) if set(LISTS[name]) <= set(names) else pl.scan_parquet(parts.folder / name)
            )
        lists = [column for own in LISTS.values() for column in own if column in names]
        items = rows.drop(lists)
        if columns.pair is not None:
            items = with_joined_verdicts(items, columns)
        return {ITEMS_FILE: items, SUMMARY_FILE: summarise(items, columns, metadata[NAME]), **files}


def _opened(rows: pl.LazyFrame, name: str) -> pl.LazyFrame:
    """tokens.parquet or words.parquet: a row for each token or word."""
    schema = rows.collect_schema().names()
    lists = list(LISTS[name])
    shown = {column: column.partition(": ")[2] for column in lists}
    opened = rows.select(*(own for own in (FILE, ROW, SIDE) if own in schema), *lists).explode(lists).rename(shown)
    return opened.with_columns(surprisal=-pl.col("logprob") / np.log(2))
