"""Run folders: finished parts, and the record of how they were made; one process at a time. See docs/files.md.

A part is finished if its marker is there and its rows have the marker's digest; resuming does all others. A stage is
finished if its marker is there and its final files have the marker's digests; its parts may be removed then. The marker
is written last, and removed before any of its files is written again, so a repair that is interrupted leaves a stage
that is not finished. A shard has no final files. The *identity* of a stage is everything that its rows depend on.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import msgspec
import polars as pl

from ..basics.atomic import make_folder, remove_file, remove_leftovers, write_bytes
from ..basics.errors import InputError
from ..basics.reading import is_folder, paths_in, refuse_few_open_files
from ..basics.sealed import write_sealed
from ..basics.versions import own_version
from .lock import Held, locked, refuse_held, refuse_links
from .part import EncodedPart, Marker, PartFiles, refuse_other_columns
from .record import (
    ANOTHER_FOLDER,
    PARTS_FOLDER,
    SESSIONS_FOLDER,
    Done,
    RunRecord,
    Session,
    StageRecord,
    as_json,
    begin_session,
    done_file,
    ended_early,
    new_session_file,
    read_done,
    read_entries,
    refuse_other_identity,
    replace_sessions,
    write_session,
)
from .results import finished_stage, put_together, read_result, summed_counts, unlike, write_result
from .shard import Shard
from .stage import Choices, Files, Publish


class RunFolder:
    """A stage of a run folder, held by this process; made by `create_or_resume`."""

    def __init__(
        self,
        folder: Path,
        stage: str,
        run: RunRecord,
        session: Session,
        started: float,
        held: Held,
        *,
        is_recorded: bool,
    ) -> None:
        self.folder = folder
        self.stage = stage
        self.record = run.stages[stage]
        self.session = session
        self._run = run
        self._started = started
        self._held = held
        self._is_recorded = is_recorded
        self.aside: Path | None = None  # where a run is now that was in this folder before
        self._session_file: Path | None = None
        self._finished: dict[int, Marker] = {}
        self._columns: pl.Schema | None = None  # of the rows of finished parts, once it is asked for
        if not (self.shard.is_whole and self.is_finished):
            self._finished = self._scan()

    @classmethod
    @contextmanager
    def create_or_resume(
        cls,
        folder: Path,
        stage: str,
        new: StageRecord,
        *,
        beside: Collection[str] = (),
        kept: Collection[str] = (),
        session: Session | None = None,
        started: float | None = None,
        replaces: Callable[[str], None] | None = None,
    ) -> Iterator["RunFolder"]:
        """Hold a stage of a folder; `beside` are the other stages of its experiment, which may be there, too.

        If the stage is there, it gets the new metadata, except those that are `kept`. With `replaces`, a folder
        of another run gets another name, which `replaces` is told. Raises InputError, with nothing changed, for a
        folder of another run or another experiment, or one that is held.
        """
        refuse_few_open_files()
        began, own, aside = time.monotonic() if started is None else started, {stage, *beside}, None
        try:
            _refuse_unlike(folder, stage, new, own)  # before anything is written: it may not be a run at all
        except InputError:
            if replaces is None or read_entries(folder) is None:
                raise
            aside = _set_aside(folder)
            replaces(f"{folder} held another run; that one is {aside} now")
        make_folder(folder)
        with locked(folder) as lock:
            run = _refuse_unlike(folder, stage, new, own)  # another process may have written it since
            if run is None:  # first of all: without it the folder would seem to be no run
                run = RunRecord(own_version(), {})
                run.write(folder)
            make_folder(folder / PARTS_FOLDER / stage)
            inner = [path for top in (PARTS_FOLDER, SESSIONS_FOLDER) for path in paths_in(folder / top)]
            for place in (folder, *filter(is_folder, inner)):
                remove_leftovers(place)
            # A new stage is recorded with its first work, so that a refused run leaves no trace.
            is_recorded = stage in run.stages
            known = run.stages.setdefault(stage, new)
            known.done = None
            with suppress(InputError):  # a marker that is damaged says nothing, so the stage is finished again
                known.done = read_done(folder, stage)
            new_session = msgspec.structs.replace(session or Session())
            held = cls(folder, stage, run, new_session, began, lock, is_recorded=is_recorded)
            held.aside = aside
            first = {key: known.metadata[key] for key in kept if key in known.metadata}
            if new.metadata and known.metadata != (newest := {**new.metadata, **first}):
                known.metadata = newest
                held._save()
            try:
                yield held
            except BaseException as error:
                ended_early(held.session, error)
                with suppress(InputError):  # the first error is the one to tell
                    held._save_session()
                raise
            held._save_session()

    @property
    def shard(self) -> Shard:
        return Shard.parse(self.record.shard or "1/1")

    @property
    def parts(self) -> range:
        return self.shard.parts(self.record.parts)

    @property
    def missing_parts(self) -> list[int]:
        """The numbers of the parts still to do, ascending; none once the stage is finished."""
        return [] if self.is_finished else self._undone

    @property
    def is_finished(self) -> bool:
        """Whether the stage is finished and its final files, or a shard's parts, are there as they were written."""
        if not self.record.finished:
            return False
        return not (unlike(self.folder, self.record.files) if self.shard.is_whole else self._undone)

    @property
    def _undone(self) -> list[int]:
        return [number for number in self.parts if number not in self._finished]

    def needed_bounds(self) -> dict[str, float]:
        """Pattern → the widest margin that the audit of any finished part asks for, in logits."""
        needed: dict[str, float] = {}
        for marker in self._finished.values():
            for pattern, bound in marker.needed.items():
                needed[pattern] = max(bound, needed.get(pattern, 0.0))
        return needed

    def narrower_parts(self, bounds: Mapping[str, float]) -> list[int]:
        """The finished parts that were decided with a narrower margin than one of these, if with any, ascending."""
        return [
            number
            for number, marker in sorted(self._finished.items())
            if any(marker.bounds.get(pattern, bound) < bound for pattern, bound in bounds.items())
        ]

    def write_part(self, number: int, part: EncodedPart) -> None:
        """Finish a part; raises InputError if it cannot be written, or has other columns than finished ones."""
        if self._columns is None and self._finished:
            self._columns = PartFiles(self.folder, self.stage, min(self._finished)).frame().schema
        self._columns = self._columns or part.schema
        refuse_other_columns(self.folder, self.stage, self._columns, part.schema)
        self.begin()
        self._unmark()
        if (before := self._finished.get(number)) is not None:  # a later process must know what its audit found
            part = part.with_findings(before)
        PartFiles(self.folder, self.stage, number).write(part)
        self._finished[number] = part.marker
        self.session.parts += 1
        self.session.sentences += part.tally.sentences
        self.session.tokens += part.tally.tokens
        self._save_session()  # with every part, so that a process that is killed leaves its time until now

    @property
    def choices(self) -> Choices | None:
        found = self.record.calibration
        return None if found is None else Choices(found, self.record.batch_tokens)

    def set_choices(self, choices: Choices) -> Choices:
        """Record what the run has chosen, so that every later process decides alike; returns it as it is read again."""
        self.record.calibration = as_json(choices.calibration)
        self.record.batch_tokens = choices.batch_tokens
        self._save()
        self.begin()
        return Choices(self.record.calibration, self.record.batch_tokens)

    def finish(self, publish: Publish) -> None:
        """Write the final files (a shard has none) and mark the stage as finished; ValueError if parts are missing."""
        if self.is_finished:
            return
        if missing := self.missing_parts:
            raise ValueError(f"parts {missing} of {self.stage} are not done")
        files: Files = {}
        if self.shard.is_whole:
            files = publish(put_together(self.folder, self.stage, self.record))
        self.begin()
        self._unmark()
        digests = {name: write_result(self.folder / name, content) for name, content in files.items()}
        done = Done(digests, summed_counts(marker for _, marker in sorted(self._finished.items())))
        self._held.refuse_taken()
        write_sealed(done_file(self.folder, self.stage), done)
        self.record.done = done

    def carry_stage(self, source: Path, stage: str) -> None:
        """Take over another folder's finished stage: its final files and its record, not its parts."""
        if source.resolve() == self.folder.resolve():
            return
        record = finished_stage(source, stage)
        known = self._run.stages.get(stage)
        done = None
        if known is not None:
            refuse_other_identity(self.folder, stage, known, record)
            with suppress(InputError):
                done = read_done(self.folder, stage)
            if done is not None and done.files != record.files:
                raise InputError(f"{self.folder}: its {stage} has other results than {source}; choose another --output")
        for name, digest in record.files.items():
            if unlike(self.folder, {name: digest}):
                write_bytes(self.folder / name, read_result(source, record, name))
        if done is None and record.done is not None:
            others = {name: own for name, own in self._run.stages.items() if name != stage}
            self._run.stages = {stage: record, **others}  # earlier stages stand first
            self._save()
            replace_sessions(self.folder, stage, record.sessions)
            write_sealed(done_file(self.folder, stage), record.done)

    def begin(self) -> None:
        """Record that this process works, unless another one has taken the folder; not if everything is finished."""
        self._held.refuse_taken()
        if self._session_file is not None:
            return
        if not self._is_recorded:
            self._save()
        begin_session(self.session, self._time())
        self.session.seconds = self._time()
        self._session_file = new_session_file(self.folder, self.stage)
        write_session(self._session_file, self.session)

    def _unmark(self) -> None:
        if self.record.done is not None:
            remove_file(done_file(self.folder, self.stage))
            self.record.done = None

    def _scan(self) -> dict[int, Marker]:
        finished = {}
        for number in self.parts:
            files = PartFiles(self.folder, self.stage, number)
            if (part := files.read()) is not None:
                finished[number] = part.marker
            else:
                files.remove()
        return finished

    def _time(self) -> float:
        """Seconds since this process began to work on the stage."""
        return round(time.monotonic() - self._started, 3)

    def _save_session(self) -> None:
        if self._session_file is not None:
            self.session.seconds = self._time()
            write_session(self._session_file, self.session)

    def _save(self) -> None:
        self._held.refuse_taken()
        self._run.negengine = own_version()
        self._run.write(self.folder)
        self._is_recorded = True


def _set_aside(folder: Path) -> Path:
    """Give a run folder another name, RUN.1 or a higher number, unless a process works in it; returns the new one."""
    refuse_held(folder)
    number = next(n for n in count(1) if not os.path.lexists(folder.with_name(f"{folder.name}.{n}")))
    aside = folder.with_name(f"{folder.name}.{number}")
    try:
        return folder.rename(aside)
    except OSError as error:
        raise InputError(f"{folder}: cannot be called {aside} ({error.strerror}); choose another --output") from None


def _refuse_unlike(folder: Path, stage: str, new: StageRecord, own: Collection[str]) -> RunRecord | None:
    run = read_entries(folder)
    refuse_links(folder / PARTS_FOLDER, folder / SESSIONS_FOLDER)
    if run is not None and stage in run.stages:
        refuse_other_identity(folder, stage, run.stages[stage], new)
    if run is not None and (other := next((name for name in run.stages if name not in own), None)):
        # Experiments give their files the same names: the second one would overwrite those of the first.
        raise InputError(
            f"{folder}: holds a run of {other}, and a folder holds one experiment; {ANOTHER_FOLDER.format(folder.name)}"
        )
    return run
