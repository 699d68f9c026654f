"""A run as a value: its folder, its results as frames, its tables."""

import inspect
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import polars as pl

from ..basics.errors import InputError
from ..basics.named import plugged
from ..basics.paths import with_home
from ..basics.printable import counted
from ..inference.again import Draw, Sample, drawn
from ..inference.exported import ExportedModel, load_exported
from ..runs.record import StageRecord, read_run
from ..runs.results import finished_stage, read_frame
from ..runs.shard import Shard
from ..runs.stage import COLUMNS
from ..views import Table
from .model import Model
from .sentences import OWN, TEXTS, names_for_people
from .shown import Shown

OFFERED = ("folder", "sentences", "report", "tables")
BY = "by"  # a column of `Run.outcomes`


def _is_frame(attribute: object) -> bool:
    """Whether it is a cached property that is a frame."""
    own = attribute.func if isinstance(attribute, cached_property) else None
    return own is not None and inspect.signature(own, eval_str=True).return_annotation is pl.DataFrame


@dataclass(frozen=True, eq=False)
class Contrast:
    """What `compare` sets side by side where an experiment has a comparison of its own."""

    question: str  # what it answers, as the heading of a report's section
    title: str  # of the table of tests
    keys: Sequence[str]  # the columns that say what a row compares
    # their values → run, condition and split of one side, and of the other
    sides: "Mapping[Any, tuple[tuple[Run, str, str], tuple[Run, str, str]]]"
    rates: pl.DataFrame | None = None  # what JSON has beside the tests
    before: Sequence[Table] = ()  # tables that are shown before the tests


