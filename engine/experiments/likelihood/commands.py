"""The command `likelihood`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...commands import options
from ...commands.run_command import Setup, run_command
from .choices import BLIMP, Method

if TYPE_CHECKING:
    from ...library.shown import Shown


@run_command
def likelihood(
    setup: Setup,
    model: options.Model,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV, TSV, JSON lines or Parquet; a folder of such files; or blimp.")
    ],
    method: Annotated[
        Method | None, typer.Option(help="How a masked model scores a sentence (default: original).")
    ] = None,
    sentence: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with the sentences (default: sentence or text).")
    ] = None,
    good: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The column with the good sentence of each pair (default: sentence_good or good)."
        ),
    ] = None,
    bad: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="The column with the bad sentence of each pair (default: sentence_bad or bad)."
        ),
    ] = None,
    pair: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="If a pair is two rows: the column with the name of the pair (default: none)."
        ),
    ] = None,
    acceptable: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="If a pair is two rows: the column that says which is good, by true and false or 1 and 0 "
            "(default: none).",
        ),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="A column with conditions: each gets a mean (default: group); may be repeated."
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="A column with the same value in rows that depend on each other (default: cluster)."
        ),
    ] = None,
    windows: Annotated[
        bool, typer.Option("--windows", help="Score sentences that are too long for the model in parts (windows).")
    ] = False,
    per_token: Annotated[
        bool, typer.Option("--per-token", help="Write tokens.parquet: the score of each token.")
    ] = False,
    per_word: Annotated[bool, typer.Option("--per-word", help="Write words.parquet: the score of each word.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip rows that cannot be scored, and write them to skipped.parquet.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Say what the run would do, and about how long it takes; run nothing.")
    ] = False,
) -> "Shown":
    """Compute likelihoods of whole sentences, and accuracies on minimal pairs such as BLiMP.

    Masked models: --method original (Salazar and others 2020) or within-word-l2r (Kauf and Ivanova 2023).
    Causal models need no method: their log-likelihoods are exact.

    To resume a stopped run, run the same command again. Example: negengine likelihood mini sentences.csv --per-word
    """
    from .runs import likelihood as run
    from .runs import plan_likelihood

    opened = setup.model(model)
    columns: dict[str, Any] = {"sentence": sentence, "good": good, "bad": bad, "pair": pair, "acceptable": acceptable}
    columns |= {"group": group or (), "cluster": cluster}
    details: dict[str, Any] = {"windows": windows, "per_token": per_token, "per_word": per_word, "skip_bad": skip_bad}
    wanted = str(file) if str(file) == BLIMP else file
    if plan:
        return plan_likelihood(opened, wanted, method=method, columns=columns, **details, **setup.run)
    return run(opened, wanted, method=method, **columns, **details, **setup.run)
