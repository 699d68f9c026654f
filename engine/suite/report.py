"""The report of a suite, and its figures as files: models side by side, curves over training, each run's chapter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from ..errors import InputError
from ..results.comparison.runs import open_runs
from ..results.report.figures import plain, write_figures
from ..results.report.libraries import needs_libraries
from ..results.report.report import refuse_foreign, write_page
from ..views import Figure, Section, Table
from .table import FinishedMember, model_tables

REPORT, FIGURES = "report.html", "figures"
_MOST_RUNS = 6
"""Of so many runs of a probe, the report has all figures, all paired differences, and a chapter for each."""


@dataclass(frozen=True)
class Written:
    """What was written.

    Attributes:
        report: The page.
        figures: The files of figures.
    """

    report: Path
    figures: Sequence[Path]


def write_report(
    name: str, folder: Path, overview: Table, failures: Mapping[str, str], finished: Sequence[FinishedMember],
    found: pl.DataFrame,
) -> Written:  # fmt: skip
    """Write report.html and figures/ into the folder of a suite; older ones are replaced.

    Args:
        name: Of the suite.
        folder: Of the suite.
        overview: A line for each member.
        failures: The member's name → why it failed.
        finished: The members with a run.
        found: From `suite_table`.

    Raises:
        InputError: The libraries of the extra `report` are missing, or a file of another kind is in the way.
    """
    path = folder / REPORT
    refuse_foreign(path)
    with needs_libraries():
        from ..results.report.page import Chapter, page

        told = [f"{who} failed: {why}" for who, why in failures.items()]
        told += [f"{one.member.name}: {one.run.dead_end}." for one in finished if one.run.dead_end]
        chapters = [Chapter("All runs", [Section("Which runs are there?", told, tables=[overview])])]
        named: dict[str, Figure] = {}
        for probe in dict.fromkeys(one.member.probe.label for one in finished):
            own = [one for one in finished if one.member.probe.label == probe]
            own = [one for one in own if not one.run.dead_end] or own  # a selection without triplets is not scored
            made, figures = _chapters(probe, own, found.filter(pl.col("probe") == probe))
            chapters += made
            named |= figures
        content = page(name, chapters)
    write_page(path, content)
    return Written(path, write_figures(named, folder / FIGURES))


def _chapters(probe: str, own: Sequence[FinishedMember], found: pl.DataFrame) -> tuple[list, dict[str, Figure]]:  # type: ignore[type-arg]
    """The chapters of one probe, and the figures that all its models share."""
    from ..results.report.chapters import chapter
    from ..results.report.page import Chapter
    from ..results.report.side_by_side import chapters
    from .curves import curves

    runs = [one.run for one in own]
    drawn = curves(found, probe, plain(probe))
    sections = (
        []
        if found.is_empty()
        else [Section("How do the models compare?", tables=model_tables(found, own, fitting=False))]
    )
    if drawn:
        sections.append(Section("How does it change over training?", figures=drawn))
    named = {figure.name: figure for figure in drawn}
    if len(runs) > _MOST_RUNS:
        note = "`negengine report RUN` writes the report of one run, and `negengine compare RUN RUN` compares runs."
        return [Chapter(f"{probe}: {len(runs)} models", [*sections, Section("Each run", [note])])], named
    try:
        open_runs(runs)
        together, *single = chapters(runs) if len(runs) > 1 else [Chapter("", []), chapter(runs[0], runs[0].label)]
    except InputError as error:  # such as classifiers with other labels
        together, single = (
            Chapter("", [Section("Side by side", [f"{error}."])]),
            [chapter(run, run.label) for run in runs],
        )
    joint = [figure for section in together.sections for figure in section.figures]
    named |= {f"{plain(probe)}-{figure.name}": figure for figure in joint}
    first = Chapter(f"{probe}: side by side", [*sections, *together.sections], together.summary)
    return [first, *(replace(one, title=f"{probe}: {one.title}") for one in single)], named
