"""Sentences as a person reads them, with the model's answers: a random sample, and the worst failures."""

import polars as pl

from ..figures import Section
from ..library.run import Run

SAMPLE, WORST = 200, 100
"""How many sentences of each kind a report has."""


def examples(run: Run) -> list[Section]:
    """The section; none for a run without sentences."""
    return []
