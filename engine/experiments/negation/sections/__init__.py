"""What a report says about a run of the Self-Contained Negation Test: one module for each question."""

from ....views import Section
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
        *([] if run.several is None else [apart(run)]),
    ]


def apart(run: ScoresRun) -> Section:
    """Verbs of several tokens, which no other section counts."""
    how = (
        "A verb of several tokens is repeated if each of its tokens is the first choice at its mask, filled from left "
        "to right. All other sections are about mono-token verbs, as the paper is."
    )
    return Section("Do verbs of several tokens differ?", [run.reading_apart], tables=run.tables_apart(), notes=[how])


def selected(run: SelectionRun) -> list[Section]:
    """The one section of a selection that is not scored yet."""
    return [Section("Selected triplets", run.remarks(), tables=run.tables())]
