"""The command `nli`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...commands import options
from ...commands.run_command import Setup, run_command
from ...errors import InputError
from .labels import Source

if TYPE_CHECKING:
    from ...library.run import Shown


@run_command
def nli(
    setup: Setup,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A classifier of text pairs: exported folder, or name under models/.")
    ],
    data: options.Data = None,
    source: Annotated[
        list[Source] | None, typer.Option(help="Source of the pairs (default: all); may be repeated.")
    ] = None,
    original: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE=FILE", help="An original dev set in the layout of GLUE; may be repeated."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            metavar="LABEL,...",
            help="The labels of the logits in their order, if the model does not name them (default: its own).",
        ),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(min=8, metavar="N", help="Largest number of tokens in a pair (default: 128, as in the paper)."),
    ] = None,
) -> "Shown":
    """Run a classifier on the pairs with negation of Hossain and others (2020).

    Export the classifier with --task text-classification. Run the same command again to resume it.
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
