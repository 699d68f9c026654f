"""Which classifiers one command trains, and what became of each."""

from dataclasses import dataclass
from pathlib import Path

from ....engine.experiments.nli.runs import NliRun
from ...trained import TrainingRecord

ORIGINAL, NEGATION = "original", "negation"  # the two conditions: what a classifier learns from


@dataclass(frozen=True)
class Planned:
    """A classifier to train.

    Attributes:
        folder: Where it goes.
        condition: `original`, or `negation` if pairs with negation are added.
        seed: Of its training.
    """

    folder: Path
    condition: str
    seed: int


@dataclass(frozen=True, eq=False)
class Trained:
    """A classifier that is trained.

    Attributes:
        planned: What was planned.
        record: What training.json says.
        run: Its evaluation by the engine; None if nobody asked for one.
    """

    planned: Planned
    record: TrainingRecord
    run: NliRun | None = None


def planned(folder: Path, *, negation: bool, seed: int, seeds: int | None) -> list[Planned]:
    """The classifiers of a command.

    One classifier goes to the folder itself. Several seeds get a folder each; with pairs with negation, each seed is
    trained without them, too, so that the two can be compared.

    Args:
        folder: The folder to write.
        negation: Whether pairs with negation are added.
        seed: The first seed.
        seeds: How many; None for one classifier in the folder itself.
    """
    condition = NEGATION if negation else ORIGINAL
    if seeds is None:
        return [Planned(folder, condition, seed)]
    conditions = (ORIGINAL, NEGATION) if negation else (ORIGINAL,)
    return [
        Planned(folder / condition / f"seed-{number}", condition, number)
        for number in range(seed, seed + seeds)
        for condition in conditions
    ]
