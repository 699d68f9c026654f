"""The folder of an export: it is built under another name, in a hidden folder with a locked file, and then renamed.

The lock ends with the process, however it ends, so the next export finds what a killed one has left.
"""

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from filelock import FileLock, Timeout

from ..engine.basics.atomic import flush_folder, flush_names
from ..engine.basics.reading import paths_in

_LOCK, _REPLACED = "lock", "replaced"
_RANDOM = re.compile(r"\.[a-z0-9_]{8}")  # the end of a name of `mkdtemp`
STAGED = "staged"  # the folder in a workspace in which the export is built


@contextmanager
def workspace_beside(folder: Path) -> Iterator[Path]:
    """A hidden folder beside another one, removed at the end."""
    remove_left(folder)
    workspace = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    lock = FileLock(workspace / _LOCK)
    try:
        lock.acquire()
        (workspace / STAGED).mkdir()
        yield workspace
    finally:
        lock.release()
        _give_up(workspace, folder)


def remove_left(folder: Path) -> None:
    """Remove what killed exports to the same folder have left; an older export that one had moved is put back."""
    for left in paths_in(folder.parent, f".{escape(folder.name)}.*"):
        if (left / _LOCK).is_file():
            lock = FileLock(left / _LOCK)
            with suppress(Timeout):  # an export that is at work
                lock.acquire(blocking=False)
                lock.release()
                _give_up(left, folder)
        elif _RANDOM.fullmatch(left.suffix):  # killed before it had its lock, or when all else was removed
            with suppress(OSError):  # it is not empty, so it is not ours
                left.rmdir()


def publish(workspace: Path, folder: Path) -> None:
    """Rename the finished export, once it is on the disk. An older one is removed only after that."""
    flush_folder(workspace / STAGED)  # else a power cut could leave export.json beside empty graphs
    if folder.exists():
        folder.rename(workspace / _REPLACED)
    (workspace / STAGED).rename(folder)
    flush_names(folder.parent)


def _give_up(workspace: Path, folder: Path) -> None:
    """Remove a workspace; if the folder is not in its place, first put back the older one."""
    if not folder.exists() and (workspace / _REPLACED).exists():
        (workspace / _REPLACED).rename(folder)
    for inner in (STAGED, _REPLACED):  # before the lock, without which the next export does not know them
        shutil.rmtree(workspace / inner, ignore_errors=True)
    if not any((workspace / inner).exists() for inner in (STAGED, _REPLACED)):
        shutil.rmtree(workspace, ignore_errors=True)
