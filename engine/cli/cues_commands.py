"""The command `cues`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..basics.errors import InputError
from ..basics.option import Opening, flag, options_of
from .run_command import Setup, run_command

if TYPE_CHECKING:
    from ..library.shown import Shown

_WORDS = "words"


@run_command
def cues(
    setup: Setup,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Texts in UTF-8; also packed, as .gz.")],
    detector: Annotated[
        str,
        typer.Option(
            metavar="words|MODEL",
            help="What finds cues: the list of words alone, or also a model exported with --task token-classification.",
        ),
    ] = _WORDS,
) -> "Shown":
    """Count the sentences that contain a negation cue.

    A list of words finds the cues. With --detector, a trained model finds them too, and the tables show both. To resume
    such a run, run the same command again.
    Example: negengine cues corpus.txt --detector detector
    """
    if detector == _WORDS:
        _refuse_run_options(setup)
        from ..experiments.cues.cue_views import CueShares

        return CueShares.of(files)
    from ..experiments.cues.cues import cues as run

    return run(setup.model(detector, task="token-classification"), files, **setup.run)


def _refuse_run_options(setup: Setup) -> None:
    """The list of words needs no model and writes no run folder."""
    given = {
        "--output": setup.output,
        "--shard": setup.shard,
        **{flag(name): value for name, value in setup.elsewhere.items()},
        **{
            field.flag: None if setup.opened[name] == field.default else setup.opened[name]
            for name, field in options_of(Opening).items()
        },
    }
    for option, value in given.items():
        if value is not None:
            raise InputError(f"{option} {value}: the list of words needs no model and no run folder; add --detector")
