"""Shards: a run divided among jobs that know nothing of each other.

`--shard auto`: which shard this process is, from the environment variables of a batch system.

    Slurm, job array     SLURM_ARRAY_TASK_ID, _COUNT, _MIN, _MAX, _STEP
    Slurm, srun          SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS; SLURM_STEP_ID says that srun started it
    OpenPBS, PBS Pro     PBS_ARRAY_INDEX; Torque: PBS_ARRAYID; neither says how many tasks there are
    LSF                  LSB_JOBINDEX (0 outside of arrays), LSB_JOBINDEX_END, LSB_JOBINDEX_STEP
    SkyPilot             SKYPILOT_NODE_RANK, SKYPILOT_NUM_NODES
    Kubernetes           JOB_COMPLETION_INDEX of an indexed Job; it does not say how many there are

A task of an array is submitted again with its own index alone. Its environment then describes a smaller array, which
would be another division of the run. `auto:FIRST-LAST` names the first and the last index of the whole array instead.
Where a batch system does not say enough, the shard is refused: a wrong one would be found at the merge only.

Sources: the manuals of sbatch and srun (Slurm 24.11), "Job Arrays" of the PBS Professional User's Guide, "Multiple job
submission" of Torque 4.1, "Environment variables set for job execution" of IBM Spectrum LSF 10.1, "Distributed
Multi-Node Jobs" of SkyPilot, "Indexed Job" of Kubernetes.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..basics.errors import InputError
from ..basics.paths import shell_command, words_of


@dataclass(frozen=True)
class Shard:
    """One shard of a stage: every `count`-th part, from the `index`-th (1-based)."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read `I/N`; raises InputError for another form, or if I is not one of 1 to N."""
        found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise InputError(f"--shard {text}: must be I/N with I from 1 to N, such as 1/4")
        return cls(int(found[1]), int(found[2]))

    def parts(self, n: int) -> range:
        """The numbers of the parts, of `n`, that are this shard's; none if there are more shards than parts."""
        return range(self.index - 1, n, self.count)

    @property
    def is_whole(self) -> bool:
        return self.count == 1

    @property
    def suffix(self) -> str:
        """What the names of the shard's folder end in: nothing for the whole run."""
        return "" if self.is_whole else f"-{self.index}-of-{self.count}"

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


AUTO = "auto"
_RANGE = re.compile(r"auto:([0-9]{1,9})-([0-9]{1,9})(?::([0-9]{1,9}))?")
_NUMBER = re.compile(r"[0-9]{1,9}")
_ARRAY = "give the first and the last index of the whole array, such as --shard auto:0-15"
_NONE = (
    "--shard auto: no batch system says which shard this is (SLURM_ARRAY_TASK_ID, SLURM_PROCID of srun, "
    "PBS_ARRAY_INDEX, PBS_ARRAYID, LSB_JOBINDEX, SKYPILOT_NODE_RANK and JOB_COMPLETION_INDEX are not set)"
)

Environment = Mapping[str, str]


@dataclass(frozen=True)
class Indices:
    """The indices of a whole array: `first`, `first + step`, … up to `last`."""

    first: int
    last: int
    step: int = 1

    @property
    def count(self) -> int:
        return (self.last - self.first) // self.step + 1

    def shard(self, index: int) -> Shard | None:
        """The shard of a task; None if the array does not have this index."""
        past, between = divmod(index - self.first, self.step)
        return None if between or not 0 <= past < self.count else Shard(past + 1, self.count)


@dataclass(frozen=True)
class _Task:
    """A task of a batch system: `variable` holds its index."""

    system: str
    variable: str
    index: int
    array: Indices


def is_automatic(text: str) -> bool:
    """Whether a shard is to be found in the environment."""
    return text == AUTO or text.startswith(f"{AUTO}:")


def is_guessed(text: str | None) -> bool:
    """Whether the environment alone says how many shards there are."""
    return text == AUTO


def find_shard(text: str, environment: Environment | None = None) -> Shard:
    """Read `I/N`, `auto` or `auto:FIRST-LAST[:STEP]`.

    Raises InputError for another form, if no batch system has started this process, or if it does not say enough.
    """
    if not is_automatic(text):
        return Shard.parse(text)
    given = None if text == AUTO else _given(text)
    variables = os.environ if environment is None else environment
    step = _srun(variables)
    tasks = [task for read in _ARRAYS if (task := read(variables, given)) is not None]
    if given is not None and not tasks:
        raise InputError(f"--shard {text}: this process is not a task of a job array: give --shard I/N")
    found = {f"{task.system} ({task.variable}={task.index})": _shard_of(task, text) for task in tasks}
    if step is not None and not [task for task in tasks if task.system != "Slurm"]:
        outer = next(iter(found.values()), Shard())
        return Shard((outer.index - 1) * step.count + step.index, outer.count * step.count)
    if step is not None:
        found[f"srun (SLURM_PROCID={step.index - 1})"] = step
    if not found:
        raise InputError(f"{_NONE}: give --shard I/N{_hint_on_srun(variables)}")
    if len(set(found.values())) > 1:
        told = " and ".join(f"{name} says {shard}" for name, shard in found.items())
        raise InputError(f"--shard {text}: {told}: give --shard I/N")
    return next(iter(found.values()))


def changed_command(command: str, **options: object) -> str | None:
    """A recorded command line with other values of options; None removes one. The rest stays as it was typed.

    None if it is not a command line of negengine, but a script's.
    """
    try:
        program, *words = words_of(command)
    except ValueError:
        return None
    if Path(program).name != "negengine":
        return None
    kept, rest = [program], iter(words)
    for word in rest:
        name, _, value = word.partition("=") if word.startswith("--") else (word[:2], "", word[2:])
        name = "--output" if name == "-o" else name
        if not name.startswith("--") or name.removeprefix("--") not in options:
            kept.append(word)
        elif not value:
            next(rest, None)
    for option, new in options.items():
        kept += [] if new is None else [f"--{option}", str(new)]
    return shell_command(kept)


