"""A section of a report as a value: a page knows nothing else about probes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .figure import Figure
from .table import Table


@dataclass(frozen=True, eq=False)
class Section:
    """One question about a run, and the answer.

    Attributes:
        title: What it is about.
        sentences: The answer in plain words, one sentence each.
        figures: Each with its values as a table.
        tables: Further tables.
        listing: A long table that a reader can filter, such as sentences with the model's answers.
        notes: What a reader should know before using the figures.
    """

    title: str
    sentences: Sequence[str] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = field(default=())
    listing: Table | None = None
    notes: Sequence[str] = ()
