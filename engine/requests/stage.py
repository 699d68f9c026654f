"""The stage of every experiment that is a frame of requests, and what a kind of requests is.

Parts of the frame are prepared, asked, and written. The rows of a part are its requests and their answers: so
`publish`, `merge` and `verify` need neither model nor data.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import msgspec
import numpy as np
import polars as pl

from ..basics.atomic import sha256
from ..basics.errors import InputError
from ..basics.option import Opening
from ..inference.again import Draw, Sample
from ..inference.causal import open_language_model
from ..inference.exported import ExportedModel
from ..inference.mixed import take_audits
from ..runs.masked_stages import Deciding, ExportedStage, MixedStage, Opened, description, fp32_session
from ..runs.record import model_metadata
from ..runs.stage import Advance, Files, FinishedParts, PartResult, changed, part_ranges
from ..statistics import LIBRARIES
from .items import ALL, ITEM, ITEMS_FILE, KEYS, ORIGINAL, WHY, model_identity

AdvanceTexts = Callable[[int], None]
Columns = Mapping[str, Any]  # by name: what `polars.Series` takes


class Prepared(Sized, Protocol):
    """Requests as token ids; its length is the number of different texts that a model reads."""

    @property
    def why(self) -> Sequence[str | None]:
        """Why each request cannot be asked, null where it can: fixed phrases, as tables count them."""


P = TypeVar("P", bound=Prepared)


class Kind(ABC, Generic[P]):
    """A value of an experiment: a frozen dataclass whose fields are options."""

    name: ClassVar[str]
    asks: ClassVar[Mapping[str, Any]]  # the columns of a request that it reads, with their types; absent ones are null
    of_model: ClassVar[frozenset[str]] = frozenset()  # reasons in `why` that lie in the model, and not in the data
    stage: ClassVar["type[RequestStage]"]  # how exact its answers are

    @property
    @abstractmethod
    def answers(self) -> Mapping[str, Any]:
        """The columns that it adds to a request, with their types; log-probabilities are natural logarithms, fp64."""

    @property
    def identity(self) -> dict[str, Any]:
        """What answers depend on beside model and requests: the options that are given, by name, as JSON values."""
        options: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {name.replace("_", " "): value for name, value in options.items() if value not in (None, False, [])}

    @classmethod
    def of(cls, identity: Mapping[str, Any], metadata: Mapping[str, Any]) -> Self:  # noqa: ARG003 - some need more
        """The kind of a finished run, by what it has recorded."""
        names = {own.name: own.name.replace("_", " ") for own in fields(cls)}  # type: ignore[arg-type]
        return msgspec.convert({name: identity[key] for name, key in names.items() if key in identity}, cls)

    @abstractmethod
    def again(self, draw: Draw, requests: pl.LazyFrame) -> Sample:
        """Some of the requests that were asked, with their answers, as `verify` asks them again."""

    def faults(self, exported: ExportedModel, requests: pl.DataFrame) -> Sequence[str | None]:
        """Why requests cannot be asked, as `prepare` says it; what cannot be wrong need not be tokenized."""
        return self.prepare(exported, requests).why

    @abstractmethod
    def prepare(self, exported: ExportedModel, requests: pl.DataFrame) -> P:
        """Read requests without a reason in `why`; the model is not opened. The columns of `asks` are there."""

    @abstractmethod
    def answer(self, model: Any, asked: P, advance: AdvanceTexts) -> Columns:
        """The columns of `answers` for all requests of `asked`, in any form that a column can be made of.

        All of them can be asked. `advance` is called with numbers of texts, by several threads.
        """

    def shown(self, mask_token: str) -> Mapping[str, pl.Expr]:  # noqa: ARG002 - other kinds look at it
        """What a person reads of a request: the columns of `sentence_rows`, as far as the kind tells them."""
        return {}

    def work(self, asked: P) -> Mapping[str, int]:
        """How much there is to do, by what a plan calls it; `TOKENS` is among it."""
        raise NotImplementedError


class Source(ABC):
    """Requests that are read part by part, such as those of a user's table."""

    @property
    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """How many requests each part has."""

    @abstractmethod
    def read(self, number: int) -> pl.DataFrame:
        """The requests of a part, as `complete` makes them."""

    @property
    def sha256(self) -> str | None:
        """None where the identity of the experiment says what the requests follow from."""
        return None

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        return self.read(0).schema

    def place(self, number: int, request: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - tables have lines
        """What a message calls a request of a part, such as its file and line; None for the experiment's own way."""
        return None

    def paths(self) -> Mapping[str, Path]:
        """What is read from the disk."""
        return {}

    def at(self, places: Mapping[str, Path]) -> Self:  # noqa: ARG002 - others have files
        """The same files in other places."""
        return self


@dataclass(frozen=True, eq=False)
class InMemory(Source):
    """A frame of requests as a source."""

    frame: pl.DataFrame
    per_part: int
    together: Sequence[str] = ()  # keys of requests that are in one part, side by side

    @cached_property
    def sha256(self) -> str:
        return sha256(self.frame.write_ndjson().encode())

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        return self.frame.schema

    @cached_property
    def parts(self) -> tuple[range, ...]:
        """So many requests, and those more that are asked together with the last one."""
        n, size = len(self.frame), self.per_part
        if not self.together:
            return part_ranges(n, size)
        begins = self.frame.select(pl.struct(*self.together).rle_id()).to_series()
        starts = np.flatnonzero(np.diff(begins.to_numpy(), prepend=-1))
        cuts = [*starts[np.unique(np.searchsorted(starts, np.arange(0, n, size)).clip(max=len(starts) - 1))], n]
        bounds = sorted({0, *map(int, cuts)}) if n else [0]
        return tuple(range(one, other) for one, other in pairwise(bounds))

    @property
    def sizes(self) -> Sequence[int]:
        return [len(part) for part in self.parts]

    def read(self, number: int) -> pl.DataFrame:
        part = self.parts[number]
        return self.frame.slice(part.start, len(part))


Part = tuple[pl.DataFrame, Any]
"""The requests of a part, with all reasons in `why`, and those without a reason as tokens."""
TOKENS = "tokens that the model reads"  # the key of `Kind.work` with them
VERSION = 1  # of the columns of a part: runs of different versions are not put together


class Asking:
    """What the stage must know of an experiment."""

    name: ClassVar[str]
    of_kind: ClassVar[type[Kind[Any]]]  # what asks
    requests_per_part: ClassVar[int] = 2048
    together: ClassVar[Sequence[str]] = ITEM  # keys of adjacent requests that are asked together, or not at all
    other_rounds: ClassVar[Sequence[str]] = ()  # stages of the other rounds, in the same folder

    @property
    def identity(self) -> Mapping[str, Any]:
        """What the requests depend on, as JSON values; without a `data sha256` the requests themselves have theirs."""
        return {}

    def metadata(self, exported: ExportedModel) -> Mapping[str, Any]:  # noqa: ARG002 - part of the interface
        """What later readers need, as JSON values."""
        return {}

    def notes(self, exported: ExportedModel) -> Sequence[str]:  # noqa: ARG002 - part of the interface
        """What a person is told before the first part runs, a line each."""
        return ()

    def excuses(self, why: str) -> bool:
        """Whether a request with this reason in `why` is only told, and the run not refused for it.

        By default, where the reason lies in the model (a word is not one of its tokens), and not in the data.
        """
        return why in self.of_kind.of_model

    def place(self, request: Mapping[str, Any]) -> str:
        """What a message calls a request, such as its file and line."""
        return request.get("place") or repr(request.get("text"))

    @classmethod
    def publish(cls, parts: FinishedParts) -> Files:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class RequestStage(ExportedStage[Any, Part]):
    """Requests of one kind; a part is a range of them. By default, all numbers are those of the reference model."""

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    rows_file: ClassVar[str | None] = ITEMS_FILE

    exported: ExportedModel
    experiment: Asking
    kind: Kind[Any]
    requests: Source

    @property
    def name(self) -> str:  # type: ignore[override]  # other stages have one name each
        return self.experiment.name

    @property
    def publish(self) -> Callable[[FinishedParts], Files]:  # type: ignore[override]
        return self.experiment.publish

    @property
    def beside(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.experiment.other_rounds)

    @property
    def identity(self) -> dict[str, Any]:
        own = self.experiment.identity
        sha256 = None if "data sha256" in own else self.requests.sha256  # it takes long to compute
        return {
            **model_identity(self.exported),
            "version": VERSION,
            **({} if sha256 is None else {"data sha256": sha256}),
            **own,
            "kind": self.kind.name,
            **self.kind.identity,
            "requests per part": self.experiment.requests_per_part,
        }

    @property
    def row_columns(self) -> Mapping[str, Any]:
        return {**self.requests.schema, **self.kind.answers}

    @property
    def metadata(self) -> dict[str, Any]:
        return {**model_metadata(self.exported), **self.experiment.metadata(self.exported)}

    @property
    def sizes(self) -> Sequence[int]:
        return self.requests.sizes

    def files(self) -> Mapping[str, Path]:
        return {**super().files(), **self.requests.paths()}

    def with_files(self, places: Mapping[str, Path]) -> Self:
        return changed(super().with_files(places), requests=self.requests.at(places))

    @property
    def notes(self) -> Sequence[str]:
        return self.experiment.notes(self.exported)

    @property
    def unit(self) -> str:
        return "requests"

    def check(self, say: Callable[[str], None]) -> None:
        """Refuse a request that cannot be asked and is not excused, and requests none of which can be asked."""
        say(f"{self._asked:,} of {sum(self.sizes):,} requests can be asked")

    @cached_property
    def _asked(self) -> int:
        """How many requests can be asked, counted once: it reads them all. Raises the errors of `check`."""
        asked, total, reasons = 0, sum(self.sizes), Counter[str]()
        for number in range(len(self.sizes)):
            requests = self.requests.read(number)
            good = requests[WHY].is_null()
            found = _spread(pl.Series(self.kind.faults(self.exported, requests.filter(good)), dtype=pl.String), good)
            for row in found.is_not_null().arg_true():
                if not self.experiment.excuses(found[row]):
                    request = requests.row(row, named=True)
                    place = self.requests.place(number, request) or self.experiment.place(request)
                    raise InputError(f"{place}: {found[row]}")
            why = self._together(requests.with_columns(requests[WHY].fill_null(found)))[WHY]
            asked += why.null_count()
            reasons.update(why.drop_nulls())
        if not asked:
            told = "; ".join(f"{count:,}: {why}" for why, count in reasons.items())
            raise InputError(f"none of {total:,} requests can be asked ({told})")
        return asked

    def open(self, options: Opening) -> Any:
        device, session = fp32_session(options)
        return open_language_model(self.exported, device, **session)

    def describe(self, model: Any) -> Mapping[str, Any]:
        return {**description(self.exported, model), "precision": model.precision}

    def prepare(self, number: int) -> Part:
        requests = self.requests.read(number)
        while True:
            requests = self._together(requests)
            asked = self.kind.prepare(self.exported, requests.filter(pl.col(WHY).is_null()))
            found = pl.Series(asked.why, dtype=pl.String)
            if found.null_count() == len(found):
                return requests, asked
            requests = requests.with_columns(requests[WHY].fill_null(_spread(found, requests[WHY].is_null())))

    def _together(self, requests: pl.DataFrame) -> pl.DataFrame:
        """What is asked together has the reason of its first request that has one."""
        if not self.experiment.together:
            return requests
        reason = pl.col(WHY).drop_nulls().first().over(self.experiment.together)
        return requests.with_columns(pl.col(WHY).fill_null(reason))

    def decide(self, model: Any, number: int, prepared: Part | None, advance: Advance) -> PartResult:
        requests, asked = prepared or self.prepare(number)
        found, columns = self.kind.answer(model, asked, lambda texts: advance(0, texts)), []
        for name, kind in self.kind.answers.items():
            answer = found[name]
            own = answer if isinstance(answer, pl.Series) else pl.Series(answer, strict=False)
            own = own.cast(kind).fill_nan(None) if kind == pl.Float64 else own.cast(kind)
            columns.append(_spread(own, requests[WHY].is_null()).alias(name))
        advance(len(requests), 0)
        audited = take_audits(self.deciders(model))
        return PartResult(requests.with_columns(columns), audited.counts, audited.bounds, audited.needed)

    def deciders(self, model: Any) -> Mapping[str, object]:  # noqa: ARG002 - other stages have some
        """What gives other numbers than the reference model, by the name under which its audit counts."""
        return {}


class MixedRequests(MixedStage[Opened, Deciding, Part], RequestStage, Generic[Opened, Deciding]):
    """Decisions that must be exact, by graphs of any precision; numbers are of the one that decided."""

    def deciders(self, model: Any) -> Mapping[str, object]:
        deciders: Mapping[str, object] = model.deciders
        return deciders


def complete(requests: pl.DataFrame, kind: Kind[Any], dataset: str) -> pl.DataFrame:
    """Requests with all keys and all columns that the kind asks, in the types of a part.

    Absent ones are null; but `dataset` is the given one, `condition` original, `pair` the item, `splits` all.
    """
    usual = {
        "dataset": pl.lit(dataset),
        "condition": pl.lit(ORIGINAL),
        "item": pl.int_range(1, pl.len() + 1),
        "pair": pl.col("item"),
        "splits": pl.lit([ALL]),
    }
    for name, dtype in {**KEYS, **kind.asks}.items():
        value = pl.col(name) if name in requests.columns else usual.get(name, pl.lit(None))
        requests = requests.with_columns(value.cast(dtype).alias(name))
    others = [name for name in requests.columns if name not in {*KEYS, *kind.asks}]
    return requests.select(*KEYS, *kind.asks, *others)


def _spread(column: pl.Series, good: pl.Series) -> pl.Series:
    """Values of the rows that are good, in their places; null in the others."""
    place = pl.Series(good.cast(pl.Int64).cum_sum() - 1).set(~good, None)
    return column.gather(place)
