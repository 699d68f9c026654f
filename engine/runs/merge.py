"""`negengine merge`: the shards of a run become what the whole run would have been.

The parts of all shards are copied as they are, and the stage is then finished by the same function as in a run that did
them all, so the results have the same bytes. Like a run, a merge that was interrupted is resumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..negation import score, select
from .folder import Part, RunFolder, Shard, differences, read_run

_PUBLISH = {select.STAGE: select.publish, score.STAGE: score.publish}


def merge(shards: Sequence[Path], output: Path) -> RunFolder:
    """Put shards together and finish their stage.

    Args:
        shards: The folders of all shards of one stage of one run, in any order.
        output: The run folder to write: new, or the one whose selection the shards have scored.

    Returns:
        The finished run; its lock is given back.

    Raises:
        InputError: As `gather`.
    """
    with gather(shards, output) as run:
        _PUBLISH[run.stage](run)
    return run


@contextmanager
def gather(shards: Sequence[Path], output: Path) -> Iterator[RunFolder]:
    """Hold a run folder with the parts of all shards, its stage not finished yet.

    Raises:
        InputError: A folder is no shard; a shard is missing, given twice, not finished, or of another run; the output
            is another run, in use, or cannot be written. The shards stay as they are.
    """
    found = [_read_shard(folder) for folder in shards]
    _refuse_unlike(found)
    _refuse_incomplete(found)
    first = found[0]
    with RunFolder.create_or_resume(
        output,
        first.stage,
        first.record["identity"],
        parts=first.record["parts"],
        about=first.record["about"],
        session={"merged": [str(folder) for folder in shards]},
    ) as run:
        for stage in first.earlier_stages:
            run.carry_stage(first.folder, stage)
        if not run.is_finished:
            run.take_sessions([{"shard": str(s.shard), **session} for s in found for session in s.record["sessions"]])
        owners = {number: shard for shard in found for number in shard.parts}
        for number in run.missing_parts:
            run.copy_part(number, *owners[number].read(number))
        yield run


@dataclass(frozen=True)
class _ShardFolder:
    folder: Path
    stage: str
    shard: Shard
    record: Mapping[str, Any]
    earlier_stages: tuple[str, ...]

    @property
    def parts(self) -> range:
        return self.shard.parts(self.record["parts"])

    def read(self, number: int) -> tuple[bytes, dict[str, Any]]:
        part = Part.of(self.folder, self.stage, number)
        if (whole := part.read()) is None:
            raise InputError(f"{part.rows}: missing or damaged; finish shard {self.shard} by running it again")
        return whole


def _read_shard(folder: Path) -> _ShardFolder:
    stages = read_run(folder)["stages"]
    sharded = [stage for stage, record in stages.items() if record["shard"] is not None and stage in _PUBLISH]
    if not sharded:
        raise InputError(f"{folder}: no shard; merge takes folders made with --shard I/N")
    stage = sharded[-1]
    earlier = tuple(other for other in stages if other != stage)
    return _ShardFolder(folder, stage, Shard.parse(stages[stage]["shard"]), stages[stage], earlier)


def _refuse_unlike(found: Sequence[_ShardFolder]) -> None:
    """All shards are of one stage of one run, divided in one way."""
    if not found:
        raise InputError("no shards given; merge needs all of them")
    facts = [
        {"stage": s.stage, "shards": s.shard.count, "parts": s.record["parts"], **s.record["identity"]} for s in found
    ]
    for shard, own in zip(found[1:], facts[1:], strict=True):
        if other := differences(facts[0], own, "there"):
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
        markers = [Part.of(shard.folder, shard.stage, number).marker for number in shard.parts]
        if undone := sum(not marker.exists() for marker in markers):
            raise InputError(
                f"{shard.folder}: shard {shard.shard} is not finished ({undone} of {len(markers)} parts are missing); "
                "run it again to resume it"
            )
