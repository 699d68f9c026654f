"""What the limits of containers and cluster jobs leave to this process (Linux control groups)."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from .errors import InputError

LEAST_MEMORY = 1_300_000 * 1024  # bytes, with which two cores have been seen to work; with 1,000,000 KiB they do not
CONTROL_GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def control_groups() -> Iterator[Path]:
    """The folder of this process's control group (version 2), and of each group that it is in; none elsewhere."""
    with suppress(OSError, IndexError):
        own = OWN_GROUPS.read_text().splitlines()[-1].rpartition(":")[2]
        group = CONTROL_GROUPS / own.strip("/")
        for level in (group, *group.parents):
            yield level
            if level == CONTROL_GROUPS:
                return


def cpu_quota() -> float:
    """How many CPUs' time this process may use: a container's `--cpus`, a pod's limit; infinite without one."""
    quotas = [float("inf")]
    for level in control_groups():
        with suppress(OSError, ValueError):
            quota, period = (level / "cpu.max").read_text().split()
            quotas.append(int(quota) / int(period))  # `max` is not a number: there is no limit
    with suppress(OSError, ValueError, ZeroDivisionError):  # version 1, as a container sees its own group
        quota, period = ((CONTROL_GROUPS / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        if int(quota) > 0:
            quotas.append(int(quota) / int(period))
    return min(quotas)


def refuse_little_memory() -> None:
    """Refuse a limit of this process (`ulimit -v`, `-d`) below which the libraries abort, or wait for ever."""
    with suppress(ImportError):  # Windows
        import resource  # noqa: PLC0415

        for letter, limit in (("v", resource.RLIMIT_AS), ("d", resource.RLIMIT_DATA)):
            if 0 <= (bytes_ := resource.getrlimit(limit)[0]) < LEAST_MEMORY:
                told = f"ulimit -{letter} {bytes_ // 1024}: this is too little memory to open a model"
                raise InputError(f"{told}; set {LEAST_MEMORY // 1024} or more")


def cpu_threads() -> int:
    """Cores that this process may use: fewer than the machine has, inside a container or a batch job."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min(cores, cpu_quota())))
