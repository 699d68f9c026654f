"""What papers print for a pattern set and a model, to be shown beside our own figures; no result depends on it."""

from typing import Annotated

import msgspec

from ..choices import Coreference

Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]


class PublishedColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column of a paper's table: a model, and whom the target sentence is about.

    Attributes:
        models: The model's names on the Hugging Face hub, the one that the paper uses first.
        drops: Pattern → 100 − repetition rate, in percentage points.
        coreference: Whom the target sentence is about.
        triplets: Number of selected triplets; None where it is not printed.
        selection: Of the selection, with the keys of selection.json: verbs, pairs, tested, repeating, ratio (percent),
            selected.
        source: Where it is printed, such as "Table 6".
        doubts: What is uncertain about the figures, as sentences.
    """

    models: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    drops: dict[str, Percent] = {}
    coreference: Coreference = Coreference.PRONOUN
    triplets: Annotated[int, msgspec.Meta(ge=0)] | None = None
    selection: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}
    source: str = ""
    doubts: tuple[str, ...] = ()
