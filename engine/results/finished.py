"""`ng.open` and `ng.merge`: run folders of any probe; and the state of a run's shards (`negengine merge --status`)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from ..basics.errors import InputError
from ..basics.forks import refuse_forked
from ..basics.paths import shell_command
from ..basics.printable import counted
from ..experiments.registry import run_class, stages
from ..library.run import Run
from ..library.shown import Shown
from ..runs import merge as merging
from ..runs.divided import DividedRun, State, default_output, divided_run, find_shards
from ..runs.progress import Reporter, duration
from ..runs.results import begun_stages, resume_hint
from ..views import Column, Table


def open_run(folder: str | Path) -> Run:
    """Read a finished run of any probe.

    Args:
        folder: The run folder.

    Returns:
        The results of its last stage.

    Raises:
        InputError: The folder is not a run, its last stage is not finished, or no probe here reads it.
    """
    refuse_forked()
    path = Path(folder)
    name, record = next(reversed(begun_stages(path).items()))
    found = run_class(name)
    if found is None:
        if name in stages():
            state = "finished, but the run is not" if record.finished else "not finished"
            raise InputError(f"{path}: {name} is {state}; {resume_hint(path, record)}")
        raise InputError(f"{path}: no probe here reads the results of {name}; is the package that made them installed?")
    return found.open(path)


def merge(shards: str | Path | Sequence[str | Path], output: str | Path | None = None) -> Run:
    """Put the shards of a run together: the same bytes as one whole run.

    Args:
        shards: The folders of all shards of one run, in any order; or a pattern such as `runs/mini-*-of-4`; or the name
            of the whole run, `runs/mini`, if the shards have their default names; or a folder that holds them alone.
        output: The run folder to write; by default the shards' name without `-I-of-N`.

    Returns:
        The whole run.

    Raises:
        InputError: A shard is missing, not finished, or of another run; the output belongs to another run, or is not
            given and the names of the shards do not say it.
    """
    given = [shards] if isinstance(shards, str | Path) else shards
    folders = find_shards([Path(shard) for shard in given])
    whole = Path(output) if output is not None else default_output(folders)
    merging.merge(folders, whole, {name: stage.publish for name, stage in stages().items()}, Reporter().say)
    return open_run(whole)


@dataclass(frozen=True, eq=False)
class ShardsStatus(Shown):
    """The state of all shards of a run."""

    run: DividedRun
    output: Path | None  # where `merge` would write the whole run; None where the names of the folders do not say it
    now: datetime  # when this was found out

    @property
    def is_finished(self) -> bool:
        return self.run.is_finished

    def tables(self) -> list[Table]:
        rows = [
            {
                "shard": str(one.shard),
                "state": str(one.state),
                "parts": "" if one.parts is None else f"{one.done:,} of {one.parts:,}",
                "by": one.holder or "",
                "left": "" if one.seconds_left is None else duration(one.seconds_left),
                "last": "" if one.last is None else f"{duration(max((self.now - one.last).total_seconds(), 0))} ago",
                "folder": str(one.folder),
            }
            for one in self.run.shards
        ]
        frame = pl.DataFrame(rows)
        columns = [
            Column("changed" if name == "last" else name, name, wrap=name in {"by", "folder"})
            for name in frame.columns
            if name in {"shard", "state", "folder"} or (frame[name] != "").any()
        ]
        return [Table(f"Shards of {self.run.stage or 'a run that has not begun'}", frame, columns)]

    def remarks(self) -> list[str]:
        kinds = Counter(one.state for one in self.run.shards)
        told = [f"{counted(self.run.count, 'shard')}: {', '.join(f'{n} {state}' for state, n in kinds.items())}"]
        told += [f"{one.folder}: {one.state}: {one.reason}" for one in self.run.shards if one.reason]
        todo = [one for one in self.run.shards if one.state in {State.MISSING, State.STOPPED, State.FAILED}]
        told += [f"shard {one.shard}: {one.command}" for one in todo if one.command]
        if todo and not any(one.command for one in todo):
            numbers = ", ".join(str(one.shard) for one in todo)
            told.append(f"the shards have not recorded a command: run yours with --shard {numbers}")
        return told

    def closing(self) -> str:
        if self.is_finished:
            return f"all {self.run.count} shards are finished; next, `{self.merge_command}`"
        return f"not all of {self.run.count} shards are finished (status 3)"

    @property
    def merge_command(self) -> str:
        if self.output is not None:
            return shell_command(["negengine", "merge", str(self.output)])
        folders = [str(one.folder) for one in self.run.shards]
        return shell_command(["negengine", "merge", *folders, "--output", "RUN"])

    def document(self) -> dict[str, Any]:
        return {
            "stage": self.run.stage,
            "count": self.run.count,
            "finished": self.is_finished,
            "output": None if self.output is None else str(self.output),
            "merge": self.merge_command if self.is_finished else None,
            "shards": [
                {
                    **asdict(one),
                    "shard": str(one.shard),
                    "state": str(one.state),
                    "folder": str(one.folder),
                    "last": None if one.last is None else one.last.isoformat(timespec="seconds"),
                }
                for one in self.run.shards
            ],
        }


def shards_status(shards: Sequence[str | Path]) -> ShardsStatus:
    """The state of a run's shards, given as for `merge`; nothing is changed, and missing ones need not be given.

    Raises InputError if none of them is a shard, or they belong to several runs.
    """
    folders = find_shards([Path(shard) for shard in shards])
    try:
        output = default_output(folders)
    except InputError:
        output = None
    return ShardsStatus(divided_run(folders, stages()), output, datetime.now(UTC))