def _given(text: str) -> Indices:
    found = _RANGE.fullmatch(text)
    if found is None or int(found[1]) > int(found[2]) or found[3] == "0":
        raise InputError(f"--shard {text}: must be auto:FIRST-LAST, the indices of the whole array, such as auto:0-15")
    return Indices(int(found[1]), int(found[2]), int(found[3] or 1))


def _shard_of(task: _Task, text: str) -> Shard:
    shard = task.array.shard(task.index)
    if shard is None:
        step = f", step {task.array.step}" if task.array.step > 1 else ""
        raise InputError(
            f"--shard {text}: {task.variable} is {task.index}, which is not an index of the array {task.array.first} "
            f"to {task.array.last}{step}; {_ARRAY}"
        )
    return shard


def _slurm(variables: Environment, given: Indices | None) -> _Task | None:
    name = "SLURM_ARRAY_TASK_"
    index = _number(variables, f"{name}ID")
    if index is None:
        return None
    if given is None:
        count, first, last = (_number(variables, f"{name}{key}") for key in ("COUNT", "MIN", "MAX"))
        step = _number(variables, f"{name}STEP") or 1
        if count is None or first is None or last is None:
            raise InputError(f"--shard auto: {name}COUNT, {name}MIN or {name}MAX is not set; {_ARRAY}")
        if count == 1:
            raise _single("Slurm", index)
        if last - first != step * (count - 1):
            raise InputError(
                f"--shard auto: the {count} indices of this Slurm array ({first} to {last}) are not evenly spaced: are "
                f"these some tasks of a larger array? Then {_ARRAY}"
            )
        given = Indices(first, last, step)
    return _Task("Slurm", f"{name}ID", index, given)


def _lsf(variables: Environment, given: Indices | None) -> _Task | None:
    index = _number(variables, "LSB_JOBINDEX")
    if not index:  # 0: not a task of an array
        return None
    if given is None:
        last = _number(variables, "LSB_JOBINDEX_END")
        if last is None:
            raise InputError(f"--shard auto: LSB_JOBINDEX_END is not set; {_ARRAY}")
        if last == 1:
            raise _single("LSF", index)
        given = Indices(1, last, _number(variables, "LSB_JOBINDEX_STEP") or 1)  # LSF does not tell the first one
    return _Task("LSF", "LSB_JOBINDEX", index, given)


def _openpbs(variables: Environment, given: Indices | None) -> _Task | None:
    return _uncounted("PBS", "PBS_ARRAY_INDEX", variables, given)


def _torque(variables: Environment, given: Indices | None) -> _Task | None:
    return _uncounted("Torque", "PBS_ARRAYID", variables, given)


def _kubernetes(variables: Environment, given: Indices | None) -> _Task | None:
    return _uncounted("Kubernetes", "JOB_COMPLETION_INDEX", variables, given)


def _uncounted(system: str, variable: str, variables: Environment, given: Indices | None) -> _Task | None:
    """A task of a system that does not say how many tasks there are."""
    index = _number(variables, variable)
    if index is None:
        return None
    if given is None:
        raise InputError(
            f"--shard auto: {system} does not say how many tasks the array has ({variable} is {index}): {_ARRAY}"
        )
    return _Task(system, variable, index, given)


def _skypilot(variables: Environment, given: Indices | None) -> _Task | None:
    rank, nodes = _number(variables, "SKYPILOT_NODE_RANK"), _number(variables, "SKYPILOT_NUM_NODES")
    if rank is None or (given is None and not nodes):
        return None
    return _Task("SkyPilot", "SKYPILOT_NODE_RANK", rank, given or Indices(0, (nodes or 1) - 1))


_ARRAYS = (_slurm, _openpbs, _torque, _lsf, _skypilot, _kubernetes)


def _srun(variables: Environment) -> Shard | None:
    """The share of a process among those that one `srun` has started; None for a batch script itself.

    A batch script has SLURM_PROCID=0, too, and SLURM_NTASKS if the job asks for tasks. It runs once, so it is not one
    of these tasks. `srun` alone sets SLURM_STEP_ID.
    """
    number = _number(variables, "SLURM_PROCID")
    count = _number(variables, "SLURM_STEP_NUM_TASKS") or _number(variables, "SLURM_NTASKS")
    started = "SLURM_STEP_ID" in variables or "SLURM_STEPID" in variables
    is_script = not started and ("SLURM_JOB_ID" in variables or "SLURM_ARRAY_TASK_ID" in variables)
    if number is None or count is None or (is_script and number == 0):
        return None
    if is_script or number >= count:
        raise InputError(
            f"--shard auto: SLURM_PROCID is {number}, of {count} tasks"
            f"{', and SLURM_STEP_ID is not set' if is_script else ''}: give --shard I/N"
        )
    return Shard(number + 1, count)


def _hint_on_srun(variables: Environment) -> str:
    count = _number(variables, "SLURM_NTASKS") or 1
    return f", or put srun before the command, which starts it {count} times" if count > 1 else ""


def _single(system: str, index: int) -> InputError:
    return InputError(
        f"--shard auto: this {system} array has one task, {index}: if it belongs to a larger array, {_ARRAY}; for a "
        "whole run remove --shard"
    )


def _number(variables: Environment, name: str) -> int | None:
    text = variables.get(name, "").strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise InputError(f"--shard auto: {name} is {text!r}, which is not a whole number: give --shard I/N")
    return int(text)
