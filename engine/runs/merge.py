"""Merging: the shards of a run become one run, with the same results as an undivided run.

The parts of all shards are copied as they are. The stage is then finished by the same function as in a run that did
them all, so the results have the same bytes. Like a run, a merge that was interrupted is resumed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from ..errors import InputError
from ..files.paths import without_home
from ..files.reading import paths_in
from ..printable import counted
from .choices import joined, told_batches, told_differences
from .folder import RunFolder
from .part import EncodedPart, PartFiles
from .record import StageRecord, differences, read_run
from .results import resume_hint, whole_command
from .session import Session
from .shard import Shard
from .stage import Choices, Publish


def merge(
    shards: Sequence[Path],
    output: Path,
    publishers: Mapping[str, Publish],
    say: Callable[[str], None] = lambda _: None,
) -> str:
    """Put shards together and finish their stage.

    Args:
        shards: The folders of all shards of one stage of one run, in any order.
        output: The run folder to write: new, or the one whose selection the shards have scored.
        publishers: Stage → its `publish`.
        say: Receives one line for each pattern that the shards decided in different ways.

    Returns:
        The name of the merged stage; the folder's lock is given back.

    Raises:
        InputError: As for `gather`.
    """
    with gather(shards, output, publishers, say) as run:
        run.finish(publishers[run.stage])
    return run.stage


@contextmanager
def gather(
    shards: Sequence[Path], output: Path, stages: Mapping[str, Publish], say: Callable[[str], None] = lambda _: None
) -> Iterator[RunFolder]:
    """Hold a run folder with the parts of all shards, its stage not finished yet.

    Args:
        shards: As for `merge`.
        output: As for `merge`.
        stages: The known stages.
        say: As for `merge`.

    Raises:
        InputError: A folder is not a shard; a shard is missing, given twice, not finished, or of another run; parts
            must be decided again with a wider margin; the output is another run, in use, or cannot be written. The
            shards stay as they are.
    """
    found = [_read_shard(folder, stages) for folder in shards]
    _refuse_unlike(found)
    _refuse_incomplete(found)
    first = found[0]
    with RunFolder.create_or_resume(
        output,
        first.stage,
        first.record.identity,
        parts=first.record.parts,
        metadata=first.record.metadata,
        session=Session(merged=[without_home(folder) for folder in shards]),
    ) as run:
        for stage in first.earlier_stages:
            run.carry_stage(first.folder, stage)
        if not run.is_finished:
            run.take_sessions([replace(own, shard=str(s.shard)) for s in found for own in s.record.sessions])
        owners = {number: shard for shard in found for number in shard.parts}
        calibrations = {  # a shard without a part has none
            str(shard.shard): shard.record.calibration
            for shard in sorted(found, key=lambda shard: shard.shard.index)
            if shard.record.calibration is not None
        }
        batches = {str(s.shard): s.record.batch_tokens for s in found if s.record.calibration is not None}
        if run.choices is None and calibrations:
            run.set_choices(Choices(joined(calibrations), next(iter(batches.values()))))
        for line in [*told_differences(calibrations), *told_batches(batches)]:
            say(line)
        for number in run.missing_parts:
            run.write_part(number, owners[number].read(number))
        _refuse_narrower(run, owners)
        yield run


@dataclass(frozen=True)
class _ShardFolder:
    folder: Path
    stage: str
    shard: Shard
    record: StageRecord
    earlier_stages: tuple[str, ...]

    @property
    def parts(self) -> range:
        return self.shard.parts(self.record.parts)

    @property
    def undone(self) -> int:
        """How many parts have no marker. The folder is listed, as run.json could tell of any number of parts."""
        parts = PartFiles.of(self.folder, self.stage, 0).marker.parent
        there = {path.name for path in paths_in(parts)}
        if len(there) < len(self.parts):
            return len(self.parts) - sum(name.endswith(".json") for name in there)
        return sum(PartFiles.of(self.folder, self.stage, number).marker.name not in there for number in self.parts)

    def read(self, number: int) -> EncodedPart:
        files = PartFiles.of(self.folder, self.stage, number)
        if (part := files.read()) is None:
            raise InputError(f"{files.rows}: missing or damaged; shard {self.shard}: {resume_hint(self.record)}")
        return part


def _read_shard(folder: Path, known: Mapping[str, Publish]) -> _ShardFolder:
    stages = read_run(folder).stages
    sharded = [stage for stage, record in stages.items() if record.shard is not None and stage in known]
    if not sharded:
        raise InputError(f"{folder} is not a shard; merge takes folders that were made with --shard I/N")
    stage = sharded[-1]
    earlier = tuple(other for other in stages if other != stage)
    return _ShardFolder(folder, stage, Shard.parse(stages[stage].shard or ""), stages[stage], earlier)


def _refuse_unlike(found: Sequence[_ShardFolder]) -> None:
    """All shards are of one stage of one run, divided in one way."""
    if not found:
        raise InputError("no shards given; merge needs all of them")
    identities = [
        {"stage": s.stage, "shards": s.shard.count, "parts": s.record.parts, **s.record.identity} for s in found
    ]
    for shard, own in zip(found[1:], identities[1:], strict=True):
        if other := differences(identities[0], own, "there"):
            raise InputError(f"{found[0].folder} and {shard.folder} are of different runs: {other}")


def _refuse_incomplete(found: Sequence[_ShardFolder]) -> None:
    """Each shard is there once, with all its parts."""
    seen: dict[int, Path] = {}
    count = found[0].shard.count
    for shard in found:
        if shard.shard.index in seen:
            raise InputError(f"shard {shard.shard} is given twice: {seen[shard.shard.index]} and {shard.folder}")
        seen[shard.shard.index] = shard.folder
    if missing := [str(Shard(index, count)) for index in range(1, count + 1) if index not in seen]:
        raise InputError(f"shard {', '.join(missing)} is missing; merge needs all {count}")
    for shard in found:
        if undone := shard.undone:
            raise InputError(
                f"{shard.folder}: shard {shard.shard} is not finished ({undone} of {len(shard.parts)} parts are "
                f"missing); {resume_hint(shard.record)}"
            )


def _refuse_narrower(run: RunFolder, owners: Mapping[int, _ShardFolder]) -> None:
    """An audit in one shard can ask for a wider margin than the other shards had."""
    if narrower := run.narrower_parts(run.needed_bounds()):
        shards = {str(owners[number].shard): owners[number] for number in narrower}
        raise InputError(
            f"{run.folder}: an audit in one shard found a wrong decision, so {counted(len(narrower), 'part')} of shard "
            f"{', '.join(sorted(shards))} must be decided again with a wider margin; to do it: "
            f"{_whole_command(next(iter(shards.values())), run.folder)}"
        )


def _whole_command(shard: _ShardFolder, output: Path) -> str:
    """The command of the whole run that finishes the merged folder."""
    command = whole_command(shard.record, output)
    return command or f"run the command of a shard without --shard and with --output {output}"
