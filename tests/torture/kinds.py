"""All kinds of faults, in the order of the table."""

from dataclasses import dataclass

from . import calls, damage, stops, surroundings
from .bench import Kind
from .cases import Case

REAL = "real-commands"
LOOPS = ("kill-calls", "error-once", "error-lasting", "short-write", "power-cut")
"""Kinds that take every call of a run in turn, and come to an end."""


@dataclass(frozen=True)
class Entry:
    """A kind of fault."""

    faults: Kind  # makes faults, one after the other
    weight: float = 1  # its share of the time
    only_runs: bool = False  # whether it is not for exports
    devices: bool = False  # whether it needs a command with `--device`

    def applies(self, case: Case) -> bool:
        return not (case.exports and self.only_runs) and not (self.devices and ("merge" in case.name or case.exports))


KINDS = {
    "kill-calls": Entry(stops.kills_at_calls, 3),
    "kill-instants": Entry(stops.kills_at_instants, 2),
    "kill-again": Entry(stops.killed_again),
    "signals": Entry(stops.signals, 2),
    "error-once": Entry(calls.single_errors, 4),
    "error-lasting": Entry(calls.lasting_errors, 4),
    "short-write": Entry(calls.cut_writes),
    "power-cut": Entry(calls.power_cuts, 2),
    "torn-file": Entry(damage.torn_files, 2, only_runs=True),
    "flipped-bit": Entry(damage.flipped_bits, 5, only_runs=True),
    "damage-and-stop": Entry(damage.damaged_and_stopped, 3, only_runs=True),
    "kill-and-error": Entry(calls.killed_and_failing, 2, only_runs=True),
    "disk-full": Entry(surroundings.full_disk),
    "disk-full-twice": Entry(surroundings.twice_full_disk),
    "disk-tiny": Entry(surroundings.tiny_disk),
    "disk-read-only": Entry(surroundings.read_only_disk),
    "disk-slow": Entry(surroundings.slow_disk, only_runs=True),
    "file-size": Entry(surroundings.limited_file_size),
    "together": Entry(surroundings.together),
    "devices": Entry(surroundings.parents, devices=True),
    "clock": Entry(surroundings.wrong_clock),
    "open-files": Entry(surroundings.few_open_files),
}
