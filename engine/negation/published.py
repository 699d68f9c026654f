"""The figures that the paper prints for its four models, to be shown beside ours."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TABLES = Path(__file__).parent / "published.toml"


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
    for model, tables in tomllib.loads(_TABLES.read_text("utf-8")).items():
        if model_name in tables["hub"]:
            return Published(
                model=model,
                selection=tables["selection"],
                coreference={
                    subject: PublishedDrops(column["drops"], column.get("triplets"))
                    for subject, column in tables["coreference"].items()
                },
                doubts=tuple(tables["doubts"]),
            )
    return None
