"""One stage of a run folder as it is stored: which files belong to it, and what repairs them."""

import re
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ...runs.part import PartFiles
from ...runs.record import PARTS_FOLDER, StageRecord, done_file
from ...runs.results import last_command, unlike, whole_command
from ...runs.shard import Shard

_PART = re.compile(r"part-([0-9]{5,9})\.(parquet|json)")


@dataclass(frozen=True, eq=False)
class StoredStage:
    """A stage of a run folder.

    Attributes:
        folder: The run folder.
        name: The stage's name.
        record: Its entry in run.json.
    """

    folder: Path
    name: str
    record: StageRecord

    @property
    def shard(self) -> Shard:
        """The shard that the folder holds."""
        return Shard.parse(self.record.shard or "1/1")

    @cached_property
    def unlike(self) -> list[str]:
        """The final files that are missing or changed."""
        return unlike(self.folder, self.record.files)

    @property
    def marker(self) -> Path:
        """The marker of the finished stage."""
        return done_file(self.folder, self.name)

    @property
    def parts_folder(self) -> Path:
        """Where the parts are."""
        return self.folder / PARTS_FOLDER / self.name

    @cached_property
    def parts(self) -> "StoredParts":
        """The parts that are there. The folder is listed, as run.json could tell of any number of parts."""
        expected = self.shard.parts(self.record.parts)
        there: set[int] = set()
        foreign = []
        entries = sorted(self.parts_folder.iterdir()) if self.parts_folder.is_dir() else []
        for path in entries:
            found = _PART.fullmatch(path.name)
            if found is not None and int(found[1]) in expected:
                there.add(int(found[1]))
            else:
                foreign.append(str(path.relative_to(self.folder)))
        damaged = [number for number in sorted(there) if self.part(number).read() is None]
        return StoredParts(len(expected), len(there), tuple(damaged), tuple(foreign))

    def part(self, number: int) -> PartFiles:
        """The files of a part."""
        return PartFiles.of(self.folder, self.name, number)

    @property
    def resume(self) -> str:
        """What repairs a final file, or a part that is needed."""
        return f"to repair it, run: {self._command}"

    @property
    def publish_again(self) -> str:
        """What makes the final files again: from the parts if they are there, else from the model."""
        return f"to repair it, remove {self._names(*self.record.files)}, then run: {self._command}"

    @property
    def decide_again(self) -> str:
        """What decides the whole stage again."""
        return f"to repair it, remove {self._names(f'{PARTS_FOLDER}/{self.name}', *self.record.files)}, then run: " + (
            self._command
        )

    def _names(self, *names: str) -> str:
        return " ".join(shlex.quote(str(self.folder / name)) for name in names)

    @property
    def _command(self) -> str:
        command = last_command(self.record)
        if command and self.shard.is_whole and "--shard" in command:  # the shards of this run were merged
            command = whole_command(self.record, self.folder)
        return command or "the same call or command again"


@dataclass(frozen=True)
class StoredParts:
    """The parts of a stage in a run folder.

    Attributes:
        expected: How many the stage, or its shard, has.
        there: How many have any file.
        damaged: The numbers of those that are not whole.
        foreign: Other files in the folder of the parts.
    """

    expected: int
    there: int
    damaged: tuple[int, ...]
    foreign: tuple[str, ...]

    @property
    def are_whole(self) -> bool:
        """Whether every part is there as it was written."""
        return self.there == self.expected and not self.damaged
