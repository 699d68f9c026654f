"""The figures that the paper prints for its four models, shown next to ours."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..tables.published import published_name, read_published

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class PublishedDrops:
    """One column of Table 6, 8 or 9.

    Attributes:
        drops: Pattern → 100 − repetition rate, in percentage points.
        triplets: Number of selected triplets; None where the paper's cell is empty.
    """

    drops: Mapping[str, float]
    triplets: int | None


@dataclass(frozen=True)
class Published:
    """What the paper prints for a model.

    Attributes:
        model: The paper's model, by its name on the Hugging Face hub.
        selection: Table 5 with the keys of selection.json: verbs, pairs, tested, repeating, ratio (percent), selected.
        coreference: Whom the target sentence is about (a value of `grid.Coreference`) → the drops.
        doubts: What is uncertain about these figures, as sentences.
    """

    model: str
    selection: Mapping[str, float]
    coreference: Mapping[str, PublishedDrops]
    doubts: tuple[str, ...]


def published(model_name: str) -> Published | None:
    """The paper's figures for a model, by its hub id or bare name; None if the paper did not test it."""
    model = published_name(_FOLDER, model_name)
    if model is None:
        return None
    tables = read_published(_FOLDER)[model]
    return Published(
        model=model,
        selection=tables["selection"],
        coreference={
            subject: PublishedDrops(column["drops"], column.get("triplets"))
            for subject, column in tables["coreference"].items()
        },
        doubts=tuple(tables["doubts"]),
    )
