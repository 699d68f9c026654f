"""`ng.figures`: the figures of runs as files for a paper, each as PDF, SVG and PNG, with its values as CSV."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from ...errors import InputError
from ...files.atomic import json_bytes, make_folder, write_bytes
from ...files.reading import MissingFileError, read_regular
from ...views import Figure
from ..comparison.runs import Runs, open_runs
from .libraries import needs_libraries

MANIFEST = "figures.json"
"""The list of the files that `figures` has written into a folder: it may replace these and no others."""

_LARGEST = 1_000_000  # bytes of that list


class _Written(msgspec.Struct):
    """The content of that list.

    Attributes:
        figures: Names of files.
    """

    figures: list[str]


def figures(runs: Runs, folder: str | Path = "figures") -> list[Path]:
    """Write every figure of a report as NAME.pdf, NAME.svg and NAME.png, and its values as NAME.csv.

    A figure is at most 77 mm wide, the column of a paper in A4, or 160 mm, its page. Its text has about 7 points.

    Args:
        runs: As for `report`.
        folder: The folder to write into. Files of an earlier call are replaced, other files never.

    Returns:
        The files.

    Raises:
        InputError: As for `report`; the folder has a file with the name of a figure that `figures` did not write.
    """
    target = Path(folder)
    _written_before(target)  # refuses a wrong folder before anything is drawn
    opened = open_runs(runs)
    with needs_libraries():
        from .side_by_side import chapters

        named: dict[str, Figure] = {}
        for number, chapter in enumerate(chapters(opened), 1):
            # Of several runs the first chapter has all of them; every other one is a run's.
            before = "" if len(opened) == 1 or number == 1 else f"{plain(chapter.title)}-"
            for figure in (figure for section in chapter.sections for figure in section.figures):
                named[f"{before}{figure.name}"] = figure
    return write_figures(named, target)


def write_figures(named: Mapping[str, Figure], target: Path) -> list[Path]:
    """Write figures as files.

    Args:
        named: The name of the files, without their ending → the figure.
        target: The folder to write into.

    Returns:
        The files.

    Raises:
        InputError: As for `figures`.
    """
    ours = _written_before(target)
    with needs_libraries():
        content = {name: own for stem, figure in named.items() for name, own in _files(figure, stem).items()}
    foreign = [name for name in content if name not in ours and (target / name).exists()]
    if foreign:
        raise InputError(f"{target / foreign[0]} exists and was not written by `figures`; choose another --output")
    make_folder(target)
    # First the list: after an interrupt the files are known to be ours.
    write_bytes(target / MANIFEST, json_bytes({"figures": sorted({*ours, *content})}))
    for name, own in content.items():
        write_bytes(target / name, own)
    return [target / name for name in content]


def _files(figure: Figure, name: str) -> dict[str, bytes]:
    from ...views.svg import as_files

    pictures = {f"{name}.{ending}": content for ending, content in as_files(figure).items()}
    return {**pictures, f"{name}.csv": figure.data.write_csv().encode()}


def _written_before(folder: Path) -> set[str]:
    """The names that an earlier call has written into a folder.

    Raises:
        InputError: It is not a folder, or the list cannot be read.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder; choose another --output")
    path = folder / MANIFEST
    try:
        content = read_regular(path, _LARGEST, "choose another --output")
        return set(msgspec.json.decode(content, type=_Written).figures)
    except MissingFileError:
        return set()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not as negengine writes it ({str(error)[:80]}); choose another --output") from None


def plain(text: str) -> str:
    """A text as the beginning of a file's name."""
    return "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in text).split()) or "run"
