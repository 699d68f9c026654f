"""The shards of a run on disk: `runs/NAME-I-of-N`, found by the name of the run, by a pattern, or by their folder."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from pathlib import Path

from ..errors import InputError
from ..files.reading import exists, is_folder, paths_in
from .record import RUN_FILE, read_run
from .shard import Shard

_NAME = re.compile(r"(.+)-([0-9]{1,9})-of-([0-9]{1,9})", re.DOTALL)
_MOST_TOLD = 3


@dataclass(frozen=True)
class Division:
    """A run divided into shards.

    Attributes:
        whole: The folder of the whole run: the shards' folders without `-I-of-N`.
        count: How many shards there are.
        folders: The number of a shard → its folder, of those that are there.
    """

    whole: Path
    count: int
    folders: dict[int, Path]


def named_shard(folder: Path) -> tuple[Path, Shard] | None:
    """The whole run's folder and the shard that the name of a folder says; None for another name."""
    found = _NAME.fullmatch(folder.name)
    if found is None or not 1 <= int(found[2]) <= int(found[3]) or int(found[3]) < 2:
        return None
    return folder.with_name(found[1]), Shard(int(found[2]), int(found[3]))


def divisions(whole: Path) -> list[Division]:
    """All divisions of a run that are beside its folder, by their numbers of shards."""
    folder = whole if whole.name not in {"", ".."} else whole.resolve()
    return _divided([path for path in paths_in(folder.parent) if path.name.startswith(f"{folder.name}-")], folder)


def find_shards(given: Sequence[Path]) -> list[Path]:
    """The folders of the shards that are meant.

    Args:
        given: Folders of shards; patterns such as `runs/mini-*-of-4`, which a shell may have left as they are; the name
            of the whole run, `runs/mini`; or a folder in which the shards of one run are.

    Raises:
        InputError: A pattern or a folder has no shards, or those of several runs.
    """
    return [folder for path in given for folder in _meant(path)]


def default_output(shards: Sequence[Path]) -> Path:
    """The folder of the whole run, by the names of its shards' folders.

    Raises:
        InputError: The names do not say it.
    """
    named = [named_shard(folder) for folder in shards]
    wholes = {found[0] for found in named if found is not None}
    if len(wholes) != 1 or None in named:
        raise InputError("the names of the shards do not say where the whole run goes: give --output RUN")
    return wholes.pop()


def refuse_other_division(whole: Path, shard: Shard) -> None:
    """Refuse to begin another division of a run while one is not finished.

    Some tasks of a job array that are submitted again look like a smaller array.

    Args:
        whole: The folder of the whole run.
        shard: The shard that is about to run, guessed from the array.

    Raises:
        InputError: Beside the folder are shards of another number that are missing or not finished.
    """
    for other in divisions(whole):
        if other.count != shard.count and not _is_complete(other):
            raise InputError(
                f"--shard auto: {whole.parent} has shards of {whole.name} in {other.count}, not all finished, and "
                f"this array has {shard.count} tasks: to continue those, give the first and the last index of the "
                f"whole array, such as --shard auto:0-{other.count - 1} or --shard auto:1-{other.count}; else choose "
                "another --output"
            )


def _is_complete(division: Division) -> bool:
    try:
        return len(division.folders) == division.count and all(
            record.finished for folder in division.folders.values() for record in read_run(folder).stages.values()
        )
    except InputError:
        return False


def _divided(folders: Sequence[Path], whole: Path | None = None) -> list[Division]:
    found: dict[tuple[Path, int], dict[int, Path]] = {}
    for folder in folders:
        named = named_shard(folder)
        if named is not None and (whole is None or named[0] == whole) and is_folder(folder):
            found.setdefault((named[0], named[1].count), {})[named[1].index] = folder
    return [Division(base, count, dict(sorted(own.items()))) for (base, count), own in sorted(found.items())]


def _meant(path: Path) -> list[Path]:
    if has_magic(str(path)) and not exists(path):
        folders = sorted(Path(name) for name in glob(str(path), recursive=True) if is_folder(Path(name)))  # noqa: PTH207
        if not folders:
            raise InputError(f"{path}: no folder matches this pattern; give the folders of the shards")
        return folders
    if named_shard(path) is not None and exists(path):
        return [path]
    beside = divisions(path)
    if beside:
        return _only(path, beside)
    if is_folder(path) and not exists(path / RUN_FILE) and (inside := _divided(paths_in(path))):
        return _only(path, inside)
    return [path]


def _only(path: Path, found: Sequence[Division]) -> list[Path]:
    if len(found) == 1:
        return list(found[0].folders.values())
    patterns = [f"{own.whole}-*-of-{own.count}" for own in found]
    more = f" and {len(patterns) - _MOST_TOLD} more" if len(patterns) > _MOST_TOLD else ""
    raise InputError(f"{path}: there are shards of several runs: give one of {', '.join(patterns[:_MOST_TOLD])}{more}")
