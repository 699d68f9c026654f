"""The command `lama`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...commands import options
from ...commands.run_command import Setup, run_command
from .choices import Corpus

if TYPE_CHECKING:
    from ...library.shown import Shown


@run_command
def lama(
    setup: Setup,
    model: options.Model = "mini",
    data: Annotated[
        list[Path] | None,
        typer.Option(
            "--data", metavar="PATH", help="Facts in the layout of LAMA or its negated copy; may be repeated."
        ),
    ] = None,
    corpus: Annotated[
        list[Corpus] | None, typer.Option(help="Corpus of facts (default: all); may be repeated.")
    ] = None,
    vocabulary: Annotated[
        str, typer.Option(metavar="all|words|FILE", help="Tokens to rank: all, words, or a file with a word list.")
    ] = "all",
    with_p159: Annotated[
        bool, typer.Option("--with-p159", help="Include relation P159, whose negation equals the affirmative sentence.")
    ] = False,
) -> "Shown":
    """Query facts, their negations and misprimed copies (Kassner and Schütze 2020).

    To resume a stopped run, run the same command again. Example: negengine lama mini --corpus GoogleRE
    """
    from .runs import lama as run

    return run(
        setup.model(model),
        data=data,
        corpus=corpus or (),
        vocabulary=vocabulary,
        with_p159=with_p159,
        **setup.run,
    )
