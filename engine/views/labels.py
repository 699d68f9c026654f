"""Labels for people. They are made from keys, at the very end, and nothing reads them back."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import polars as pl

from ..basics.apart import apart, as_seen
from ..basics.printable import isolated

_LABEL = "label of the keys"


def told_apart(frame: pl.DataFrame, keys: Sequence[str], *forms: pl.Expr) -> pl.Series:
    """For each row of a frame the label of its keys, which no other keys have.

    `forms` are texts of the keys, from short to long: the first one counts that tells a key from all others.
    """
    texts = {f"{_LABEL} {i}": form.cast(pl.String).fill_null("") for i, form in enumerate(forms)}
    known = frame.with_columns(**texts).unique(keys, keep="first", maintain_order=True)
    found = known[f"{_LABEL} 0"].to_list()
    for longer in list(texts)[1:]:
        seen = Counter(found)
        found = [text if seen[text] < 2 else long for text, long in zip(found, known[longer], strict=True)]
    labels = known.select(keys).with_columns(pl.Series(_LABEL, numbered(found), dtype=pl.String))
    return frame.select(keys).join(labels, on=keys, how="left", nulls_equal=True, maintain_order="left")[_LABEL]


def minus(one: pl.Expr | str, other: pl.Expr | str) -> pl.Expr:
    """Two names as the sides of a difference; those from right to left stand apart, so that the order stays."""
    sides = (pl.col(own) if isinstance(own, str) else own for own in (one, other))
    return pl.format("{} − {}", *(own.cast(pl.String).map_elements(isolated, pl.String) for own in sides))


def numbered(texts: Iterable[str]) -> list[str]:
    """The texts, each another one to the eye: the second of two alike has `(2)` behind it."""
    given = list(texts)
    known = set(map(as_seen, given))

    def forms(text: str) -> Iterator[str]:
        yield text
        yield from (form for number in count(2) if as_seen(form := f"{text} ({number})") not in known)

    return apart(given, forms, as_seen)
