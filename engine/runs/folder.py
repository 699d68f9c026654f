"""Run folders: finished parts, what made them, and one process at a time.

    RUN/run.json                         per stage: identity, shard, sessions, final files and their digests
    RUN/parts/STAGE/part-00012.parquet   the rows of a part
    RUN/parts/STAGE/part-00012.json      its marker: size, digest, counts; written last, so it vouches for the rows

A stage (`select`, `score`) is cut into numbered parts. A part is finished if its marker is there and its rows have the
marker's digest, so to resume is to do the others: whatever a kill, a full disk or a damaged file left is done again.
The *identity* of a stage is all that decides its rows; a folder with another identity is refused.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import polars as pl

from ..errors import InputError
from .atomic import (
    is_leftover,
    make_folder,
    parquet_bytes,
    remove_leftovers,
    sha256,
    unwritable,
    write_bytes,
    write_json,
)
from .lock import LOCK_FILE, locked

FORMAT = 1
RUN_FILE = "run.json"
_RECORD = {"identity", "parts", "shard", "about", "finished", "files", "sessions"}


@dataclass(frozen=True)
class Shard:
    """One share of a stage: every `count`-th part, from the `index`-th (1-based)."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read `I/N`.

        Raises:
            InputError: It is not of that form, or I is not one of 1 to N.
        """
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise InputError(f"--shard {text}: must be I/N with I from 1 to N, such as 1/4")
        return cls(int(found[1]), int(found[2]))

    def parts(self, n: int) -> range:
        """The numbers of the parts, of `n`, that are this shard's; none if there are more shards than parts."""
        return range(self.index - 1, n, self.count)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


@dataclass(frozen=True)
class Part:
    """Where a part of a stage lies."""

    rows: Path
    marker: Path

    @classmethod
    def of(cls, folder: Path, stage: str, number: int) -> "Part":
        """The part of this number in a run folder."""
        rows = folder / "parts" / stage / f"part-{number:05d}.parquet"
        return cls(rows, rows.with_suffix(".json"))

    def read(self) -> tuple[bytes, dict[str, Any]] | None:
        """The Parquet file's bytes and the marker, or None unless both are whole."""
        try:
            marker = json.loads(self.marker.read_bytes())
            content = self.rows.read_bytes()
            whole = len(content) == marker["bytes"] and sha256(content) == marker["sha256"]
            return (content, marker) if whole and isinstance(marker["counts"], dict) else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        except OSError as error:
            raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from error

    def write(self, content: bytes, marker: Mapping[str, Any]) -> None:
        """Write rows, then the marker that vouches for them."""
        write_bytes(self.rows, content)
        write_json(self.marker, marker)

    def remove(self) -> bool:
        """Remove what there is of the part; whether there was a marker."""
        try:
            marked = self.marker.exists()
            self.marker.unlink(missing_ok=True)
            self.rows.unlink(missing_ok=True)
        except OSError as error:
            raise unwritable(self.rows, error) from error
        return marked


