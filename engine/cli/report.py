"""`negengine report` and `negengine figures`: finished runs as a page, and as figures for a paper."""

from pathlib import Path
from typing import Annotated

import typer

from ..commands import options
from ..commands.console import document, say, show

_Runs = Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folders of finished runs of one kind.")]


def report(
    runs: _Runs,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("report.html"),
    open_: Annotated[bool, typer.Option("--open", help="Open the report in the browser.")] = False,
    as_json: options.Json = False,
) -> None:
    """Write a report of one run, or of several side by side: one HTML file that needs no network.

    Example: negengine report runs/mini -o report.html
    """
    from ..results.report.report import report as write_report

    path = write_report(runs, output)
    size = path.stat().st_size
    if as_json:
        document({"report": str(path), "bytes": size})
    else:
        show(f"{path}: report of {', '.join(map(str, runs))} ({size / 1e6:.1f} MB); open it in a browser")
    if open_:
        _open_in_browser(path)


def figures(
    runs: _Runs,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write into.")] = Path("figures"),
    as_json: options.Json = False,
) -> None:
    """Write each figure of a report as PDF, SVG and PNG, in the width of a paper's column, and its values as CSV.

    Example: negengine figures runs/mini -o figures
    """
    from ..results.report.report import figures as write_figures

    paths = write_figures(runs, output)
    if as_json:
        document({"folder": str(output), "files": [path.name for path in paths]})
    else:
        names = dict.fromkeys(path.stem for path in paths)
        show(f"{output}: {len(names)} figures as PDF, SVG, PNG and CSV: {', '.join(names)}")
        first = output / f"{next(iter(names))}.pdf" if names else output
        say(f"{output}: next, in LaTeX: \\includegraphics{{{first.as_posix()}}}")


def _open_in_browser(path: Path) -> None:
    import webbrowser

    from ..basics.errors import InputError

    if not webbrowser.open(path.resolve().as_uri()):
        raise InputError(f"{path} is written, but no browser was found; open the file yourself")
