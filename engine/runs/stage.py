"""A stage: what is computed, part by part, and how the parts become results. It does not know where it runs.

A part is decided from its number and the model alone: in any order, process or machine. A stage travels by pickling.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy as shallow_copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import polars as pl

from ..basics.option import Opening

Model = TypeVar("Model")
Prepared = TypeVar("Prepared")
Result = pl.DataFrame | pl.LazyFrame | Mapping[str, Any]
Files = Mapping[str, Result]
Advance = Callable[[int, int], None]
COLUMNS = "columns of rows"  # their key in an identity
LOW_PRECISION_SHA256 = "low_precision_sha256"  # the key of a recorded choice with that model's digest


@dataclass(frozen=True)
class Choices:
    """What a run chooses once and records, so that all its processes go on alike."""

    calibration: Mapping[str, Any] = field(default_factory=dict)  # Pattern → how it is decided
    batch_tokens: int | None = None  # Largest number of tokens in a batch; None for each device's usual number


@dataclass(frozen=True, eq=False)
class PartResult:
    """What was decided about a part."""

    rows: pl.DataFrame  # its rows
    counts: Mapping[str, float] = field(default_factory=dict)  # what is summed over the parts: the candidates tested …
    # Pattern → the margin, in logits, that the low-precision model needed to decide alone; that its audit asks for
    bounds: Mapping[str, float] = field(default_factory=dict)
    needed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class FinishedParts:
    """All parts of a stage, for its publication."""

    folder: Path  # the run folder, with the results of earlier stages
    # the rows of all parts in their order, read part by part when they are used: figures should select their columns
    rows: pl.LazyFrame
    counts: Mapping[str, float]  # the parts' counts, summed
    metadata: Mapping[str, Any]  # the stage's metadata


class Stage(ABC, Generic[Model, Prepared]):
    """One stage of a run."""

    name: ClassVar[str]  # its name in run.json, and the folder of its parts
    # the final file with the rows of all parts, if there is one: `publish` can make the other files from it again
    rows_file: ClassVar[str | None] = None
    # files that have the other rows, or other columns of the rows, where one file does not have all; see `rows_of`
    further_rows_files: ClassVar[tuple[str, ...]] = ()
    beside: ClassVar[tuple[str, ...]] = ()  # the other stages of its experiment, which share its run folder
    calibrates: ClassVar[bool] = False  # whether `calibrate` measures anything
    # How many parts a GPU decides at the same time, each by a model that `use` gives: its queue is never empty before
    # the end. More than one only where `use` gives models that count what they decide apart.
    lanes: ClassVar[int] = 1
    libraries: ClassVar[tuple[str, ...]] = ()  # modules that `publish` imports and that take long to import

    @classmethod
    def rows_of(cls, files: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        """The rows of all parts, as `publish` takes them, from the final files that have them."""
        return pl.concat(files.values(), how="diagonal")

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Everything that the stage's rows depend on; JSON values. It must be cheap: no model, no long composition."""

    @property
    def row_columns(self) -> Mapping[str, Any]:
        """The columns of its rows, name → Polars type; empty where they are known only once a part is decided."""
        return {}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What publication and later readers need of the stage; JSON values."""
        return {}

    @property
    @abstractmethod
    def sizes(self) -> Sequence[int]:
        """How much work each part is, in the unit of the progress display; its length is the number of parts."""

    @property
    def unit(self) -> str:
        """What `sizes` count."""
        return "sentences"

    @property
    def notes(self) -> Sequence[str]:
        """What a person is told before the first part runs, a line each."""
        return ()

    def check(self, say: Callable[[str], None]) -> None:
        """Raise InputError for what cannot run, before a model is opened; called only if there is work to do."""

    def files(self) -> Mapping[str, Path]:
        """What the stage reads from the disk, name → file or folder; all else must travel with the stage itself."""
        return {}

    def with_files(self, places: Mapping[str, Path]) -> Self:  # noqa: ARG002 - part of the interface
        """The stage that reads the same files in other places; no cached property may hold such a place."""
        return self

    @abstractmethod
    def open(self, options: Opening) -> Model:
        """Open the model in the process that will decide; raises InputError if the device cannot run it."""

    def describe(self, model: Model) -> Mapping[str, Any]:  # noqa: ARG002 - part of the interface
        """What the run's record says about an opened model; JSON values."""
        return {}

    def calibrate(self, model: Model, say: Callable[[str], None]) -> dict[str, Any]:  # noqa: ARG002
        """Pattern → how it is decided, as JSON values: measured once a run, and the same in all shards."""
        return {}

    def use(self, model: Model, calibration: Mapping[str, Any]) -> Model:  # noqa: ARG002
        """The model as it decides with a calibration."""
        return model

    def prepare(self, number: int) -> Prepared | None:  # noqa: ARG002
        """Prepare what does not need the model, such as token ids. It runs ahead, in another thread."""
        return None

    @abstractmethod
    def decide(self, model: Model, number: int, prepared: Prepared | None, advance: Advance) -> PartResult:
        """Decide about a part."""

    @staticmethod
    @abstractmethod
    def publish(parts: FinishedParts) -> Files:
        """The final files by name, without stage and model: frames for Parquet, lazy ones in a stream; else JSON."""


def full_identity(stage: Stage[Any, Any]) -> dict[str, Any]:
    """The identity with the columns of rows: versions that write other columns cannot finish each other's runs."""
    named = {name: str(kind) for name, kind in stage.row_columns.items()}
    return {**stage.identity, **({COLUMNS: named} if named else {})}


Publish = Callable[[FinishedParts], Files]
Value = TypeVar("Value")


def changed(stage: Value, **attributes: Any) -> Value:
    """A copy of a frozen value with other attributes; the values of its cached properties are kept."""
    copy = shallow_copy(stage)
    for name, value in attributes.items():
        object.__setattr__(copy, name, value)  # stages are frozen
    return copy


def part_ranges(n: int, size: int) -> tuple[range, ...]:
    """The numbers from 0 to n - 1 in ranges of `size`; the last one may be shorter."""
    return tuple(range(start, min(start + size, n)) for start in range(0, n, size))
