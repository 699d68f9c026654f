"""The command."""

from typing import TYPE_CHECKING

from negengine.engine.commands import options
from negengine.engine.commands.run_command import Setup, run_command

if TYPE_CHECKING:
    from negengine.engine.library.shown import Shown


@run_command
def colours(setup: Setup, model: options.Model = "mini") -> "Shown":
    """Ask for the colours of things.

    Example: negengine colours mini
    """
    from .runs import colours as run

    return run(setup.model(model), **setup.run)
