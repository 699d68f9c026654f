"""`negengine merge`: the shards of a run put together, or how far each of them is."""

from pathlib import Path
from typing import Annotated

import typer

from ..basics.choices import TABLE
from ..commands import options
from ..commands.run_command import print_result

INCOMPLETE = 3
"""The exit status where nothing is wrong with the command, but not everything that it names is finished."""


def merge(
    shards: Annotated[
        list[Path],
        typer.Argument(
            metavar="SHARD...",
            help="The folders of all shards; or the name of the whole run, a pattern, or a folder that holds them.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="RUN", help="The run folder (default: the shards' name without -I-of-N)."
        ),
    ] = None,
    status: Annotated[
        bool,
        typer.Option("--status", help="Say which shards are finished, running, stopped or missing; merge nothing."),
    ] = False,
    form: options.FormatOption = TABLE,
    as_json: options.Json = False,
) -> None:
    """Put the shards of a run together.

    With --status, the exit status is 0 if all shards are finished, and 3 if not.
    Example: negengine merge runs/mini-1-of-2 runs/mini-2-of-2 -o runs/mini
    """
    if not status:
        from ..library.open import merge as run_merge

        print_result(run_merge(shards, output), form, as_json)
        return
    from ..library.shards import shards_status

    found = shards_status(shards)
    print_result(found, form, as_json)
    if not found.is_finished:
        raise typer.Exit(INCOMPLETE)
