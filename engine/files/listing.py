"""What is in a folder. A folder that cannot be listed is an error: `Path.glob` would silently find nothing in it."""

import os
from fnmatch import fnmatchcase
from pathlib import Path

from ..errors import InputError
from .reading import unreadable

_MOST_ENTRIES = 100_000


def paths_in(folder: Path, pattern: str = "*") -> list[Path]:
    """The entries of a folder whose names match a pattern, sorted; none if there is no such folder.

    Args:
        folder: The folder.
        pattern: As for `fnmatch`; upper and lower case differ.

    Raises:
        InputError: It cannot be listed.
    """
    try:
        paths = list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL
        raise unreadable(folder, error) from error
    return sorted(path for path in paths if fnmatchcase(path.name, pattern))


def files_below(folder: Path, pattern: str = "*") -> list[Path]:
    """The files in a folder and its subfolders whose names match a pattern, sorted; none if there is no such folder.

    Raises:
        InputError: The folder, or one below it, cannot be listed; or it holds very many files: it is a wrong one.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise _refusal(folder, error) from error

    found, seen = [], 0
    for parent, folders, names in os.walk(folder, onerror=refuse):
        seen += len(folders) + len(names)
        if seen > _MOST_ENTRIES:
            raise InputError(f"{folder}: more than {_MOST_ENTRIES:,} files in it; give the folder of the data alone")
        found += [Path(parent) / name for name in names if fnmatchcase(name, pattern)]
    return sorted(found)


def _refusal(folder: Path, error: OSError) -> InputError:
    return unreadable(Path(error.filename or folder), error)
