"""`negengine compare`: finished runs against each other, their rates by group, their items for R."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..basics.printable import counted
from ..commands.console import say
from ..commands.run_command import table_command

if TYPE_CHECKING:
    from ..library.shown import Shown


@table_command
def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of finished runs.")],
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="COLUMN",
            help="Rates by group instead: gender, profession, verb, name, relation, dataset, condition or split "
            "(default: differences).",
        ),
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(
            "--items",
            metavar="FILE",
            help="Also write a row for each item and model, for R: .csv, .tsv, .jsonl or .parquet (default: not).",
        ),
    ] = None,
) -> "Shown":
    """Compare any number of models, the patterns of one run, or runs that differ in --coreference.

    Example: negengine compare runs/roberta-base runs/roberta-large
    """
    from ..results.comparison.compare import compare as run_compare
    from ..results.comparison.groups import by_group
    from ..results.comparison.runs import item_rows
    from ..results.report.chosen_sentences import check_name, write

    if items is not None:
        check_name(items, "--items")
    found = run_compare(*runs) if by is None else by_group(*runs, by=by)
    if items is not None:
        n = write(item_rows(*runs), items, "--items")
        say(f"{items}: {counted(n, 'row')}, one for each item and model; docs/r.md has a model for R")
    return found
