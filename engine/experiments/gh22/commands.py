"""The command `gh22`."""

from typing import TYPE_CHECKING, Annotated

import typer

from ...commands import options
from ...commands.run_command import Setup, run_command
from ...errors import InputError
from .choices import Variant

if TYPE_CHECKING:
    from ...library.shown import Shown


@run_command
def gh22(
    setup: Setup,
    model: options.Model = "mini",
    pairs: options.Pairs = None,
    ranks: Annotated[
        str, typer.Option(metavar="N,N,...", help="Ranks of the ACTs among the model's own predictions.")
    ] = "1,50,100,200",
    variant: Annotated[
        list[Variant] | None, typer.Option(help="Pattern set to run (default: all); may be repeated.")
    ] = None,
    lexicon: options.Lexicon = None,
    seed: options.Seed = 0,
) -> "Shown":
    """Replicate the test of Gubelmann & Handschuh (2022), with ACTs that the model chooses itself.

    To resume a stopped run, run the same command again. Example: negengine gh22 mini --pairs 100
    """
    from .runs import gh22 as run

    try:
        numbers = [int(rank) for rank in ranks.split(",")]
    except ValueError:
        raise InputError(f"--ranks {ranks}: give numbers with commas between, such as 1,50,100,200") from None
    return run(
        setup.model(model),
        pairs=pairs,
        ranks=numbers,
        variant=variant or (),
        lexicon=lexicon,
        seed=seed,
        **setup.run,
    )
