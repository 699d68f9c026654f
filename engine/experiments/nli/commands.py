"""The command `nli`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...commands import options
from ...commands.run_command import Setup, run_command
from ...errors import InputError
from .labels import Source

if TYPE_CHECKING:
    from ...library.shown import Shown


@run_command
def nli(
    setup: Setup,
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="A classifier of text pairs: an exported folder, or its name under models/."
        ),
    ],
    data: options.Data = None,
    source: Annotated[
        list[Source] | None, typer.Option(help="A data set whose pairs are judged (default: all); may be repeated.")
    ] = None,
    original: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE=FILE",
            help="Also judge an original dev set in the columns of GLUE: RTE=dev.tsv; may be repeated.",
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL,...",
            help="The labels in the order of the logits (default: as the model names them).",
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(min=8, metavar="N", help="Largest number of tokens in a pair (default: 128, as in the paper)."),
    ] = None,
) -> "Shown":
    """Run a classifier on the pairs with negation of Hossain and others (2020).

    First export the classifier with --task text-classification. To resume a stopped run, run the same command again.
    Example: negengine nli textattack/bert-base-uncased-RTE --source RTE
    """
    from .runs import nli as run

    return run(
        setup.model(model, task="text-classification"),
        data=data,
        source=source or (),
        original=dict(_source_and_file(text) for text in original or ()),
        labels=labels,
        max_length=max_length,
        **setup.run,
    )


def _source_and_file(text: str) -> tuple[str, Path]:
    source, equals, file = text.partition("=")
    if not equals or not file:
        raise InputError(f"--original {text}: give SOURCE=FILE, such as RTE=dev.tsv")
    return source, Path(file)
