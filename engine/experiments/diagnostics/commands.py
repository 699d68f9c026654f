"""The command `diagnostics`."""

from typing import TYPE_CHECKING, Annotated

import typer

from ...commands import options
from ...commands.run_command import Setup, run_command
from .choices import Dataset

if TYPE_CHECKING:
    from ...library.shown import Shown


@run_command
def diagnostics(
    setup: Setup,
    model: options.Model = "mini",
    data: options.Data = None,
    dataset: Annotated[
        list[Dataset] | None, typer.Option(help="Data set to run (default: all); may be repeated.")
    ] = None,
    draws: Annotated[int, typer.Option(min=1, metavar="N", help="Number of shuffles of each context.")] = 3,
    seed: options.Seed = 0,
) -> "Shown":
    """Compare a model's predictions with people's (Ettinger 2020): accuracy, sensitivity, perturbed contexts.

    To resume a stopped run, run the same command again. Example: negengine diagnostics mini --dataset ROLE-88
    """
    from .runs import diagnostics as run

    return run(setup.model(model), data=data, dataset=dataset or (), draws=draws, seed=seed, **setup.run)
