"""`negengine predict`: the most probable tokens at the mask of free text."""

from typing import TYPE_CHECKING, Annotated

import typer

from ..commands import options
from ..commands.run_command import table_command

if TYPE_CHECKING:
    from ..library.shown import Shown


@table_command
def predict(
    model: options.Model,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Texts with one [MASK] each; a causal model also continues others."),
    ],
    top: Annotated[int, typer.Option("--top", "-k", min=1, metavar="N", help="How many tokens to show.")] = 5,
    device: options.Device = "auto",
) -> "Shown":
    """Show the most probable tokens at the mask of free text.

    Example: negengine predict mini "Jessica is a dancer. She is happy to [MASK]."
    """
    from ..library.model import find_model

    opening = find_model(model, device=device).opening()  # while the imports below take their time
    from ..library.predict import Predictions
    from ..library.predict import predict as run_predict

    return Predictions(run_predict(opening, texts, top=top))
