"""Does a model expect the right ending of a sentence, also behind a negation? Texts behind contexts are asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import polars as pl
from negengine.engine.experiments.experiment import Option
from negengine.engine.experiments.requested import Requested
from negengine.engine.inference.exported import ExportedModel
from negengine.engine.requests.metrics import ROUNDING, lead
from negengine.engine.requests.span import Method, Span

CONTEXTS = {"affirmative": "{} likes to dance. So today {}", "negated": "{} does not like to dance. So today {}"}
TEXTS = {"affirmative": "is happy to dance.", "negated": "is happy to rest."}
RIGHT = pl.col("role") == "good"


@dataclass(frozen=True, eq=False)
class Endings(Requested):
    """Compare two endings of a sentence."""

    name = "endings"
    title = "Endings of sentences"
    example = "negengine endings mini --names Anna"
    unit = "names"
    of_kind = Span
    metrics: ClassVar[Mapping[str, pl.Expr]] = {
        "expected": lead(pl.col("logprob"), RIGHT) > ROUNDING,
        "lead": lead(pl.col("logprob"), RIGHT),
    }

    names: Annotated[str, Option("Names, with commas between them.", metavar="NAMES")] = "Anna,Peter,Maria"

    def kind(self, exported: ExportedModel) -> Span:
        return Span(None if exported.is_causal else Method.ORIGINAL)

    def requests(self, exported: ExportedModel) -> pl.DataFrame:
        rows = [
            {"condition": polarity, "item": name, "role": "good" if told == polarity else "bad"}
            | {"context": context.format(name, name), "text": text}
            for name in self.names.split(",")
            for polarity, context in CONTEXTS.items()
            for told, text in TEXTS.items()
        ]
        return pl.DataFrame(rows)
