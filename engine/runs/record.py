"""How a run was made, stage by stage, in files with the digest of their own content.

A *session* is one process that works on a stage. It only informs: its file is written with every finished part, but not
flushed, so a power cut can lose its last seconds. A damaged one is not read. None names a host or a user.
"""

import json
import platform
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from ..basics.atomic import is_leftover, make_folder, remove_file, write_bytes
from ..basics.errors import InputError, first_line, shortened
from ..basics.interrupts import was_interrupted
from ..basics.paths import is_file_name, without_home, without_home_inside
from ..basics.reading import MOST_JSON, LargerError, MissingFileError, exists, paths_in, read_regular
from ..basics.sealed import DamagedError, read_sealed, seal, unseal, write_sealed
from ..basics.versions import own_version, source_commit, versions
from ..inference.exported import ExportedModel
from ..inference.machine import machine
from .lock import LOCK_FILE
from .shard import Shard
from .stage import Choices

FORMAT = 6
RUN_FILE = "run.json"
PARTS_FOLDER = "parts"
SESSIONS_FOLDER = "sessions"
_DONE = ".done.json"
ANOTHER_FOLDER = "use --replace, which keeps the old run as {}.1, or another -o"
_REPAIR = "choose another --output, or run its command again into one"
PYTHON = "python"  # the command of a session that no script and no program has started
INTERRUPTED = "interrupted"  # why a session ended that a person or a batch system has stopped


class Session(msgspec.Struct, omit_defaults=True):
    """One process that works on a stage, as its file holds it."""

    command: str | None = None  # the command line; `python` for an interactive one
    again: str | None = None  # the same without --shard and --output; None for a script, a suite, a reproduction
    run: str | None = None  # the word of `again` that is a run folder: the run that it went on from
    started: str | None = None  # When it began, in UTC
    seconds: float | None = None  # From its begin to its end; of a process that was killed, to its last finished part
    negengine: str | None = None  # Version
    source: str | None = None  # commit of negengine's source, with `+changes` if files differ from it, if known
    python: str | None = None  # Version
    packages: dict[str, str] = {}  # Package → version, of those that decide a number
    machine: dict[str, Any] = {}  # See `negengine.engine.inference.machine.machine`
    # what each process that decides parts has opened; on a Ray cluster also its machine, and how many are alike
    workers: list[dict[str, Any]] = []
    precision: str | dict[str, str] | None = None  # One word, or pattern → word where patterns differ
    parts: int = 0  # number of parts that it has finished
    sentences: int = 0  # that its models have run, those of the calibration and the audit included
    tokens: int = 0  # Their tokens
    shard: str | None = None  # In a merged run: the shard that it worked on, as `I/N`
    merged: list[str] = []  # of a session that merged: the folders of the shards
    failed: str | None = None  # why it ended before its stage was finished; missing after a kill


def begin_session(session: Session, seconds: float) -> None:
    """Write down when a process began, so many seconds ago, what it runs, and on which machine."""
    session.started = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="seconds")
    session.negengine, session.source = own_version(), source_commit()
    session.python, session.packages = platform.python_version(), versions()
    session.machine = machine()


def used_models(session: Session, workers: Sequence[Mapping[str, Any]], choices: Choices) -> None:
    """Write down what a session has opened, and how it decides each pattern."""
    session.workers = [dict(worker) for worker in workers]
    kinds = {
        pattern: str(choice["precision"]) for pattern, choice in choices.calibration.items() if "precision" in choice
    }
    kinds = kinds or {
        str(worker.get("device")): str(worker["precision"]) for worker in workers if "precision" in worker
    }
    words = set(kinds.values())
    session.precision = kinds if len(words) > 1 else next(iter(words), None)


def ended_early(session: Session, error: BaseException) -> None:
    """Write down why a session ends before its stage is finished."""
    if was_interrupted(error):
        session.failed = INTERRUPTED
        return
    said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {first_line(error)}"
    session.failed = shortened(without_home_inside(said))


class Recorded(dict[str, Any]):
    """What run.json says of a stage. A key that it lacks is bad input, not a bug: the run may be from elsewhere."""

    def __missing__(self, key: str) -> Any:
        raise InputError(f"{RUN_FILE} does not say {key!r} of a stage, so it is not as negengine writes it; {_REPAIR}")


