"""Data sets of other authors (`sources.toml`), the folder that keeps them, and the table of `negengine data list`."""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs
import polars as pl

from ...basics.errors import InputError, did_you_mean
from ...basics.reading import MOST_JSON, exists, file_sha256, parse_json, read_regular
from ...library.shown import Shown
from ...text.table_sources import DIGESTS
from ...views import Column, Table

REGISTRY = Path(__file__).parent / "sources.toml"
CACHE_VARIABLE = "NEGENGINE_DATA"
_SCHEMA = {"name": pl.String, "title": pl.String, "licence": pl.String, "command": pl.String, "here": pl.Boolean}


@dataclass(frozen=True)
class Source:
    """A data set and where it comes from."""

    name: str
    title: str
    probe: str
    repository: str
    commit: str  # the state that is fetched; a branch where no commit is known to have the files
    licence: str
    files: Mapping[str, str] = field(default_factory=dict)  # file name → SHA-256 of its content
    # The files are those of the archive whose paths match this. `files` has only `DIGESTS`, which has their digests.
    paths: str = ""
    # Names of files whose SHA-256 was not known when this was written. Each is fetched by itself. The digests of the
    # first copy are kept beside it, and compared from then on.
    unfixed: Sequence[str] = ()
    address: str = ""  # of an unfixed file: `{name}` is its name, `{stem}` the same without its ending
    merged: bool = False  # whether the files are made from those of the repository, by `merge` of `lama/facts.py`
    published: str = ""  # of the files, the one with the accuracies that the authors publish
    argument: str = ""
    command: str = ""  # the whole command that reads it, where it does not begin with a model
    # Where else the files can be got, for the message if the source does not have them any more. They count as fetched
    # once they lie in the folder.
    by_hand: str = ""

    @property
    def reading(self) -> str:
        return self.command or " ".join(filter(None, ["negengine", self.probe, "MODEL", self.argument]))

    @property
    def packed(self) -> str:
        """The path of the archive within the archive that has the files; empty where there is none."""
        folder = self.paths.rpartition("/")[0]
        return folder if folder.endswith(".tar.gz") else ""

    @property
    def folder(self) -> Path:
        return cache_folder() / self.name

    def addresses(self) -> dict[str, str]:
        """The address of each unfixed file."""
        place = {"repository": self.repository, "commit": self.commit}
        return {name: self.address.format(name=name, stem=Path(name).stem, **place) for name in self.unfixed}

    def missing(self) -> list[str]:
        return [name for name, digest in self.digests().items() if _sha256(self.folder / name) != digest]

    def digests(self) -> dict[str, str]:
        """Name → SHA-256 of all files, as far as they are known; one that is not known yet is empty, and no file's."""
        return {**self.files, **self.kept_digests()}

    def kept_digests(self) -> dict[str, str]:
        if not (self.unfixed or (self.paths and _sha256(self.folder / DIGESTS) == self.files[DIGESTS])):
            return {}
        try:
            found = parse_json(read_regular(self.folder / DIGESTS, MOST_JSON).decode(), str(self.folder / DIGESTS))
        except (InputError, UnicodeDecodeError):
            found = {}
        known = found if isinstance(found, dict) else {}
        return {name: str(known.get(name, "")) for name in self.unfixed or known}


def sources(registry: Path = REGISTRY) -> dict[str, Source]:
    """All data sets, by name."""
    return {name: Source(name, **entry) for name, entry in tomllib.loads(registry.read_text("utf-8")).items()}


def source(name: str, registry: Path = REGISTRY) -> Source:
    """A data set by its name; an unknown one is an `InputError`."""
    known = sources(registry)
    if name not in known:
        raise InputError(f"unknown data set {name!r}; known are {', '.join(known)}")
    return known[name]


def cache_folder() -> Path:
    """The folder of all data sets."""
    given = os.environ.get(CACHE_VARIABLE)
    return (Path(given) if given else platformdirs.user_cache_path("negengine") / "data").expanduser().absolute()


def named_place(data: object, probe: str) -> Path | None:
    """Where the data set of a probe that NAME stands for lies, or one file of it (NAME:STEM); else None.

    A user's own file of this name comes first. An `InputError` if the data set was not fetched, or has no such file.
    """
    known = named_set(data, probe)
    if known is None or exists(Path(str(data))):
        return None
    name, _, stem = str(data).partition(":")
    folder = find(name, option="your own")
    names = {Path(file).stem: file for file in known.digests() if file not in {DIGESTS, known.published}}
    if not stem:
        return folder
    if stem not in names:
        near = did_you_mean(stem, names)
        raise InputError(f"{data}: {near}{name} has no such file; it has {', '.join(sorted(names))}")
    return folder / names[stem]


def named_set(data: object, probe: str) -> Source | None:
    """The data set of a probe that NAME or NAME:STEM could stand for."""
    known = sources().get(data.partition(":")[0]) if isinstance(data, str) else None
    return known if known is not None and known.probe == probe else None


def hidden_set(data: object, probe: str) -> list[str]:
    """A note where a user's own file or folder hides the data set of its name."""
    known = named_set(data, probe)
    if known is None or not exists(Path(str(data))):
        return []
    return [
        f"{data}: the file or folder of this name here is read, and not the data set; for that, give {known.folder}"
    ]


def published_accuracies(data: object, probe: str) -> Path | None:
    """The file with the accuracies that the authors of a data set publish, if a name stands for one that has it."""
    known = named_set(data, probe)
    if known is None or not known.published or named_place(data, probe) is None:
        return None
    return known.folder / known.published


def find(name: str, given: Path | None = None, registry: Path = REGISTRY, option: str = "--data") -> Path:
    """Where a probe reads its data from; a missing folder or a damaged copy is an `InputError`."""
    if given is not None:
        if not exists(given):
            raise InputError(f"{given}: no such file or folder; give another {option}")
        return given
    found = source(name, registry)
    if missing := found.missing():
        state = "is damaged" if (found.folder / missing[0]).exists() else "does not exist"
        raise InputError(f"{found.folder / missing[0]} {state}: run `negengine data get {name}`, or give {option} PATH")
    return found.folder


def _sha256(path: Path) -> str | None:
    try:
        return file_sha256(path)
    except InputError:
        return None


@dataclass(frozen=True, eq=False)
class DataSets(Shown):
    """The data sets of other authors: a row of `frame` each, and the folder where they are kept."""

    folder: Path
    frame: pl.DataFrame

    @classmethod
    def found(cls) -> "DataSets":
        rows = [(s.name, s.title, s.licence, s.probe, not s.missing()) for s in sources().values()]
        return cls(cache_folder(), pl.DataFrame(rows, schema=_SCHEMA, orient="row"))

    def tables(self) -> list[Table]:
        columns = [Column(heading, heading) for heading in ("name", "title", "command", "here")]
        frame = self.frame.with_columns(here=pl.when("here").then(pl.lit("yes")).otherwise(pl.lit("no")))
        return [Table(f"Data sets of other authors, kept in {self.folder}", frame, columns)]

    def document(self) -> list[dict[str, Any]]:
        return self.frame.drop("command").to_dicts()
