"""The commands that are tortured: each with the folder that it starts from, and what it gives undisturbed."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .child import Ended
from .compare import Snapshot, snapshot
from .world import World, copy_tree

ONE_THREAD = ("--threads", "1")
Run = Callable[[Sequence[str], Path], Ended]
"""Runs arguments of `negengine` in a folder, undisturbed."""


@dataclass(frozen=True)
class Case:
    """A command."""

    name: str  # as the table shows it
    arguments: tuple[str, ...]  # of `negengine`; paths are relative to the folder in which it runs, or absolute
    earlier: tuple[tuple[str, ...], ...] = ()  # commands whose results it needs
    result: str = "run"  # the folder that it writes
    exports: bool = False  # whether it needs PyTorch

    @property
    def stage(self) -> str:
        return {"merge": "select"}.get(self.name.split()[0], self.name.split()[0])


def cases(world: World) -> list[Case]:
    """The matrix: select, score, a probe, merge, export; fp32, mixed, lazy."""
    words = ("--lexicon", str(world.words), *ONE_THREAD)
    select = ("select", str(world.model), *words, "--max-verbs", "4", "-o", "run")
    score = ("score", "run", *ONE_THREAD)
    fp32, mixed = ("--precision", "fp32"), ("--precision", "mixed")
    shards = [("-o", f"shard{i}", "--shard", f"{i}/3") for i in (1, 2, 3)]
    merge = ("merge", "shard1", "shard2", "shard3", "-o", "run")
    probe = ("diagnostics", str(world.model), "--data", str(world.tables), *ONE_THREAD, "-o", "run")
    return [
        Case("select fp32", (*select, *fp32)),
        Case("select mixed", (*select, *mixed)),
        Case("select lazy", (*select, *fp32, "--lazy")),
        Case("score fp32", (*score, *fp32), ((*select, *fp32),)),
        Case("score mixed", (*score, *mixed), ((*select, *fp32),)),
        Case("diagnostics", probe),
        Case("merge fp32", merge, tuple((*select[:-2], *fp32, *shard) for shard in shards)),
        Case("merge mixed", merge, tuple((*select[:-2], *mixed, *shard) for shard in shards)),
        Case("export", ("export", str(world.checkpoint), "-o", "run"), exports=True),
    ]


def real_cases(world: World) -> list[Case]:
    """Runs of at least ten parts for the installed program, whose parts have their usual sizes."""
    select = ("select", str(world.model), "--lexicon", str(world.many_words), "--lazy", "--max-verbs", "2", "-o", "run")
    return [
        Case("select lazy", (*select, "--precision", "fp32")),
        Case("select lazy mixed", (*select, "--precision", "mixed")),
    ]


@dataclass(frozen=True)
class Prepared:
    """A case, ready to be run again and again."""

    case: Case  # the case
    start: Path  # a copy of the folder before the command
    whole: Path  # a copy of it after the undisturbed command
    expected: Snapshot = field(repr=False)  # the files of the result
    seconds: float  # how long the undisturbed command took
    outputs: frozenset[str] = field(repr=False)  # what it printed; also run once more, when everything was finished

    def reset(self, folder: Path) -> None:
        copy_tree(self.start, folder)

    def files(self, folder: Path) -> Snapshot:
        return snapshot(folder / self.case.result)


class UndisturbedError(Exception):
    """A command fails, or gives different bytes, without any fault."""


def prepare(case: Case, run: Run, folder: Path, work: Path) -> Prepared:
    """Run a case undisturbed, twice: both runs must give the same bytes.

    Raises:
        UndisturbedError: They do not.
    """
    start, whole = folder / "start", folder / "whole"
    copy_tree(start, work)
    for arguments in case.earlier:
        _must_work(run(arguments, work), arguments)
    copy_tree(work, start)
    end = _must_work(run(case.arguments, work), case.arguments)
    copy_tree(work, whole)
    expected = snapshot(work / case.result)
    again = _must_work(run(case.arguments, work), case.arguments)
    prepared = Prepared(case, start, whole, expected, end.seconds, frozenset({end.out, again.out}))
    if prepared.files(work) != expected:
        raise UndisturbedError(f"{case.name}: a finished run changes when its command is run again")
    prepared.reset(work)
    _must_work(run(case.arguments, work), case.arguments)
    if different := expected.differences(prepared.files(work)):
        raise UndisturbedError(f"{case.name}: two undisturbed runs differ in {', '.join(different)}")
    shutil.rmtree(work)
    return prepared


def _must_work(end: Ended, arguments: Sequence[str]) -> Ended:
    if end.status != 0:
        raise UndisturbedError(f"{' '.join(arguments)}: status {end.status}\n{end.err}")
    return end
