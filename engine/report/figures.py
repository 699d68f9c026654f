"""`ng.figures`: the figures of runs as files for a paper, each as PDF, SVG and PNG, with its values as CSV."""

import json
from pathlib import Path

from ..errors import InputError
from ..figures import Figure
from ..files.atomic import make_folder, write_bytes, write_json
from .libraries import needs_libraries
from .runs import Runs, open_runs

MANIFEST = "figures.json"
"""The list of the files that `figures` has written into a folder: it may replace these and no others."""


def figures(runs: Runs, folder: str | Path = "figures") -> list[Path]:
    """Write every figure of a report as NAME.pdf, NAME.svg and NAME.png, and its values as NAME.csv.

    A figure is 77 mm wide, the column of a paper in A4, or 160 mm, its page. Its text has about 7 points.

    Args:
        runs: As for `report`.
        folder: The folder to write into. Files of an earlier call are replaced, other files never.

    Returns:
        The files.

    Raises:
        InputError: As for `report`; the folder has a file with the name of a figure that `figures` did not write.
    """
    target = Path(folder)
    ours = _written_before(target)
    opened = open_runs(runs)
    with needs_libraries():
        from .side_by_side import chapters

        content: dict[str, bytes] = {}
        for number, chapter in enumerate(chapters(opened), 1):
            # Of several runs the first chapter has all of them; every other one is a run's.
            before = "" if len(opened) == 1 or number == 1 else f"{_plain(chapter.title)}-"
            for figure in (figure for section in chapter.sections for figure in section.figures):
                content |= _files(figure, f"{before}{figure.name}")
    foreign = [name for name in content if name not in ours and (target / name).exists()]
    if foreign:
        raise InputError(
            f"{target / foreign[0]} exists and was not written by `negengine figures`; choose another folder"
        )
    make_folder(target)
    # First the list: after an interrupt the files are known to be ours.
    write_json(target / MANIFEST, {"figures": sorted({*ours, *content})})
    for name, own in content.items():
        write_bytes(target / name, own)
    return [target / name for name in content]


def _files(figure: Figure, name: str) -> dict[str, bytes]:
    from ..figures.svg import as_files

    pictures = {f"{name}.{ending}": content for ending, content in as_files(figure).items()}
    return {**pictures, f"{name}.csv": figure.data.write_csv().encode()}


def _written_before(folder: Path) -> set[str]:
    """The names that an earlier call has written into a folder.

    Raises:
        InputError: The folder is a file, or its list cannot be read.
    """
    path = folder / MANIFEST
    try:
        listed = json.loads(path.read_bytes())["figures"]
        return {str(name) for name in listed}
    except FileNotFoundError:
        return set()
    except NotADirectoryError:
        raise InputError(f"{folder} is not a folder; choose another --output") from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not as negengine writes it ({str(error)[:80]}); choose another folder") from None


def _plain(text: str) -> str:
    """A text as the beginning of a file's name."""
    return "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in text).split()) or "run"
