"""Commands that lead from a run to the paper: `cite` and `reproduce`."""

import shlex
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..commands.console import document, say, show
from ..commands.run_command import command_line, table_command

if TYPE_CHECKING:
    from ..library.shown import Shown


class CitationFormat(StrEnum):
    """How a citation is printed."""

    TEXT = "text"
    BIBTEX = "bibtex"
    JSON = "json"


def cite(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of finished runs.")],
    form: Annotated[
        CitationFormat, typer.Option("--format", help="text: methods, facts, BibTeX; bibtex alone; json.")
    ] = CitationFormat.TEXT,
) -> None:
    """Print a methods paragraph, BibTeX, and facts for the Responsible NLP checklist.

    Example: negengine cite runs/mini
    """
    from ..results.report.citation import cite as run_cite

    found = run_cite(*runs)
    if form is CitationFormat.JSON:
        document(found.document())
    else:
        show((found.bibtex if form is CitationFormat.BIBTEX else found.text).rstrip("\n"))
    if form is CitationFormat.TEXT:
        named = " ".join(shlex.quote(str(run)) for run in runs)
        command = f"negengine cite {named} --format bibtex > references.bib"
        say(f"read and shorten the text; `{command}` writes the BibTeX alone")


@table_command
def reproduce(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder of the new run.")],
    model: Annotated[
        Path | None, typer.Option(help="The folder of the run's model, if it was moved (default: where it was).")
    ] = None,
    device: Annotated[
        str | None, typer.Option("--device", help="auto, cpu, cuda or cuda:INDEX (default: as recorded).")
    ] = None,
) -> "Shown":
    """Run the same again from what a run has recorded, and say what differs.

    Example: negengine reproduce runs/mini -o runs/mini-again
    """
    from ..results.report.reproduction import reproduce as run_reproduce

    return run_reproduce(run, output, model=model, device=device, command=command_line())
