"""A section of a report as a value: a page knows nothing else about probes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .figure import Figure
from .table import Table


@dataclass(frozen=True, eq=False)
class Section:
    """One question about a run, and the answer."""

    title: str
    sentences: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = field(default=())
    listing: Table | None = None  # a long table that a reader can filter, such as sentences with the model's answers
    notes: Sequence[str] = ()
