"""`negengine data`: the data sets of other authors."""

from typing import TYPE_CHECKING, Annotated

import typer

from ..commands.console import say, show
from ..commands.program import Program
from ..commands.run_command import table_command

if TYPE_CHECKING:
    from ..library.shown import Shown

app = Program(help="Fetch the data sets of other authors.", no_args_is_help=True)


@app.command("list")
@table_command
def list_data() -> "Shown":
    """List the data sets, and whether they are on this machine.

    Example: negengine data list
    """
    from .data_sets import DataSets

    return DataSets.found()


@app.command("get")
def get_data(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names of data sets, as `data list` shows them.")
    ],
) -> None:
    """Fetch data sets into the cache, or check that they are there.

    The variable NEGENGINE_DATA names another folder. Example: negengine data get lm-diagnostics
    """
    from ..experiments.data_sets.fetch import get
    from ..experiments.data_sets.sources import source

    found = [source(name) for name in names]
    for one in found:
        show(str(get(one.name, say=say)))
        say(f"{one.name} is here; next, `{one.reading}`")