class RunFolder:
    """A stage of a run folder, held by this process; made by `create_or_resume`.

    Attributes:
        folder: The run folder.
        stage: Which stage is held.
        record: The stage's entry in run.json.
        damaged: Parts that were marked as finished but are not whole; they are done again.
        session: What this process tells of itself (device, precision, …), for run.json; may be added to.
    """

    def __init__(self, folder: Path, stage: str, document: dict[str, Any], session: Mapping[str, Any]) -> None:
        self.folder = folder
        self.stage = stage
        self.session: dict[str, Any] = dict(session)
        self._document = document
        self._begun: float | None = None
        self._finished, self.damaged = self._scan()

    @classmethod
    @contextmanager
    def create_or_resume(
        cls,
        folder: Path,
        stage: str,
        identity: Mapping[str, Any],
        *,
        parts: int,
        shard: Shard | None = None,
        about: Mapping[str, Any] | None = None,
        session: Mapping[str, Any] | None = None,
    ) -> Iterator["RunFolder"]:
        """Hold a stage of a run folder for this process.

        Args:
            folder: New, empty, or a run folder.
            stage: Such as `select`.
            identity: All that decides the stage's rows; JSON values.
            parts: Number of parts of the whole stage.
            shard: The share that this folder holds; None for all.
            about: What else to record of the stage, such as where the model lies; the newest is kept.
            session: What to record of this process.

        Raises:
            InputError: The folder is something else, was made with another identity, is held by another process, or
                cannot be written. Nothing in it is changed then.
        """
        _read_document(folder)  # before anything is written: it may be no run at all
        make_folder(folder)
        with locked(folder):
            document = _read_document(folder)
            if document is None:  # first of all: without it the folder would seem to be no run
                document = {"format": FORMAT, "stages": {}}
                _write_document(folder, document)
            shard = shard or Shard()
            facts = _as_json({"identity": identity, "parts": parts, "shard": str(shard) if shard.count > 1 else None})
            known = document["stages"].get(stage)
            if known is not None:
                _refuse_other_identity(folder, stage, known, facts)
            remove_leftovers(folder)
            make_folder(folder / "parts" / stage)
            remove_leftovers(folder / "parts" / stage)
            # A new stage is recorded with its first work: a run that is refused after all claims nothing.
            document["stages"][stage] = known or {
                **facts,
                "about": {},
                "finished": False,
                "files": {},
                "sessions": [],
            }
            run = cls(folder, stage, document, session or {})
            if run.record["about"] != (newest := _as_json(about or run.record["about"])):
                run.record["about"] = newest
                if known is not None:
                    run._save()
            try:
                yield run
            except BaseException:
                with suppress(InputError):  # the first error is the one to tell
                    run._close()
                raise
            run._close()

    @property
    def record(self) -> dict[str, Any]:
        """The stage's entry in run.json."""
        entry: dict[str, Any] = self._document["stages"][self.stage]
        return entry

    @property
    def shard(self) -> Shard:
        """The share of the stage that this folder holds."""
        return Shard.parse(self.record["shard"] or "1/1")

    @property
    def parts(self) -> range:
        """The numbers of all parts of this shard."""
        return self.shard.parts(self.record["parts"])

    @property
    def missing_parts(self) -> list[int]:
        """The numbers of the parts still to do, ascending."""
        return [number for number in self.parts if number not in self._finished]

    def finished_parts(self) -> set[int]:
        """The numbers of the parts that are done."""
        return set(self._finished)

    def counts(self) -> dict[str, int | float]:
        """The finished parts' counts, summed; `rows` among them."""
        total: dict[str, int | float] = {}
        for number in sorted(self._finished):
            for key, value in self._finished[number].items():
                total[key] = total.get(key, 0) + value
        return total

    def part_counts(self, number: int) -> Mapping[str, int | float]:
        """A finished part's counts."""
        return self._finished[number]

    def write_part(self, number: int, frame: pl.DataFrame, counts: Mapping[str, int | float]) -> None:
        """Finish a part.

        Args:
            number: Which one; one of `parts`.
            frame: Its rows.
            counts: To be summed over the parts, such as the candidates tested.

        Raises:
            InputError: It cannot be written (see `atomic.write_atomically`).
        """
        content = parquet_bytes(frame)
        counts = {**counts, "rows": len(frame)}
        self.copy_part(number, content, {"bytes": len(content), "sha256": sha256(content), "counts": counts})

    def copy_part(self, number: int, content: bytes, marker: Mapping[str, Any]) -> None:
        """Finish a part with a Parquet file and a marker that another folder holds."""
        self._begin()
        if self.record["finished"]:  # the final files are no longer those of the parts
            self.record["finished"] = False
            self._save()
        Part.of(self.folder, self.stage, number).write(content, marker)
        self._finished[number] = dict(marker["counts"])

    def read_parts(self) -> pl.DataFrame:
        """The rows of all parts, in the order of their numbers.

        Raises:
            InputError: A part has been damaged since.
        """
        frames = []
        for number in self.parts:
            part = Part.of(self.folder, self.stage, number)
            if (read := part.read()) is None:
                raise InputError(f"{part.rows}: missing or damaged; run the same command again to do this part again")
            frames.append(pl.read_parquet(read[0]))
        return pl.concat(frames) if frames else pl.DataFrame()

    @property
    def is_finished(self) -> bool:
        """Whether all parts are done and the stage's final files are there as they were written."""
        return not self.missing_parts and self.record["finished"] and not _unlike(self.folder, self.record["files"])

    def finish_stage(self, files: Mapping[str, pl.DataFrame | Mapping[str, Any]]) -> None:
        """Write the final files and mark the stage as finished.

        Args:
            files: File name → a frame for Parquet, or a JSON document. A shard has none: `merge` makes them.

        Raises:
            InputError: A file cannot be written.
            ValueError: Parts are missing.
        """
        if self.missing_parts:
            raise ValueError(f"parts {self.missing_parts} of {self.stage} are not done")
        self._begin()
        self.record["files"] = {}
        for name, content in files.items():
            if isinstance(content, pl.DataFrame):
                write_bytes(self.folder / name, parquet_bytes(content))
            else:
                write_json(self.folder / name, content)
            self.record["files"][name] = sha256((self.folder / name).read_bytes())
        self.record["counts"] = self.counts()
        self.record["finished"] = True
        self._save()

    def carry_stage(self, source: Path, stage: str) -> None:
        """Take over another folder's finished stage: its final files and its record, not its parts.

        Raises:
            InputError: The stage is not finished there, or this folder holds another one of that name.
        """
        if source.resolve() == self.folder.resolve():
            return
        record = finished_stage(source, stage)
        known = self._document["stages"].get(stage)
        if known is not None:
            _refuse_other_identity(self.folder, stage, known, record)
            if known["finished"] and known["files"] != record["files"]:
                raise InputError(
                    f"{self.folder}: its {stage} gave other files than that of {source}; choose another --output"
                )
        for name, digest in record["files"].items():
            content = (source / name).read_bytes()
            if _digest(self.folder / name) != digest:
                write_bytes(self.folder / name, content)
        if known is None or not known["finished"]:
            # Earlier stages stand first in run.json.
            stages = self._document["stages"]
            self._document["stages"] = {stage: record, **{name: stages[name] for name in stages if name != stage}}
            self._save()

    def take_sessions(self, sessions: list[dict[str, Any]]) -> None:
        """Put the sessions of merged shards in the place of those recorded."""
        if self.record["sessions"] != sessions:
            self.record["sessions"] = sessions
            self._save()

    def _scan(self) -> tuple[dict[int, dict[str, int | float]], tuple[int, ...]]:
        finished = {}
        damaged = []
        for number in self.parts:
            part = Part.of(self.folder, self.stage, number)
            if (read := part.read()) is not None:
                finished[number] = read[1]["counts"]
            elif part.remove():
                damaged.append(number)
        return finished, tuple(damaged)

    def _begin(self) -> None:
        """Record that this process works: not done for one that finds everything finished."""
        if self._begun is None:
            self._begun = time.monotonic()
            self.session = {
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "negengine": version("negengine"),
                **self.session,
            }
            self.record["sessions"] = [*self.record["sessions"], self.session]
            self._save()

    def _close(self) -> None:
        if self._begun is not None:
            self.session["seconds"] = round(time.monotonic() - self._begun, 3)
            self._save()

    def _save(self) -> None:
        _write_document(self.folder, self._document)


