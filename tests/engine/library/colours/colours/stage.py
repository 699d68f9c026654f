"""What a part is, how it is decided, and how the parts become one file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import polars as pl
from negengine.engine.inference.exported import ExportedModel
from negengine.engine.inference.free_text import MASK
from negengine.engine.inference.model import MaskedLM
from negengine.engine.inference.predict import predict_texts
from negengine.engine.runs.masked_stages import ReferenceStage
from negengine.engine.runs.stage import Files, FinishedParts, PartResult
from negengine.engine.text.tokenizer import MaskTokenizer

THINGS = ("sky", "grass", "snow", "coal", "sun", "sea")
TEMPLATES = {"affirmative": "The {} is [MASK].", "negated": "The {} is not [MASK]."}
ITEMS_FILE = "items.parquet"


@dataclass(frozen=True, eq=False)
class Colours(ReferenceStage[None]):
    """One thing makes a part."""

    name: ClassVar[str] = "colours"

    exported: ExportedModel

    @property
    def identity(self) -> Mapping[str, Any]:
        """See `Stage`."""
        return {"model": self.exported.name, "model sha256": self.exported.sha256, "things": list(THINGS)}

    @property
    def sizes(self) -> Sequence[int]:
        """See `Stage`."""
        return [len(TEMPLATES)] * len(THINGS)

    def decide(self, model: MaskedLM, number: int, prepared: None, advance: Callable[[int, int], None]) -> PartResult:
        """See `Stage`."""
        tokenizer = MaskTokenizer.load(self.exported.folder, self.exported.mask_token)
        texts = [template.format(THINGS[number]) for template in TEMPLATES.values()]
        found = predict_texts(model, tokenizer, texts, top=1)
        advance(len(texts), len(texts))
        rows = {
            "thing": [THINGS[number]] * len(texts),
            "polarity": list(TEMPLATES),
            "sentence": [text.replace(MASK, self.exported.mask_token) for text in texts],
            "top1": [row["token"] for row in found],
            "probability": [row["probability"] for row in found],
        }
        return PartResult(pl.DataFrame(rows))

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """See `Stage`."""
        return {ITEMS_FILE: parts.rows}
