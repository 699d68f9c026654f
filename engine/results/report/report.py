"""`ng.report`: finished runs as one HTML file."""

from pathlib import Path

from ...errors import InputError
from ...files.atomic import make_folder, write_bytes
from ...files.reading import MissingFileError, open_regular, unreadable
from ..comparison.runs import Runs, open_runs
from .libraries import needs_libraries

_MARK = b'<meta name="generator" content="negengine report">'  # as the page has it; a test compares them
_HEAD = 500  # bytes of a file that are looked at


def report(runs: Runs, output: str | Path = "report.html") -> Path:
    """Write a report: one HTML file that needs no network and no other file.

    Args:
        runs: Finished runs, or their folders; several must be of one kind, and are put side by side.
        output: The file to write. An older report is replaced, another file never.

    Returns:
        The file.

    Raises:
        InputError: A run is not finished, or the runs cannot be put side by side; the file exists and is not a report,
            or cannot be written; the libraries of the extra `report` are missing.
    """
    path = Path(output)
    refuse_foreign(path)
    opened = open_runs(runs)
    with needs_libraries():
        from .page import page
        from .side_by_side import chapters, title

        content = page(title(opened), chapters(opened))
    write_page(path, content)
    return path


def write_page(path: Path, content: str) -> None:
    """Write a page, also over an older one.

    Raises:
        InputError: It cannot be written.
    """
    make_folder(path.parent)
    write_bytes(path, content.encode("utf-8", "backslashreplace"))


def refuse_foreign(path: Path) -> None:
    """Refuse to replace anything that is not a report."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file, such as {path / 'report.html'}")
    hint = "choose another --output"
    try:
        with open_regular(path, hint) as stream:
            head = stream.read(_HEAD)
    except MissingFileError:
        return
    except OSError as error:
        raise unreadable(path, error, hint) from error
    if _MARK not in head:
        raise InputError(f"{path} exists and is not a report of negengine; choose another --output")
