"""Commands of the Self-Contained Negation Test: `select` and `score`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..basics.choices import Coreference, VerbConvention
from . import options
from .run_command import Setup, run_command

if TYPE_CHECKING:
    from ..library.shown import Shown


@run_command
def select(
    setup: Setup,
    model: options.Model = "mini",
    pairs: options.Pairs = None,
    max_verbs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Largest number of verbs that are kept for each pair.")
    ] = 20,
    coreference: Annotated[Coreference, typer.Option(help="Whom the target sentence is about.")] = Coreference.PRONOUN,
    verbs: Annotated[
        VerbConvention,
        typer.Option(
            help="in-context: verbs that are one token at the mask; bare: also one token alone; whole-words: those of "
            "in-context, and apart from them the verbs of several tokens."
        ),
    ] = VerbConvention.IN_CONTEXT,
    lazy: Annotated[
        bool,
        typer.Option(
            "--lazy", help="Stop testing a pair once it has --max-verbs verbs: same triplets, fewer sentences."
        ),
    ] = False,
    lexicon: options.Lexicon = None,
    patterns: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A bundled pattern set such as italian, or your own TOML file (default: the paper's).",
        ),
    ] = None,
    seed: options.Seed = 0,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Say what the run would do, and how many pairs an interval needs; run nothing."),
    ] = False,
) -> "Shown":
    """Find the triplets [NAME, PROF, verb] whose verb the model repeats.

    To resume a stopped run, run the same command again. Example: negengine select mini --pairs 60
    """
    from ..experiments.negation.runs import SelectionOptions, plan_selection
    from ..experiments.negation.runs import select as run

    asked = SelectionOptions(pairs, max_verbs, coreference, verbs, lazy, lexicon, patterns, seed)
    opened = setup.model(model)
    return plan_selection(opened, asked, **setup.run) if plan else run(opened, **vars(asked), **setup.run)


@run_command
def score(
    setup: Setup,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder with a finished selection.")],
    model: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The folder of the run's model, if it was moved (default: where it was)."),
    ] = None,
) -> "Shown":
    """Score the selected triplets in all patterns: rates, drops, intervals.

    To resume a stopped run, run the same command again. Example: negengine score runs/mini
    """
    from ..experiments.negation.runs import score as run_score

    return run_score(run, model=model, **setup.opening, **setup.run)
