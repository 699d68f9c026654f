"""The command `probe`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...choices import TargetMethod
from ...commands import options
from ...commands.run_command import Setup, run_command

if TYPE_CHECKING:
    from ...library.shown import Shown

_COLUMN = "COLUMN"


@run_command
def probe(
    setup: Setup,
    model: options.Model,
    data: Annotated[
        Path, typer.Argument(metavar="FILE", help="A table with your sentences: CSV, TSV, JSON lines or Parquet.")
    ],
    sentence: Annotated[
        str | None,
        typer.Option(metavar=_COLUMN, help="The column with the sentences, one [MASK] each (default: sentence)."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(metavar=_COLUMN, help="A column with words for the mask (default: target); may be repeated."),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar=_COLUMN, help="A column with conditions to compare (default: group); may be repeated."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar=_COLUMN, help="A column with the same value in rows that depend on each other (default: cluster)."
        ),
    ] = None,
    item: Annotated[
        str | None,
        typer.Option(
            metavar=_COLUMN, help="A column with the same value in the rows of a minimal pair (default: item or pair)."
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many of the model's first choices to keep for each sentence.")
    ] = 1,
    targets: Annotated[
        str,
        typer.Option(
            metavar="all|words|FILE",
            help="The tokens that are ranked: all tokens, all words, or those in a file with one word per line.",
        ),
    ] = "all",
    method: Annotated[
        TargetMethod, typer.Option(help="How targets of several tokens get their log-probability.")
    ] = TargetMethod.LEFT_TO_RIGHT,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="Skip rows that cannot be used, and list them with the reason."),
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what the run would do, and about how long it takes; run nothing.")
    ] = False,
) -> "Shown":
    """Ask about your own sentences: probability and rank of target words, by group.

    To resume a stopped run, run the same command again. Example: negengine probe mini sentences.csv --group condition
    """
    from .runs import plan_probe
    from .runs import probe as run

    return (plan_probe if plan else run)(
        setup.model(model),
        data,
        sentence=sentence,
        target=target or (),
        group=group or (),
        cluster=cluster,
        item=item,
        top=top,
        targets=targets,
        method=method,
        skip_bad=skip_bad,
        **setup.run,
    )
