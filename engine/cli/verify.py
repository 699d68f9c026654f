"""`negengine verify`: a run or a model compared with what it should hold."""

from pathlib import Path
from typing import Annotated

import typer

from ..basics.choices import TABLE
from ..commands import options
from ..commands.run_command import print_result


def verify(
    target: Annotated[str, typer.Argument(metavar="RUN|MODEL", help="A run folder, an exported folder, or its name.")],
    sample: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Decide N items of each kind again, one by one, in fp32 (default: 300; 0: none)."
        ),
    ] = None,
    seed: options.Seed = 0,
    model: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The folder of the run's model, if it was moved (default: where it was)."),
    ] = None,
    lexicon: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The word lists of a selection, if they were moved (default: where they were)."
        ),
    ] = None,
    torch: Annotated[
        str | None,
        typer.Option(
            metavar="CHECKPOINT",
            help="Decide the same items in PyTorch, too, from the model's checkpoint (default: not).",
        ),
    ] = None,
    form: options.FormatOption = TABLE,
    as_json: options.Json = False,
) -> None:
    """Compare a run or an exported model with what it should hold; nothing is changed.

    The exit status is 2 if something is damaged; the last line names it and the command that repairs it.
    Example: negengine verify runs/mini --sample 100
    """
    from ..results.verification.verify import verify as run_verify

    found = run_verify(target, sample=sample, seed=seed, model=model, lexicon=lexicon, torch=torch)
    print_result(found, form, as_json)
    found.refuse_damage()