class StageEntry(msgspec.Struct):
    """What run.json holds of a stage."""

    identity: dict[str, Any]  # Everything that the stage's rows depend on
    parts: int  # number of parts of the whole stage
    shard: str | None = None  # the shard that the folder holds, as `I/N`; None for all
    metadata: dict[str, Any] = {}  # what publication and later readers need of the stage
    calibration: dict[str, dict[str, Any]] | None = None  # Pattern → how it is decided; None before it is known
    batch_tokens: int | None = None  # what the user gave as the most tokens of a batch; None for the usual number

    def __post_init__(self) -> None:
        self.identity, self.metadata = Recorded(self.identity), Recorded(self.metadata)
        if self.parts < 0:
            raise ValueError("parts must not be negative")
        if self.shard is not None:
            Shard.parse(self.shard)


class Done(msgspec.Struct):
    """The marker of a finished stage."""

    files: dict[str, str]  # Final file → its SHA-256; none of a shard
    counts: dict[str, int | float] = {}  # the parts' counts, summed
    format: int = FORMAT  # As in run.json

    def __post_init__(self) -> None:
        for name in self.files:  # it stays inside the folder and does not belong to a file with another purpose
            own, others = name.casefold(), {RUN_FILE, PARTS_FOLDER, SESSIONS_FOLDER}
            if not is_file_name(name) or name.startswith(".") or own in others or own.endswith(_DONE):
                raise ValueError(f"{name[:40]!r} is not the name of a final file")


class StageRecord(StageEntry):
    """All that is known of a stage: what run.json holds, its marker once it is finished, and its sessions."""

    done: Done | None = None
    sessions: list[Session] = []

    @classmethod
    def begun(cls, identity: Mapping[str, Any], shard: Shard, metadata: Mapping[str, Any], parts: int) -> "StageRecord":
        """A stage before its first part."""
        known, about = as_json(identity), as_json(metadata)
        return cls(known, parts, None if shard.is_whole else str(shard), about)

    @property
    def finished(self) -> bool:
        """Whether the final files were those of all parts when they were written."""
        return self.done is not None

    @property
    def files(self) -> Mapping[str, str]:
        return self.done.files if self.done else {}

    @property
    def counts(self) -> Mapping[str, int | float]:
        return self.done.counts if self.done else {}


class _Document(msgspec.Struct):
    format: int
    negengine: str
    stages: dict[str, StageEntry]

    def __post_init__(self) -> None:
        for name in self.stages:
            if not is_file_name(name):  # files are named after it
                raise ValueError(f"{name[:40]!r} is not the name of a stage")


class RunRecord(msgspec.Struct):
    """A run: the version that wrote run.json last, and the stages in the order in which they ran."""

    negengine: str
    stages: dict[str, StageRecord]

    def write(self, folder: Path) -> None:
        stages = {name: msgspec.convert(own, StageEntry, from_attributes=True) for name, own in self.stages.items()}
        write_sealed(folder / RUN_FILE, _Document(FORMAT, self.negengine, stages))


def read_record(folder: Path, only: str | None = None) -> RunRecord | None:
    """The record of a run folder, or None where none has begun; InputError for another folder, or a damaged file.

    `only` is the one stage that is wanted whole: the marker of another one may be damaged.
    """
    if (record := read_entries(folder)) is not None:
        for stage, own in record.stages.items():
            if only not in (None, stage):
                continue
            own.done = read_done(folder, stage)
            files = paths_in(folder / SESSIONS_FOLDER / stage, "*.json")  # in the order in which they began
            own.sessions = [session for path in files if (session := read_session(path)) is not None]
    return record


def read_run(folder: Path, only: str | None = None) -> RunRecord:
    """As `read_record`; raises InputError for another folder."""
    record = read_record(folder, only) if exists(folder / RUN_FILE) else None
    if record is None:
        model = " (it is an exported model)" if exists(folder / "export.json") else ""
        inside = sorted(path.parent for depth in ("*", "*/*", "*/*/*") for path in folder.glob(f"{depth}/{RUN_FILE}"))
        hint = f"; give a run inside, such as {inside[0]}" if inside else ""
        raise InputError(f"{folder} is not a run folder{model}: it has no {RUN_FILE}{hint}")
    return record


