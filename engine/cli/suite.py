"""`negengine suite`: models × probes × settings from one file."""

from pathlib import Path
from typing import Annotated

import typer

from ..basics.choices import TABLE
from ..commands import options
from ..commands.run_command import Setup, print_result, with_common_options
from .shards import INCOMPLETE


@with_common_options
def suite(
    setup: Setup,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A TOML file with models, probes and settings.")],
    plan: Annotated[bool, typer.Option("--plan", help="List the runs and how far they are; run nothing.")] = False,
    form: options.FormatOption = TABLE,
    as_json: options.Json = False,
) -> None:
    """Run models × probes × settings from a file, with one table and one report of all.

    Runs that are finished are not run again. If one fails, the others run, and the exit status is 3. --shard I/N runs
    every N-th run. Example: negengine suite suite.toml
    """
    from ..results.suite.suite_run import plan_suite
    from ..results.suite.suite_run import suite as run_suite

    if plan:
        print_result(plan_suite(file, **setup.run), form, as_json, verbose=setup.verbose)
        return
    found = run_suite(file, **setup.opening, **setup.run)
    print_result(found, form, as_json, verbose=setup.verbose)
    if not found.is_finished:
        raise typer.Exit(INCOMPLETE)
