"""The report of a suite, and its figures as files: models side by side, curves over training, each run's chapter."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from ...basics.apart import stem
from ...basics.errors import InputError
from ...basics.printable import counted
from ...views import Column, Figure, Section, Table
from ...views.charts import Curves
from ...views.labels import numbered
from ..comparison.estimates import DROP, GROUP, TEXTS, Block, blocks, category, key_columns, other_items, texts_of
from ..comparison.runs import open_runs
from ..report.chapters import COMPARED, chapter
from ..report.chapters import chapters as chapters_of
from ..report.page import Chapter, page
from ..report.report import refuse_foreign, write_figures, write_page
from ..report.single_sentences import terms
from .suite_members import FinishedMember, model_tables

REPORT, FIGURES = "report.html", "figures"
_MOST_RUNS = 6  # of a probe, with all figures, all paired differences and a chapter for each
_MOST_PANELS = 12


def write_report(
    name: str, folder: Path, overview: Table, failures: Mapping[int, str], finished: Sequence[FinishedMember],
    found: pl.DataFrame,
) -> tuple[Path, tuple[Path, ...]]:  # fmt: skip
    """Write report.html and figures/ into a suite's folder; a file of another kind in the way is an `InputError`.

    `overview` has a line for each member; `failures` is a member's number → why it failed; `found` is from
    `suite_table`.
    """
    path = folder / REPORT
    refuse_foreign(path)
    labels = overview.frame.select("probe", "model").iter_rows()
    listed = overview.frame.with_columns(name=pl.Series(numbered(f"{probe} of {model}" for probe, model in labels)))
    names = dict(listed.select("run", "name").iter_rows())
    told = [f"{names[number]} failed: {why}" for number, why in sorted(failures.items())]
    told += [f"{names[member.number]}: {run.dead_end}." for member, run in finished if run.dead_end]
    chapters: list[Chapter] = []
    named: list[tuple[str, Figure]] = []
    ready = [one for one in finished if not one[1].dead_end]  # a selection without triplets is not scored
    for probe in dict.fromkeys(member.probe.label for member, _ in ready):
        own = [one for one in ready if one[0].probe.label == probe]
        made, figures = _chapters(probe, own, found.filter(pl.col("probe") == probe), names)
        chapters += made
        named += figures
    without = [one for one in listed["name"] if one not in {name for own in chapters for name in own.about}]
    rows = listed.sort(pl.col("name").is_in(without), maintain_order=True)
    columns = [Column("run", "name"), *(one for one in overview.columns if one.value not in {"run", "probe", "model"})]
    table = replace(overview, frame=rows, columns=columns, leads="name")
    first = Chapter("All runs", [Section("Which runs are there?", tables=[table])])
    last = [Chapter("Runs without a result", [Section("Why is there no result?", told)], about=without)] if told else []
    write_page(path, page(name, [first, *chapters, *last]))
    return path, tuple(write_figures(named, folder / FIGURES))


def _chapters(
    probe: str, own: Sequence[FinishedMember], found: pl.DataFrame, of_run: Mapping[int, str]
) -> tuple[list[Chapter], list[tuple[str, Figure]]]:
    runs, names = [run for _, run in own], [of_run[member.number] for member, _ in own]
    sections, drawn = [], []
    if not found.is_empty():  # some runs, such as selections, have no items to compare
        sections.append(Section(COMPARED, tables=model_tables(found, own, brief=False)))
        drawn = curves(found, probe)
    if drawn:
        sections.append(Section("How does it change over training?", figures=drawn))
    named = [(figure.name, figure) for figure in drawn]
    if len(runs) > _MOST_RUNS:
        note = "`negengine report RUN` writes the report of one run, and `negengine compare RUN RUN` compares runs."
        every = [*sections, Section("Each run", [note])]
        return [Chapter(f"{probe}: {len(runs)} models", every, terms=terms(runs[0]), about=names)], named
    try:
        open_runs(runs)
        together, *single = chapters_of(runs) if len(runs) > 1 else [Chapter("", []), chapter(runs[0], runs[0].label)]
    except InputError as error:  # such as classifiers with other labels
        together = Chapter("", [Section("Side by side", [f"{error}."])])
        single = [chapter(run, run.label) for run in runs]
    joint = [figure for section in together.sections for figure in section.figures]
    named += [(f"{probe}-{figure.name}", figure) for figure in joint]
    others = [section for section in together.sections if section.title != COMPARED]  # the suite's has all groups
    first = Chapter(f"{probe}: side by side", [*sections, *others], together.summary, single[0].terms)
    titled = zip(single, names, strict=True)
    return [first, *(replace(one, title=f"{probe}: {one.title}", about=[name]) for one, name in titled)], named


def curves(found: pl.DataFrame, probe: str) -> list[Figure]:
    """From the rows of a probe, a figure for rates and one for other numbers; none without several steps."""
    several = found.filter(pl.col("step").is_not_null()).filter(pl.col("step").n_unique().over("series") > 1)
    return [_figure(block, probe) for block in blocks(several)]


def _figure(block: Block, probe: str) -> Figure:
    own, varying, (value, low, high) = block.frame, block.varying, block.figures
    scale = block.style.get("scale", 1)
    what = "drop of the repetition rate" if block.falls else "rate" if block.is_rate else "value"
    unit = f", {block.style['unit']}" if block.is_rate else ""
    named = category(own, varying or ["split"], TEXTS)
    keys = ("series", "step", "model", *GROUP, *texts_of(own).values())
    points = own.select(*keys, "n", *block.figures, category=named).sort("series", "step", maintain_order=True)
    ends = zip(("value", "low", "high"), block.figures, strict=True)
    drawn, notes = drawn_curves(points.with_columns(**{name: scale * pl.col(figure) for name, figure in ends}))
    panels, runs = drawn["category"].n_unique(), points["series"].unique(maintain_order=True).to_list()
    columns = [
        *([Column("training run", "series")] if len(runs) > 1 else []),
        Column("step", "step"),
        *key_columns(varying, own),
        Column("n", "n", wrap=False),
        Column(value, value, low=low, high=high, **block.style),
    ]
    notes = [*block.constant, *notes, *other_items(own)]
    title, frame = f"{probe} over training: {what}", points.drop("category")
    table = Table(title, frame, columns, notes=notes, texts=texts_of(frame))
    alt = (
        f"Curves of {probe} over {points['step'].n_unique()} steps of {', '.join(runs[:4])}"
        f"{' and others' if len(runs) > 4 else ''}, in {counted(panels, 'chart')}: {what}{unit} against the step, with "
        "95 % intervals."
    )
    plot = Curves(
        drawn, x="step", y="value", low="low", high="high", series="series", x_title="step",
        title=DROP if block.falls and panels > 1 else f"{what}{unit}",
        panel="category" if panels > 1 else None, n="n",
    )  # fmt: skip
    caption = f"{probe}: {what}{unit} against the step of training."
    return Figure(
        f"curve-{stem(probe)}{'' if block.is_rate else '-values'}", plot, table, alt, caption, wide=panels > 1
    )


def drawn_curves(points: pl.DataFrame) -> tuple[pl.DataFrame, Sequence[str]]:
    """The points of few charts: metrics that change; of too many, the first one, and the columns of fewest groups."""
    count, drawn = points["category"].n_unique(), points
    sizes = points.group_by("column", maintain_order=True).agg(pl.col("split").n_unique()).sort("split")
    fewest = sizes.filter(pl.col("column").is_null() | (pl.col("split").cum_sum() <= _MOST_PANELS))["column"]
    changes = pl.col("value").n_unique().over("metric") > 1  # such as ties not, where there are none
    for fewer in (changes, pl.col("metric") == pl.first("metric"), pl.col("column").is_in(fewest, nulls_equal=True)):
        if (fewer is changes or drawn["category"].n_unique() > _MOST_PANELS) and len(some := drawn.filter(fewer)):
            drawn = some
    kept = drawn["category"].unique(maintain_order=True).head(_MOST_PANELS)
    said = (f"drawn: {len(kept)} of {count} groups; the table has all",) if len(kept) < count else ()
    return drawn.filter(pl.col("category").is_in(kept.implode())), said
