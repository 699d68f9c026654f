"""What a report says about a run of the Self-Contained Negation Test: one module for each question."""

from ...figures import Section
from ..runs import ScoresRun, SelectionRun
from .answers import replacements, shifts
from .drops import drops, verdict
from .pairs import pairs
from .patterns import differences
from .words import drivers

__all__ = ["scored", "selected"]


def scored(run: ScoresRun) -> list[Section]:
    """The sections of a scored run, from the answer to the single sentences."""
    between = differences(run)
    return [
        verdict(run, between),
        drops(run),
        pairs(run, between),
        replacements(run),
        shifts(run),
        drivers(run),
    ]


def selected(run: SelectionRun) -> list[Section]:
    """The one section of a selection that is not scored yet."""
    return [Section("Selected triplets", run.remarks(), tables=run.tables())]
