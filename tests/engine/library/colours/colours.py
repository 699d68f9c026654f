"""Which colour does a model give to things, said of them and denied? An experiment of another package: this is all."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import Annotated, ClassVar

import polars as pl
from negengine.engine.experiments.experiment import Option
from negengine.engine.experiments.requested import Requested
from negengine.engine.inference.exported import ExportedModel
from negengine.engine.requests.word import Word

COLOURS = {"sky": "blue", "grass": "green", "snow": "white", "coal": "black", "sun": "yellow", "sea": "blue"}
TEMPLATES = {"affirmative": "The {} is [MASK].", "negated": "The {} is not [MASK]."}


@dataclass(frozen=True, eq=False)
class Colours(Requested):
    """Ask for the colours of things."""

    name = "colours"
    title = "Colours of things"
    example = "negengine colours mini --things 3"
    unit = "things"
    clusters = "things"
    requests_per_part = 4
    metrics: ClassVar[Mapping[str, pl.Expr]] = {"first": pl.col("rank") == 1, "surprisal": -pl.col("logprob") / log(2)}
    wanted = pl.col("condition") == "affirmative"  # where a model that understands says the word

    things: Annotated[int, Option("Number of things to ask about.", metavar="N", minimum=1, maximum=6)] = 6

    def kind(self, exported: ExportedModel) -> Word:
        return Word(top=5)

    def requests(self, exported: ExportedModel) -> pl.DataFrame:
        rows = [
            {"condition": polarity, "item": thing, "cluster": thing, "text": template.format(thing), "word": colour}
            for thing, colour in list(COLOURS.items())[: self.things]
            for polarity, template in TEMPLATES.items()
        ]
        return pl.DataFrame(rows)