def read_entries(folder: Path) -> RunRecord | None:
    """As `read_record`, with what run.json alone holds."""
    try:
        found = read_sealed(folder / RUN_FILE, _Document, made_as=FORMAT, repair=_REPAIR)
    except MissingFileError:
        foreign = [entry.name for entry in paths_in(folder) if entry.name != LOCK_FILE and not is_leftover(entry)]
        if not foreign:
            return None
        raise InputError(
            f"{folder}: holds {foreign[0]!r} but no {RUN_FILE}, so it is not a run folder; choose another --output"
        ) from None
    stages = {name: msgspec.convert(own, StageRecord, from_attributes=True) for name, own in found.stages.items()}
    return RunRecord(found.negengine, stages)


def done_file(folder: Path, stage: str) -> Path:
    """The marker of a finished stage."""
    return folder / f"{stage}{_DONE}"


def read_done(folder: Path, stage: str) -> Done | None:
    """The marker of a stage; None if it is not finished. Raises InputError if it is damaged."""
    repair = f"to make it again, run the command of {stage} again"
    try:
        return read_sealed(done_file(folder, stage), Done, made_as=FORMAT, repair=repair)
    except MissingFileError:
        return None


def new_session_file(folder: Path, stage: str) -> Path:
    """A name for the session of a process that holds the folder: after those of all sessions before."""
    own = folder / SESSIONS_FOLDER / stage
    make_folder(own)
    return own / f"{len(paths_in(own, '*.json')) + 1:05d}-{secrets.token_hex(4)}.json"


def read_session(path: Path) -> Session | None:
    """The session of a file; None if it is damaged."""
    with suppress(MissingFileError, LargerError, DamagedError):
        return unseal(read_regular(path, MOST_JSON), Session)
    return None


def write_session(path: Path, session: Session) -> None:
    """Write the file of a session; a power cut can lose the newest one."""
    write_bytes(path, seal(session), flushed=False)


def replace_sessions(folder: Path, stage: str, sessions: Sequence[Session]) -> None:
    """Put sessions that other folders recorded in the place of those of a stage."""
    for path in paths_in(folder / SESSIONS_FOLDER / stage, "*.json"):
        remove_file(path)
    for session in sessions:
        write_session(new_session_file(folder, stage), session)


def differences(old: Mapping[str, Any], new: Mapping[str, Any], then: str = "now") -> str:
    """Each key whose values differ, as `seed 0, now 1` or `other data (sha256 …, now …)`; empty where there is none."""
    old, new = dict(old), dict(new)
    for key in old.keys() & new.keys():
        if isinstance(old[key], dict) and isinstance(new[key], dict):  # such as columns of rows: only those that differ
            old |= {f"{key}: {name}": value for name, value in old.pop(key).items()}
            new |= {f"{key}: {name}": value for name, value in new.pop(key).items()}
    keys = [key for key in {**old, **new} if key not in old or key not in new or old[key] != new[key]]
    told = []
    for key in keys:
        both = f"{_shown(old.get(key))}, {then} {_shown(new.get(key))}"
        what = key.removesuffix(" sha256")
        told.append(f"{key} {both}" if what == key else f"other {what} (sha256 {both})")
    return "; ".join(told)


def refuse_other_identity(folder: Path, stage: str, old: StageEntry, new: StageEntry) -> None:
    """Raise InputError if a stage was started with another model, other words or other options."""
    then, now = ({**side.identity, "parts": side.parts, "shard": side.shard} for side in (old, new))
    if changed := differences(then, now):
        raise InputError(f"{folder}: {stage} was made with {changed}: {ANOTHER_FOLDER.format(folder.name)}")


def as_json(value: Any) -> Any:
    """The value as it comes back from run.json, so that the two can be compared."""
    return json.loads(json.dumps(value))


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    most = 12 if re.fullmatch(r"[0-9a-f]{40,}", text) else 60  # characters
    return text if len(text) <= most else f"{text[:most]}…"


def model_metadata(exported: ExportedModel) -> dict[str, str]:
    """Where the model is, and its mask token."""
    return {"model folder": without_home(exported.folder.resolve()), "mask token": exported.mask_token}


def mask_token(metadata: Mapping[str, Any], folder: Path) -> str:
    """The mask token of a stage's model; raises InputError if it is not a text: the run may be from elsewhere."""
    token = metadata.get("mask token")
    if not isinstance(token, str):
        raise InputError(f"{folder}: run.json does not name the mask token; run the same command again to record it")
    return token
