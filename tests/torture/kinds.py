"""All kinds of faults, in the order of the table."""

from dataclasses import dataclass

from . import calls, damage, stops, surroundings
from .cases import Case
from .trial import Kind


@dataclass(frozen=True)
class Entry:
    """A kind of fault."""

    faults: Kind  # makes faults, one after the other
    weight: float = 1  # its share of the time
    ends: bool = False  # whether it takes every call of a run in turn, and comes to an end
    only_runs: bool = False  # whether it is not for exports
    devices: bool = False  # whether it needs a command with `--device`
    installed: bool = False  # whether it starts the installed program

    def applies(self, case: Case) -> bool:
        return not (case.exports and self.only_runs) and not (self.devices and ("merge" in case.name or case.exports))


KINDS = {
    "kill-calls": Entry(stops.kills_at_calls, 3, ends=True),
    "kill-instants": Entry(stops.kills_at_instants, 2),
    "kill-again": Entry(stops.killed_again),
    "signals": Entry(stops.signals, 2),
    "error-once": Entry(calls.single_errors, 4, ends=True),
    "error-lasting": Entry(calls.lasting_errors, 4, ends=True),
    "short-write": Entry(calls.cut_writes, ends=True),
    "power-cut": Entry(calls.power_cuts, 2, ends=True),
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
    "real-commands": Entry(stops.real_commands, 3, installed=True),
}