def read_run(folder: Path) -> dict[str, Any]:
    """The content of a run folder's run.json.

    Raises:
        InputError: It is no run folder.
    """
    document = _read_document(folder) if folder.is_dir() else None
    if document is None:
        raise InputError(f"{folder}: no run folder (it has no {RUN_FILE})")
    return document


def finished_stage(folder: Path, stage: str) -> dict[str, Any]:
    """The record of a finished stage, its final files checked.

    Raises:
        InputError: No run folder; the stage is not there, not finished, a shard only; or a file is not as written.
    """
    record: dict[str, Any] | None = read_run(folder)["stages"].get(stage)
    if record is None or not record["finished"]:
        raise InputError(f"{folder}: {stage} is not finished; run `negengine {stage}` with this --output again")
    if record["shard"] is not None:
        raise InputError(f"{folder}: only shard {record['shard']} of {stage}; put all shards together with `merge`")
    if unlike := _unlike(folder, record["files"]):
        raise InputError(
            f"{folder / unlike[0]}: missing, or not as {stage} wrote it; "
            f"run `negengine {stage}` with this --output again"
        )
    return record


def differences(old: Mapping[str, Any], new: Mapping[str, Any], then: str = "now") -> str:
    """Each key whose values differ, as `seed 0, now 1`; empty where there is none.

    Args:
        old: One side.
        new: The other.
        then: The word for the other side.
    """
    keys = [key for key in {**old, **new} if key not in old or key not in new or old[key] != new[key]]
    return "; ".join(f"{key} {_shown(old.get(key))}, {then} {_shown(new.get(key))}" for key in keys)


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{text[:12]}…" if re.fullmatch(r"[0-9a-f]{40,}", text) else text


def _refuse_other_identity(folder: Path, stage: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    then, now = ({**side["identity"], "parts": side["parts"], "shard": side["shard"]} for side in (old, new))
    if changed := differences(then, now):
        raise InputError(f"{folder}: {stage} was made with {changed}: choose another --output")


def _as_json(value: Any) -> Any:
    """The value as it comes back from run.json, so that the two can be compared."""
    return json.loads(json.dumps(value))


def _digest(path: Path) -> str | None:
    return sha256(path.read_bytes()) if path.is_file() else None


def _unlike(folder: Path, files: Mapping[str, str]) -> list[str]:
    return [name for name, digest in files.items() if _digest(folder / name) != digest]


def _write_document(folder: Path, document: Mapping[str, Any]) -> None:
    newest = {"format": FORMAT, "negengine": version("negengine"), "stages": document["stages"]}
    write_json(folder / RUN_FILE, newest)


def _read_document(folder: Path) -> dict[str, Any] | None:
    """run.json, or None for a folder in which nothing but our own beginnings lies."""
    path = folder / RUN_FILE
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        entries = sorted(folder.iterdir()) if folder.is_dir() else []
        foreign = [entry.name for entry in entries if entry.name != LOCK_FILE and not is_leftover(entry)]
        if foreign:
            raise InputError(
                f"{folder}: holds {foreign[0]!r} but no {RUN_FILE}, so it is no run folder; choose another --output"
            ) from None
        return None
    except NotADirectoryError:
        raise InputError(f"{folder}: not a folder; choose another --output") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        document: dict[str, Any] = json.loads(content)
        made_as = document["format"]
        stages = document["stages"].values() if made_as == FORMAT else []
        well_formed = all(stage.keys() >= _RECORD for stage in stages)
    except (ValueError, KeyError, TypeError, AttributeError):
        well_formed = False
    if not well_formed:
        raise InputError(f"{path}: not as negengine writes it; choose another --output")
    if made_as != FORMAT:
        raise InputError(f"{path}: format {made_as}, this version reads {FORMAT}; choose another --output")
    return document
