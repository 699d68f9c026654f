"""What a report says about a run on a user's stimuli: targets by group, differences, skipped rows."""

import polars as pl

from ...printable import counted
from ...views import Figure, Section, Table
from ...views.charts import Points
from .columns import IS_TOP1, LOGPROB
from .runs import ProbeRun
from .tables import groups_table, pairs_table, skipped_table, targets_table


def sections(run: ProbeRun) -> list[Section]:
    """Targets by group, then what differs, then what was skipped."""
    table = targets_table(run.summary, run.model_name, run.columns)
    found = [
        Section(
            "How probable are the targets?",
            [_said(run)],
            figures=[_figure(run, table, IS_TOP1), _figure(run, table, LOGPROB)],
        )
    ]
    if not (groups := groups_table(run.summary, run.columns)).frame.is_empty():
        found.append(Section("Do the groups differ?", tables=[groups]))
    if len(run.columns.targets) > 1:
        found.append(Section("Which target does the model prefer?", tables=[pairs_table(run.summary)]))
    if len(run.skipped):
        found.append(Section("Which rows were skipped?", run.remarks(), tables=[skipped_table(run.skipped)]))
    return found


def _figure(run: ProbeRun, table: Table, metric: str) -> Figure:
    scale, title = (100, "first choice (%)") if metric == IS_TOP1 else (1, "log-probability")
    data = table.frame.select(
        "condition", "split", *(pl.col(f"{metric}{end}") * scale for end in ("", "_low", "_high"))
    )
    what = "the share of rows whose target is the first choice" if metric == IS_TOP1 else "the mean log-probability"
    return Figure(
        "first-choice" if metric == IS_TOP1 else "log-probability",
        Points(
            data,
            x=metric,
            y="split",
            low=f"{metric}_low",
            high=f"{metric}_high",
            series="condition" if len(run.columns.targets) > 1 else None,
            title=title,
            zero=metric == IS_TOP1,
        ),
        table,
        f"A point for {what} in each group of rows.",
        f"{what.capitalize()} in each group, with 95 % intervals.",
        joint=True,
    )


def _said(run: ProbeRun) -> str:
    rows, items = run.items["row"].n_unique(), len(run.items)
    return f"{run.model_name} was asked about {counted(items, 'target')} in {counted(rows, 'sentence')}."
