"""Merging: the parts of all shards become one run, with the same bytes as an undivided run; it can be resumed.

On different kinds of processors the models' numbers differ in their last digits, and `auto` may find mixed precision
faster on one kind only. Decisions are exact in each precision, and each row says which model gave its numbers. So such
shards are merged, and the merged run records all choices.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..basics.choices import Precision
from ..basics.errors import InputError
from ..basics.paths import without_home
from ..basics.printable import counted
from .divided import ShardFolder
from .folder import RunFolder
from .part import PartFiles, marked_parts
from .record import Session, StageRecord, differences, read_run, replace_sessions
from .results import resume_hint, shard_command
from .shard import Shard
from .stage import LOW_PRECISION_SHA256, Choices, Publish

Calibration = Mapping[str, Mapping[str, Any]]
# They decide nothing once the precision is chosen.
_SPEEDS = {"speed_ratio", "speedup", "reason", "taken_from", "answers_sha256"}


def merge(
    shards: Sequence[Path], output: Path, publishers: Mapping[str, Publish], say: Callable[[str], None] = lambda _: None
) -> None:
    """Put shards together, and finish their stage. The shards stay as they are.

    Raises InputError if a folder is not a shard; a shard is missing, given twice, not finished, or of another run;
    parts must be decided again with a wider margin; or the output is another run, in use, or cannot be written.
    """
    found = [_shard(folder, publishers) for folder in shards]
    _refuse_other_than_whole_set(found)
    first = found[0]
    whole = StageRecord(first.record.identity, first.record.parts, metadata=first.record.metadata)
    session = Session(merged=[without_home(folder) for folder in shards])
    with RunFolder.create_or_resume(output, first.stage, whole, beside=first.earlier, session=session) as run:
        for stage in first.earlier:
            run.carry_stage(first.folder, stage)
        if not run.is_finished:
            sessions = [replace(own, shard=str(s.shard)) for s in found for own in s.record.sessions]
            replace_sessions(output, first.stage, sessions)
        owners = {number: shard for shard in found for number in shard.parts}
        calibrations = {  # a shard without a part has none
            str(shard.shard): shard.record.calibration
            for shard in sorted(found, key=lambda shard: shard.shard.index)
            if shard.record.calibration is not None
        }
        batches = {str(s.shard): s.record.batch_tokens for s in found if s.record.calibration is not None}
        if run.choices is None and calibrations:
            run.set_choices(Choices(joined(calibrations), next(iter(batches.values()))))
        for line in told_differences(calibrations, batches):
            say(line)
        for number in run.missing_parts:
            own = owners[number]
            files = PartFiles(own.folder, own.stage, number)
            if (part := files.read()) is None:
                hint = resume_hint(own.folder, own.record)
                raise InputError(f"{files.rows}: missing or damaged; shard {own.shard}: {hint}")
            run.write_part(number, part)
        if narrower := run.narrower_parts(run.needed_bounds()):  # an audit in one shard asks for a wider margin
            again = {str(owners[number].shard): owners[number] for number in narrower}
            command = shard_command(next(iter(again.values())).record, run.folder, None)
            command = command or f"run the command of a shard without --shard and with --output {run.folder}"
            raise InputError(
                f"{run.folder}: an audit in one shard found a wrong decision, so {counted(len(narrower), 'part')} of "
                f"shard {', '.join(sorted(again))} must be decided again with a wider margin; to do it: {command}"
            )
        run.finish(publishers[run.stage])


def _shard(folder: Path, known: Mapping[str, Publish]) -> ShardFolder:
    read_run(folder)  # which refuses what is not a run
    if not (found := ShardFolder.read(folder, known)).stage:
        raise InputError(f"{folder} is not a shard; merge takes folders that were made with --shard I/N")
    return found


def _refuse_other_than_whole_set(found: Sequence[ShardFolder]) -> None:
    if not found:
        raise InputError("no shards given; merge needs all of them")
    for shard in found[1:]:
        if other := differences(found[0].run, shard.run, "there"):
            raise InputError(f"{found[0].folder} and {shard.folder} are of different runs: {other}")
    seen: dict[int, Path] = {}
    count = found[0].shard.count
    for shard in found:
        if shard.shard.index in seen:
            raise InputError(f"shard {shard.shard} is given twice: {seen[shard.shard.index]} and {shard.folder}")
        seen[shard.shard.index] = shard.folder
    if missing := [str(Shard(index, count)) for index in range(1, count + 1) if index not in seen]:
        raise InputError(f"merge needs all {count} shards; missing: {', '.join(missing)}")
    for shard in found:
        if undone := len(shard.parts) - sum(n in shard.parts for n in marked_parts(shard.folder, shard.stage)):
            raise InputError(
                f"{shard.folder}: shard {shard.shard} is not finished ({undone} of {len(shard.parts)} parts are "
                f"missing); {resume_hint(shard.folder, shard.record)}"
            )


def joined(shards: Mapping[str, Calibration]) -> dict[str, dict[str, Any]]:
    """Pattern → the choice of the first shard in mixed precision, which can widen it; `shards` holds different ones."""
    whole = {}
    for pattern in dict.fromkeys(pattern for choices in shards.values() for pattern in choices):
        own = {shard: dict(choices[pattern]) for shard, choices in shards.items() if pattern in choices}
        mixed = [choice for choice in own.values() if choice.get("precision") == Precision.MIXED]
        chosen = [*mixed, *own.values()][0]
        differ = any(choice != chosen for choice in own.values())
        whole[pattern] = {**chosen, **({"shards": own} if differ else {})}
    return whole


def told_differences(shards: Mapping[str, Calibration], batches: Mapping[str, int | None]) -> list[str]:
    """A line for each pattern that shards decided differently, and one for different sizes of batches (in tokens)."""
    lines = []
    for pattern in dict.fromkeys(pattern for choices in shards.values() for pattern in choices):
        own = {shard: choices[pattern] for shard, choices in shards.items() if pattern in choices}
        low = {shard: f" ({choice['low_precision']})" for shard, choice in own.items() if "low_precision" in choice}
        ways = {shard: f"in {choice.get('precision')}{low.get(shard, '')}" for shard, choice in own.items()}
        deciding = [{key: value for key, value in choice.items() if key not in _SPEEDS} for choice in own.values()]
        if len(set(ways.values())) > 1:
            lines.append(
                f"{pattern}: the shards were decided in different precisions: {_told(ways)}. The decisions are exact "
                "in each. The log-probabilities are those of the model that the column `precision` names"
            )
        elif any(choice != deciding[0] for choice in deciding):
            models = {choice.get(LOW_PRECISION_SHA256) for choice in deciding}
            why = "with different low-precision models" if len(models) > 1 else "on different kinds of processors"
            lines.append(
                f"{pattern}: the shards were calibrated {why}. The decisions are exact; the "
                "low-precision model's log-probabilities can differ from those of an undivided run"
            )
    if len(set(batches.values())) > 1:
        told = _told({shard: f"with {f'{own} tokens' if own else 'the usual ones'}" for shard, own in batches.items()})
        lines.append(f"the shards ran in different batches: {told}. The last digits of log-probabilities can differ")
    return lines


def _told(ways: Mapping[str, str]) -> str:
    """Shard → its way, as `1/3, 3/3 in fp32; 2/3 in mixed`."""
    members = {way: [shard for shard, own in ways.items() if own == way] for way in ways.values()}
    return "; ".join(f"{', '.join(shards)} {way}" for way, shards in members.items())
