"""Shards: a run divided among jobs that know nothing of each other.

`--shard auto` finds in the environment which shard this process is. The environment of a task that is submitted again
describes a smaller array; `auto:FIRST-LAST` names the whole one instead. Where a batch system does not say enough, the
shard is refused: a wrong one would be found at the merge only.

Sources: the manuals of sbatch and srun (Slurm 24.11), "Job Arrays" of the PBS Professional User's Guide, "Multiple job
submission" of Torque 4.1, "Environment variables set for job execution" of IBM Spectrum LSF 10.1, submit(1) of Grid
Engine 8.1, "Distributed Multi-Node Jobs" of SkyPilot, "Indexed Job" of Kubernetes.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..basics.errors import InputError


@dataclass(frozen=True)
class Shard:
    """One shard of a stage: every `count`-th part, from the `index`-th (1-based)."""

    index: int = 1
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
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
_NOT_SET = {"", "undefined"}  # the latter is what Grid Engine says to jobs that are not tasks of an array
_ARRAY = "give the first and the last index of the whole array, such as --shard auto:0-15"

Environment = Mapping[str, str]


@dataclass(frozen=True)
class Indices:
    """The indices of a whole array: `first`, `first + step`, … up to `last`."""

    first: int
    last: int
    step: int

    @property
    def count(self) -> int:
        return (self.last - self.first) // self.step + 1

    def shard(self, index: int, variable: str, text: str) -> Shard:
        """The shard of a task; raises InputError if the array does not have this index."""
        past, between = divmod(index - self.first, self.step)
        if between or not 0 <= past < self.count:
            step = f", step {self.step}" if self.step > 1 else ""
            raise InputError(
                f"--shard {text}: {variable} is {index}, which is not an index of the array {self.first} to "
                f"{self.last}{step}; {_ARRAY}"
            )
        return Shard(past + 1, self.count)


@dataclass(frozen=True)
class _System:
    """A batch system: its variables with the index of a task and, where it tells them, those of the whole array."""

    name: str
    index: str
    last: str = ""
    first: str | int = 0  # a variable, or the index that every array begins with
    step: str = ""
    count: str = ""

    def array(self, variables: Environment, index: int) -> Indices:
        """The indices of all tasks; raises InputError if the system does not tell them, or not those of all."""
        told = {str(name): _number(variables, str(name)) for name in (self.count, self.first, self.last) if name}
        said = {name: value for name, value in told.items() if not name.isdigit()}
        if not said:
            raise InputError(
                f"--shard auto: {self.name} does not say how many tasks the array has ({self.index} is {index}): "
                f"{_ARRAY}"
            )
        if None in said.values():
            *names, last = said
            raise InputError(f"--shard auto: {', '.join(names)}{' or ' if names else ''}{last} is not set; {_ARRAY}")
        first = self.first if isinstance(self.first, int) else said[self.first] or 0
        step, count = _number(variables, self.step), said.get(self.count)
        if step == 0:
            raise InputError(f"--shard auto: {self.step} is 0, which is not the step of an array; {_ARRAY}")
        found = Indices(first, said[self.last] or 0 if self.last else first + (count or 1) - 1, step or 1)
        if self.last and (count or found.count) == 1:
            raise InputError(
                f"--shard auto: this {self.name} array has one task, {index}: if it belongs to a larger array, "
                f"{_ARRAY}; for a whole run remove --shard"
            )
        if count is not None and found.last - first != found.step * (count - 1):
            raise InputError(
                f"--shard auto: the {count} indices of this {self.name} array ({first} to {found.last}) are not evenly "
                f"spaced: are these some tasks of a larger array? Then {_ARRAY}"
            )
        return found


_SLURM = "SLURM_ARRAY_TASK_"
_SYSTEMS = (
    _System("Slurm", f"{_SLURM}ID", f"{_SLURM}MAX", f"{_SLURM}MIN", f"{_SLURM}STEP", f"{_SLURM}COUNT"),
    _System("PBS", "PBS_ARRAY_INDEX"),
    _System("Torque", "PBS_ARRAYID"),
    _System("LSF", "LSB_JOBINDEX", "LSB_JOBINDEX_END", 1, "LSB_JOBINDEX_STEP"),  # 0 outside of arrays
    _System("Grid Engine", "SGE_TASK_ID", "SGE_TASK_LAST", "SGE_TASK_FIRST", "SGE_TASK_STEPSIZE"),
    _System("SkyPilot", "SKYPILOT_NODE_RANK", count="SKYPILOT_NUM_NODES"),
    _System("Kubernetes", "JOB_COMPLETION_INDEX"),
)


def is_automatic(text: str) -> bool:
    """Whether a shard is to be found in the environment."""
    return text == AUTO or text.startswith(f"{AUTO}:")


def find_shard(text: str, environment: Environment | None = None) -> Shard:
    """Read `I/N`, `auto` or `auto:FIRST-LAST[:STEP]`; InputError for others, or where too little is said."""
    if not is_automatic(text):
        return Shard.parse(text)
    given = None
    if text != AUTO:
        whole = _RANGE.fullmatch(text)
        if whole is None or int(whole[1]) > int(whole[2]) or whole[3] == "0":
            wanted = "auto:FIRST-LAST, the indices of the whole array, such as auto:0-15"
            raise InputError(f"--shard {text}: must be {wanted}")
        given = Indices(int(whole[1]), int(whole[2]), int(whole[3] or 1))
    variables = os.environ if environment is None else environment
    step, found, systems = _srun(variables), dict[str, Shard](), []
    for system in _SYSTEMS:
        index, least = _number(variables, system.index), system.first if isinstance(system.first, int) else 0
        if index is not None and index >= least:  # else it is not a task of an array
            array = system.array(variables, index) if given is None else given
            found[f"{system.name} ({system.index}={index})"] = array.shard(index, system.index, text)
            systems.append(system.name)
    if given is not None and not found:
        raise InputError(f"--shard {text}: this process is not a task of a job array: give --shard I/N")
    if step is not None and set(systems) <= {"Slurm"}:
        outer = next(iter(found.values()), Shard())
        return Shard((outer.index - 1) * step.count + step.index, outer.count * step.count)
    if step is not None:
        found[f"srun (SLURM_PROCID={step.index - 1})"] = step
    if not found:
        names = ", ".join(["SLURM_PROCID of srun", *(system.index for system in _SYSTEMS[:-1])])
        tasks = _number(variables, "SLURM_NTASKS") or 1
        hint = f", or put srun before the command, which starts it {tasks} times" if tasks > 1 else ""
        raise InputError(
            f"--shard auto: no batch system says which shard this is ({names} and {_SYSTEMS[-1].index} are not set): "
            f"give --shard I/N{hint}"
        )
    if len(set(found.values())) > 1:
        told = " and ".join(f"{name} says {shard}" for name, shard in found.items())
        raise InputError(f"--shard {text}: {told}: give --shard I/N")
    return next(iter(found.values()))


def _srun(variables: Environment) -> Shard | None:
    """The share of a process among those that one `srun` has started; None for a batch script itself.

    A script has SLURM_PROCID=0 and SLURM_NTASKS, too, but is none of these tasks. `srun` alone sets SLURM_STEP_ID.
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


def _number(variables: Environment, name: str) -> int | None:
    text = variables.get(name, "").strip()
    if text in _NOT_SET:
        return None
    if not _NUMBER.fullmatch(text):
        raise InputError(f"--shard auto: {name} is {text!r}, which is not a whole number: give --shard I/N")
    return int(text)