@dataclass(frozen=True, eq=False)
class Run(Shown):
    """A run with a finished stage, read from its folder.

    Attributes:
        stage: The stage whose results it holds.
        clusters: What the items share that makes them depend on each other, as a plural.
        next_command: What a user does with such a run next.
        may_differ: The `conditions` in which runs that are shown side by side may differ; their names then tell it.
        how_to_judge: How a user lets such a run say which answers are right, where not every run of the kind says it.
        sentence_keys: The columns of `sentence_rows` that name a sentence in every run with the same data, where it has
            them.
        renamed: Columns of `sentence_rows` → as people see them.
        short_names: The columns of tables in which conditions have short names, such as CpTn: the last one of
            `minimal_pairs`, and others with the same values. A page tells their meaning.
        drop_of: The data set and metric whose rates are told as a drop from 100 %; None if there is none.
        folder: The run folder.
        record: The stage's entry in run.json: identity, metadata, sessions, counts.
        model: The model that ran, if this process has it.
        label: What tables of several runs call it, if not by its model's name.
    """

    stage: ClassVar[str]
    clusters: ClassVar[str] = "items"
    next_command: ClassVar[str] = "negengine show"
    may_differ: ClassVar[Sequence[str]] = ()
    how_to_judge: ClassVar[str] = ""
    drop_of: ClassVar[tuple[str, str] | None] = None
    short_names: ClassVar[Sequence[str]] = ()
    sentence_keys: ClassVar[Sequence[str]] = ("dataset", "condition", "item")
    renamed: ClassVar[Mapping[str, str]] = {}

    folder: Path
    record: StageRecord = field(repr=False)
    model: Model | None = field(default=None, repr=False)
    label: str = field(default="", repr=False)

    def __dir__(self) -> list[str]:
        """What the Tab key offers: what one does with a run, its items, and results that have files."""
        frames = (name for kind in type(self).mro() for name, own in vars(kind).items() if _is_frame(own))
        results = (name for name in frames if name == "items" or (self.folder / f"{name}.parquet").exists())
        return [*OFFERED, *results, *(name for name in super().__dir__() if name.startswith("_"))]

    @classmethod
    def open(cls, folder: Path, model: Model | None = None) -> Self:
        """Read a finished run; InputError if it is none of this stage, it is not finished, or a file is damaged."""
        return cls(folder, finished_stage(folder, cls.stage), model)

    def frame(self, name: str) -> pl.DataFrame:
        """A result of the stage, a Parquet file; InputError if it was changed since the stage wrote it."""
        return read_frame(self.folder, self.record, name)

    @property
    def model_name(self) -> str:
        return str(self.record.identity["model"])

    @property
    def conditions(self) -> Mapping[str, Any]:
        """What two runs must have in common so that their items can be compared: the identity without the model."""
        own = self.record.identity.items()
        return {key: value for key, value in own if not key.startswith("model") and key != COLUMNS}

    def methods(self, test: str) -> str:
        """What was done and found, in sentences; `test` is how a text cites the test's paper, or empty."""
        return f"We ran {self.stage}{f' ({test})' if test else ''}."

    @property
    def read_otherwise(self) -> list[str]:
        """What of a user's own data was read otherwise than it is written, for the methods."""
        return []

    @property
    def used(self) -> Collection[str]:
        """What the run used that has a paper of its own: methods, and data sets by the names that papers have."""
        return ()

    @property
    def groupings(self) -> Sequence[str]:
        """What items can be grouped by: names that `outcomes` takes, such as gender, verb or relation."""
        return ()

    def outcomes(self, by: str | None = None) -> pl.DataFrame:  # noqa: ARG002 - experiments look at it
        """One row for each item, split and metric, for comparisons.

        Args:
            by: One of `groupings`.

        Returns:
            dataset, condition, split, metric, item (words or a stable id), value (1 and 0, or any number). Where splits
            are groups, column (the one that a group comes from, null for all items). Where items depend on each other,
            cluster (what they share) and, where such clusters cross, crossed (the other kind); not where each of these
            clusters is a group itself. With `by`, `BY`: the group of the item.

        Raises:
            InputError: Runs of this kind cannot be compared.
        """
        raise InputError(f"{self.folder}: a run of {self.stage} cannot be compared")

    def contrast(self, runs: "Sequence[Any]") -> Contrast | None:  # noqa: ARG002 - experiments look at them
        """A comparison of the experiment's own of runs of this kind, or of this run alone; None for the usual one.

        Raises InputError if runs of this kind cannot be compared, or not these.
        """
        return None

    @property
    def score(self) -> str:
        """What the outcomes are decided by, where runs of one kind may differ in it."""
        return ""

    @property
    def dead_end(self) -> str:
        """Why no further function can go on from this run; empty if one can."""
        return ""

    @property
    def tokenizer_sha256(self) -> str:
        """The digest of the model's tokenizer, by which vocabularies are compared; empty where it is not recorded."""
        export = self.record.metadata.get("export") or {}
        return str((export.get("files") or {}).get("tokenizer.json", ""))

    @property
    def by_construction(self) -> Sequence[str]:
        """The splits whose outcomes follow from how the items were chosen: their rates are not estimates."""
        return ()

    def closing(self) -> str:
        """The result files, and the next command."""
        *others, last = self.record.files
        files = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        return f"{self.folder}: {files} written; next, `{self.next_command} {shlex.quote(str(self.folder))}`"

    def sentence_rows(self) -> pl.LazyFrame:
        """What `sentences` collects: rows that can be filtered and written before any text is built.

        Raises InputError if runs of this kind have no sentences, or the run lacks what the texts are built from.
        """
        raise InputError(f"{self.folder}: a run of {self.stage} has no sentences")

    def sentence_pieces(self) -> Iterable[pl.LazyFrame]:
        """`sentence_rows` in pieces, each of which fits into memory with its texts."""
        return [self.sentence_rows()]

    def pair_rows(self) -> pl.LazyFrame | None:
        """Of items that are judged by two sentences: both, and the difference, in one row; None for other items.

        Returns:
            item, good, bad, difference (of the log-probabilities), failed, good_logprob and bad_logprob; then the other
            columns of the good sentence. Of several bad ones the most probable one counts.
        """
        return None

    @property
    def own_columns(self) -> Mapping[str, str]:
        """The columns of `sentence_rows` that are a user's own → as the user calls them."""
        own: Mapping[str, str] = self.record.metadata.get(OWN) or {}
        return own

    def for_people(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Rows with the names of columns that people see: see `names_for_people`."""
        return rows.rename(self.named_for_people(rows.collect_schema().names()))

    def named_for_people(self, columns: Sequence[str]) -> dict[str, str]:
        """Columns of `sentence_rows` or `pair_rows` → their names there."""
        return names_for_people(columns, self.own_columns, self.renamed)

    def sentences(self, *, sample: int | None = None, seed: int = 0) -> pl.DataFrame:
        """The items as sentences with the model's answers, built from what the run has recorded.

        Args:
            sample: How many rows to draw at random; all by default.
            seed: Another seed draws other rows.

        Returns:
            One row for each sentence that the model judged: item, condition, sentence (or premise and hypothesis),
            expected, answer, correct (or repeated), failed, rank, logprob, and the probe's own columns; see
            `negengine.engine.library.sentences`.

        Raises InputError as for `sentence_rows`, or if the sample is smaller than 1.
        """
        rows = self.sentence_rows()
        return (rows if sample is None else drawn(rows, sample, seed)).collect(engine="streaming")

    @property
    def minimal_pairs(self) -> tuple[str, Sequence[str]]:
        """Of `sentence_rows`: the column that the sentences of a minimal pair share, and those that tell them apart."""
        return "item", ("dataset", "condition")

    def tidy_rows(self) -> pl.LazyFrame:
        """The columns of `sentence_rows` without the texts, truth values as 1 and 0, for models in R or Python."""
        rows = self.sentence_rows()
        return rows.drop(*TEXTS, strict=False).with_columns(pl.col(pl.Boolean).cast(pl.Int8))

    def again(self, draw: Draw) -> Iterable[Sample]:
        """Samples of what the model decided, for `verify`; InputError if they cannot be asked again."""
        raise InputError(f"what {draw.exported.name} decides in {self.stage} is not decided again")

    def report(self, output: str | Path = "report.html") -> Path:
        """Write a report of this run, and return its file; see `ng.report`, also for what `output` can be."""
        write: Callable[..., Path] = plugged("report")
        return write(self, output)


def model_of(
    folder: Path,
    record: StageRecord,
    moved_to: str | Path | None = None,
    load: Callable[[str | Path], ExportedModel] = load_exported,
) -> ExportedModel:
    """The model that a stage of a run was made with, in `moved_to` if it was moved.

    Raises InputError if it is not there, or another one is.
    """
    recorded = ((record.metadata.get("call") or {}).get("model") or {}).get("folder")
    place = moved_to or recorded or record.metadata.get("model folder")
    if not isinstance(place, str | Path):
        raise InputError(f"{folder}: run.json does not say where the model is: give --model")
    try:
        found = load(place if moved_to else with_home(str(place)))
    except InputError as error:
        raise InputError(f"{folder} needs the model {_named(record)}: {error}; if it has moved, give --model") from None
    refuse_other_model(folder, record, found)
    return found


def refuse_other_model(folder: Path, record: StageRecord, exported: ExportedModel) -> None:
    """Raise an InputError for a model that is not that of a run."""
    if exported.sha256 != record.identity.get("model sha256"):
        said = f"{exported.folder} is not the model of {folder} (sha256 {exported.sha256[:12]}…)"
        raise InputError(f"{said}, which needs {_named(record)}: give --model, or run it again")


def _named(record: StageRecord) -> str:
    revision = (record.metadata.get("export") or {}).get("revision", "unknown")
    return f"{record.identity.get('model')}, revision {revision}, sha256 {record.identity.get('model sha256')}"


Results = TypeVar("Results", bound=Run)


@dataclass(frozen=True, eq=False)
class ShardRun(Shown):
    """A finished shard: it has parts; `merge` makes the results."""

    folder: Path
    stage: str
    shard: Shard
    parts: int

    @classmethod
    def open(cls, folder: Path, stage: str) -> "ShardRun":
        record = read_run(folder).stages[stage]
        shard = Shard.parse(record.shard or "1/1")
        return cls(folder, stage, shard, len(shard.parts(record.parts)))

    def tables(self) -> list[Table]:
        return []

    def remarks(self) -> list[str]:
        said = f"shard {self.shard} of {self.stage} is finished"
        if not self.parts:
            total = read_run(self.folder).stages[self.stage].parts
            said = f"nothing to do for shard {self.shard}, as {self.stage} has {counted(total, 'part')}"
        whole = str(self.folder).removesuffix(self.shard.suffix)
        merge = "SHARD… -o RUN" if whole == str(self.folder) else shlex.quote(whole)
        return [f"{self.folder}: {said}; when all shards are finished, run `negengine merge {merge}`"]

    def document(self) -> dict[str, Any]:
        return {"run": str(self.folder), "stage": self.stage, "shard": str(self.shard), "finished": True}


def open_results(results: type[Results], folder: Path, model: Model, shard: Shard) -> Results | ShardRun:
    """What a run function returns: the finished run, or a `ShardRun` if only a shard was asked for."""
    return results.open(folder, model) if shard.is_whole else ShardRun.open(folder, results.stage)
