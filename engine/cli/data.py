"""`negengine data`: the data sets of other authors."""

from typing import Annotated

import typer

from ..commands import options
from ..commands.console import document, say, show

app = typer.Typer(help="Fetch the data sets of other authors.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_data(as_json: options.Json = False) -> None:
    """Say which data sets there are, and whether they are here.

    Example: negengine data list
    """
    from ..datasets.sources import sources, sources_table

    if as_json:
        document(
            [
                {"name": found.name, "title": found.title, "licence": found.licence, "here": not found.missing()}
                for found in sources().values()
            ]
        )
    else:
        show(sources_table())


@app.command("get")
def get_data(names: Annotated[list[str], typer.Argument(metavar="NAME...", help="As `data list` shows them.")]) -> None:
    """Fetch data sets into the cache, or check that they are there.

    NEGENGINE_DATA names another folder for them. Example: negengine data get lm-diagnostics
    """
    from ..datasets.fetch import get
    from ..datasets.sources import source

    for name in names:
        source(name)
    for name in names:
        show(str(get(name, say=say)))
