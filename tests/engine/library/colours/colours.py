"""Which colour does a model give to things, said of them and denied? An experiment of another package: this is all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import polars as pl
from negengine.engine.experiments.clozes import Cloze, Clozes
from negengine.engine.experiments.experiment import Option

COLOURS = {"sky": "blue", "grass": "green", "snow": "white", "coal": "black", "sun": "yellow", "sea": "blue"}
TEMPLATES = {"affirmative": "The {} is [MASK].", "negated": "The {} is not [MASK]."}


@dataclass(frozen=True, eq=False)
class Colours(Clozes):
    """Ask for the colours of things."""

    name = "colours"
    title = "Colours of things"
    example = "negengine colours mini --things 3"
    unit = "sentences"
    clusters = "things"
    items_per_part = 4
    metrics: ClassVar[Mapping[str, pl.Expr]] = {
        "first": pl.col("rank") == 1,
        "surprisal": -pl.col("logprob").cast(pl.Float64),
    }

    things: Annotated[int, Option("Number of things to ask about.", metavar="N", minimum=1, maximum=6)] = 6

    def clozes(self) -> list[Cloze]:
        return [
            Cloze("colours", polarity, thing, template.format(thing), colour, cluster=thing)
            for thing, colour in list(COLOURS.items())[: self.things]
            for polarity, template in TEMPLATES.items()
        ]
