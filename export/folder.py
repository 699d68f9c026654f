"""The folder of an export: it is built under another name, in a hidden folder with a locked file, and then renamed.

The lock ends with the process, however it ends, so the next export finds what a killed one has left.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from filelock import FileLock, Timeout

from ..engine.basics.reading import paths_in

_LOCK, _REPLACED = "lock", "replaced"
STAGED = "staged"  # the folder in a workspace in which the export is built


@contextmanager
def workspace_beside(folder: Path) -> Iterator[Path]:
    """A hidden folder beside another one, removed at the end."""
    for left in paths_in(folder.parent, f".{escape(folder.name)}.*"):  # by killed exports to the same folder
        if (left / _LOCK).is_file():
            lock = FileLock(left / _LOCK)
            with suppress(Timeout):  # an export that is at work
                lock.acquire(blocking=False)
                lock.release()
                _give_up(left, folder)
    workspace = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    lock = FileLock(workspace / _LOCK)
    try:
        lock.acquire()
        (workspace / STAGED).mkdir()
        yield workspace
    finally:
        lock.release()
        _give_up(workspace, folder)


def publish(workspace: Path, folder: Path) -> None:
    """Rename the finished export to its final folder. An older one is removed only after that."""
    if folder.exists():
        folder.rename(workspace / _REPLACED)
    (workspace / STAGED).rename(folder)


def _give_up(workspace: Path, folder: Path) -> None:
    """Remove a workspace; if the folder is not in its place, first put back the older one."""
    if not folder.exists() and (workspace / _REPLACED).exists():
        (workspace / _REPLACED).rename(folder)
    with suppress(OSError):
        shutil.rmtree(workspace)
