"""Run folders: finished parts, and the record of how they were made; one process at a time.

    RUN/run.json       per stage: identity, shard, calibration, sessions, final files and their digests (`record`)
    RUN/parts/STAGE/   the finished parts (`part`)

A part is finished if its marker is there and its rows have the marker's digest. Resuming does all other parts: parts
that a kill, a full disk or a damaged file left unfinished are done again. The *identity* of a stage is everything that
its rows depend on. A folder with another identity is refused. A finished stage is known by its final files alone: its
parts may be removed. A shard has no final files, so a finished shard is known by its parts.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from ..errors import InputError
from ..files.atomic import make_folder, remove_leftovers, write_bytes
from ..files.limits import refuse_few_open_files
from ..versions import own_version
from .lock import locked
from .part import EncodedPart, Marker, PartFiles
from .record import FORMAT, PARTS_FOLDER, RunRecord, StageRecord, as_json, read_record, refuse_other_identity
from .results import finished_stage, put_together, read_result, summed_counts, unlike, write_result
from .session import Clock, Session, count_part, ended_early
from .shard import Shard
from .stage import Choices, Files, Publish


class RunFolder:
    """A stage of a run folder, held by this process; made by `create_or_resume`.

    Attributes:
        folder: The run folder.
        stage: Which stage is held.
        record: The stage's entry in run.json.
        session: Metadata of this process for run.json; more may be added.
    """

    def __init__(self, folder: Path, stage: str, run: RunRecord, session: Session, clock: Clock) -> None:
        self.folder = folder
        self.stage = stage
        self.record = run.stages[stage]
        self.session = session
        self._run = run
        self._clock = clock
        self._begun = False
        self._is_saved = False
        self._finished: dict[int, Marker] = {}
        if not (self.shard.is_whole and self.is_finished):
            self._finished = self._scan()

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
        metadata: Mapping[str, Any] | None = None,
        origin: Mapping[str, Any] | None = None,
        session: Session | None = None,
        started: float | None = None,
    ) -> Iterator["RunFolder"]:
        """Hold a stage of a run folder for this process.

        Args:
            folder: New, empty, or a run folder.
            stage: Such as `select`.
            identity: All that decides the stage's rows; JSON values.
            parts: Number of parts of the whole stage.
            shard: The shard that this folder holds; None for all.
            metadata: What else to record of the stage, such as where the model lies; the newest is kept.
            origin: What to record of the stage, such as the call that made it; the first is kept.
            session: What to record of this process.
            started: When this process began its work, in seconds of `time.monotonic`; now by default.

        Raises:
            InputError: The folder is something else, was made with another identity, is held by another process, or
                cannot be written; or too few files may be open. Nothing in it is changed then.
        """
        refuse_few_open_files()
        clock = Clock(started)
        shard = shard or Shard()
        new = StageRecord(
            identity=as_json(identity),
            parts=parts,
            shard=None if shard.is_whole else str(shard),
            metadata=as_json({**(origin or {}), **(metadata or {})}),
        )
        _refuse_unlike(folder, stage, new)  # before anything is written: it may not be a run at all
        make_folder(folder)
        with locked(folder):
            run = read_record(folder)
            if run is None:  # first of all: without it the folder would seem to be no run
                run = RunRecord(format=FORMAT, negengine=own_version(), stages={})
                run.write(folder)
            known = run.stages.get(stage)
            if known is not None:
                refuse_other_identity(folder, stage, known, new)
            remove_leftovers(folder)
            make_folder(folder / PARTS_FOLDER / stage)
            remove_leftovers(folder / PARTS_FOLDER / stage)
            # A new stage is recorded with its first work, so that a refused run leaves no trace.
            run.stages[stage] = known or new
            held = cls(folder, stage, run, msgspec.structs.replace(session or Session()), clock)
            first = {key: held.record.metadata[key] for key in origin or {} if key in held.record.metadata}
            if new.metadata and held.record.metadata != (newest := {**new.metadata, **first}):
                held.record.metadata = newest
                held._save()
            try:
                yield held
            except BaseException as error:
                ended_early(held.session, error)
                with suppress(InputError):  # the first error is the one to tell
                    held._close()
                raise
            held._close()

    @property
    def shard(self) -> Shard:
        """The shard of the stage that this folder holds."""
        return Shard.parse(self.record.shard or "1/1")

    @property
    def parts(self) -> range:
        """The numbers of all parts of this shard."""
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
        """The finished parts that were decided with a narrower margin than one of these, ascending.

        Parts that the reference model decided alone do not have a margin, and stay.
        """
        return [
            number
            for number, marker in sorted(self._finished.items())
            if any(marker.bounds.get(pattern, bound) < bound for pattern, bound in bounds.items())
        ]

    def write_part(self, number: int, part: EncodedPart) -> None:
        """Finish a part.

        A part that is decided again keeps what its first audit found: without that, a later process could not know that
        the other parts need the wider margin too, and the run would not tell of it.

        Raises:
            InputError: It cannot be written (see `atomic.write_atomically`).
        """
        self.begin()
        if self.record.finished:  # the final files do not match the parts any more
            self.record.finished = False
            self._save()
        if (before := self._finished.get(number)) is not None:
            part = part.with_findings(before)
        PartFiles.of(self.folder, self.stage, number).write(part)
        self._finished[number] = part.marker
        count_part(self.session, part.tally)
        self._clock.read(self.session)
        self._save()  # with every part, so that a process that is killed leaves its time until now

    @property
    def choices(self) -> Choices | None:
        """What the run has chosen; None before that."""
        found = self.record.calibration
        return None if found is None else Choices(found, self.record.kernels)

    def set_choices(self, choices: Choices) -> Choices:
        """Record what the run has chosen, so that every later process decides alike; returns it as it is read again."""
        self._note_begin()
        self.record.calibration = as_json(choices.calibration)
        self.record.kernels = as_json(choices.kernels)
        self._save()
        return Choices(self.record.calibration, self.record.kernels)

    def finish(self, publish: Publish) -> None:
        """Write the final files and mark the stage as finished. A shard has no final files: `merge` makes them.

        Raises:
            InputError: A part has been damaged since, or a file cannot be written.
            ValueError: Parts are missing.
        """
        if self.is_finished:
            return
        if missing := self.missing_parts:
            raise ValueError(f"parts {missing} of {self.stage} are not done")
        files: Files = {}
        if self.shard.is_whole:
            files = publish(put_together(self.folder, self.stage, self.record))
        self._note_begin()
        if self.record.finished:  # from now on until the end, the final files are not those of the parts
            self.record.finished = False
            self._save()
        self.record.files = {name: write_result(self.folder / name, content) for name, content in files.items()}
        self.record.counts = summed_counts(marker for _, marker in sorted(self._finished.items()))
        self.record.finished = True
        self._clock.read(self.session)
        self._save()
        self._is_saved = True

    def carry_stage(self, source: Path, stage: str) -> None:
        """Take over another folder's finished stage: its final files and its record, not its parts.

        Raises:
            InputError: The stage is not finished there, or this folder holds another one of that name.
        """
        if source.resolve() == self.folder.resolve():
            return
        record = finished_stage(source, stage)
        known = self._run.stages.get(stage)
        if known is not None:
            refuse_other_identity(self.folder, stage, known, record)
            if known.finished and known.files != record.files:
                raise InputError(f"{self.folder}: its {stage} has other results than {source}; choose another --output")
        for name, digest in record.files.items():
            if unlike(self.folder, {name: digest}):
                write_bytes(self.folder / name, read_result(source, record, name))
        if known is None or not known.finished:
            # Earlier stages stand first in run.json.
            stages = self._run.stages
            self._run.stages = {stage: record, **{name: stages[name] for name in stages if name != stage}}
            self._save()

    def take_sessions(self, sessions: list[Session]) -> None:
        """Put the sessions of merged shards in the place of those recorded."""
        self.record.sessions = sessions
        self._save()

    def begin(self) -> None:
        """Record that this process works: not done for one that finds everything finished."""
        if self._note_begin():
            self._save()

    def _note_begin(self) -> bool:
        """Note that this process works; whether that is new."""
        if self._begun:
            return False
        self._begun = True
        self._clock.begin(self.session)
        self.record.sessions = [*self.record.sessions, self.session]
        return True

    def _scan(self) -> dict[int, Marker]:
        finished = {}
        for number in self.parts:
            files = PartFiles.of(self.folder, self.stage, number)
            if (part := files.read()) is not None:
                finished[number] = part.marker
            else:
                files.remove()
        return finished

    def _close(self) -> None:
        if self._begun and not self._is_saved:
            self._clock.read(self.session)
            self._save()

    def _save(self) -> None:
        self._run.negengine = own_version()
        self._run.write(self.folder)


def _refuse_unlike(folder: Path, stage: str, new: StageRecord) -> None:
    run = read_record(folder)
    if run is not None and stage in run.stages:
        refuse_other_identity(folder, stage, run.stages[stage], new)
