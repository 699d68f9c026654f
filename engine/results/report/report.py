"""`ng.report` and `ng.figures`: finished runs as one HTML file, and their figures as files for a paper."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from ...basics.apart import stems
from ...basics.atomic import json_bytes, make_place, write_bytes
from ...basics.errors import InputError, needs_extra
from ...basics.printable import some
from ...basics.reading import MissingFileError, open_regular, read_regular, unreadable
from ...runs.progress import Reporter
from ...views import Figure
from ..comparison.runs import Runs, open_runs

_MARK = b'<meta name="generator" content="negengine report">'  # as the page has it; a test compares them
LIBRARIES = "report", "a report or figure"  # an extra, and what needs it: see `needs_extra`
MANIFEST = "figures.json"  # the list of the files that `figures` has written into a folder: it may replace these alone
_LARGEST = 1_000_000  # bytes of that list


class _Written(msgspec.Struct):
    figures: list[str]  # names of files


def report(runs: Runs, output: str | Path = "report.html", *, semicolon: bool = False) -> Path:
    """Write a report: one HTML file that needs no network and no other file.

    Args:
        runs: Finished runs, or their folders; several must be of one kind, and are put side by side.
        output: The file to write. An older report is replaced, another file never.
        semicolon: "Save as CSV" gives `;` and decimal commas, for spreadsheets in countries that write 1,5.

    Returns:
        The file.

    Raises:
        InputError: A run is not finished, or the runs cannot be put side by side; the file exists and is not a report,
            or cannot be written; the libraries of the extra `report` are missing.
    """
    path = Path(output)
    refuse_foreign(path)
    opened = open_runs(runs)
    with needs_extra(*LIBRARIES):
        from .chapters import chapters, title
        from .page import page

        content = page(title(opened), chapters(opened), ";" if semicolon else ",")
    write_page(path, content)
    return path


def write_page(path: Path, content: str) -> None:
    """Write a page, also over an older one."""
    make_place(path)
    write_bytes(path, content.encode("utf-8", "backslashreplace"))


def refuse_foreign(path: Path) -> None:
    """Refuse to replace anything that is not a report."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; give the name of a file, such as {path / 'report.html'}")
    hint = "choose another --output"
    try:
        with open_regular(path, hint) as stream:
            head = stream.read(500)
    except MissingFileError:
        return
    except OSError as error:
        raise unreadable(path, error, hint) from error
    if _MARK not in head:
        raise InputError(f"{path} exists and is not a report of negengine; choose another --output")


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
    with needs_extra(*LIBRARIES):
        from .chapters import chapters

        named: list[tuple[str, Figure]] = []
        for number, chapter in enumerate(chapters(opened), 1):
            # Of several runs the first chapter has all of them; every other one is a run's.
            before = "" if len(opened) == 1 or number == 1 else f"{chapter.title}-"
            figures_of = (figure for section in chapter.sections for figure in section.figures)
            named += [(f"{before}{figure.name}", figure) for figure in figures_of]
    return write_figures(named, target)


def write_figures(named: Sequence[tuple[str, Figure]], target: Path) -> list[Path]:
    """Write figures as files with names that say these texts; errors as for `figures`."""
    ours = _written_before(target)
    with needs_extra(*LIBRARIES):
        from ...views.svg import as_files, without_font

        content: dict[str, bytes] = {}
        for stem, (_, figure) in zip(stems([text for text, _ in named]), named, strict=True):
            content |= {f"{stem}.{ending}": picture for ending, picture in as_files(figure).items()}
            content[f"{stem}.csv"] = figure.data.write_csv().encode()
        missing: dict[str, str] = {}
        for name, own in content.items():
            missing |= without_font(own) if name.endswith(".svg") else {}
    if missing:
        told = ", ".join(f"{script} {some([*characters], 10)}" for script, characters in missing.items())
        Reporter().say(
            f"{target}: no font of this machine has {told}: PDF and PNG have their numbers, such as U+4E2D, and SVG "
            "has the characters; install a font for this script, such as one of the Noto fonts, and draw them again"
        )
    foreign = [name for name in content if name not in ours and (target / name).exists()]
    if foreign:
        raise InputError(f"{target / foreign[0]} exists and was not written by `figures`; choose another --output")
    for name in (MANIFEST, *content):
        make_place(target / name)
    # First the list: after an interrupt the files are known to be ours.
    write_bytes(target / MANIFEST, json_bytes({"figures": sorted({*ours, *content})}))
    for name, own in content.items():
        write_bytes(target / name, own)
    return [target / name for name in content]


def _written_before(folder: Path) -> set[str]:
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
