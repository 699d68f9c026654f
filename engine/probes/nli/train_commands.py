"""The command `nli train`."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...commands.train_command import TrainingOptions, train_command

if TYPE_CHECKING:
    from ...library.run import Shown


class NliTask(StrEnum):
    """What a classifier learns."""

    RTE = "rte"
    SNLI = "snli"
    MNLI = "mnli"


@train_command
def train_nli(
    options: TrainingOptions,
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The encoder to start from: hub id, local folder, or mini.")
    ],
    task: Annotated[NliTask, typer.Option("--task", help="The pairs to learn.")],
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="GLUE's train.tsv and dev.tsv (default: fetched from the hub)."),
    ] = None,
    negation: Annotated[
        float | None,
        typer.Option(
            "--negation",
            metavar="FRACTION",
            help="Also learn this part of the pairs with negation, as 0.7; the rest is held out (default: none).",
        ),
    ] = None,
    negation_data: Annotated[
        Path | None,
        typer.Option(
            "--negation-data", metavar="DIR", help="Folder of these pairs (default: where `data get` put them)."
        ),
    ] = None,
    new_pooler: Annotated[
        bool, typer.Option("--new-pooler", help="Begin with a random pooler where MODEL has none.")
    ] = False,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Export each classifier, test it, and print the paper's figures, too.")
    ] = False,
) -> "Shown":
    """Train a classifier of text pairs, with or without pairs with negation.

    It ends as a checkpoint that `export` takes. What is not given is as in Hossain and others (2020). With --seeds and
    --negation, each seed is trained with and without these pairs, and both are compared. Run the same command again to
    resume it. Example: negengine nli train bert-base-cased --task rte --data glue/RTE --negation 0.7 -o models/rte
    """
    from ....training.nli.run import train_nli as run

    return run(
        model,
        options,
        task=task,
        data=data,
        negation=negation,
        negation_data=negation_data,
        new_pooler=new_pooler,
        evaluate=evaluate,
    )
