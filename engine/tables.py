"""What a run shows at its end: the paper's Tables 5 and 6 with our figures, and its reading of them in one line."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from rich.table import Table

from .patterns import PatternSet, Role
from .published import Published

_SELECTION_ROWS = (
    ("1. Available verbs", "verbs", "{:,.0f}"),
    ("2. Available NAME,PROF pairs", "pairs", "{:,.0f}"),
    ("3. Tested triplets (row 1 × row 2)", "tested", "{:,.0f}"),
    ("4. leading to ACT repetition", "repeating", "{:,.0f}"),
    ("5. Ratio (row 4 / row 3, %)", "ratio", "{:.1f}"),
    ("6. Selected triplets", "selected", "{:,.0f}"),
)


def selection_table(selection: Mapping[str, Any], published: Published | None) -> Table:
    """The selection in the layout of Table 5.

    Args:
        selection: the content of selection.json.
        published: the paper's figures for the same model, if it is one of its four.
    """
    table = Table(title=f"Selection of triplets: {selection['model']}, {selection['pattern']}", title_justify="left")
    table.add_column("")
    table.add_column("here", justify="right")
    if published:
        table.add_column("paper, Table 5", justify="right")
    for label, key, form in _SELECTION_ROWS:
        row = [label, form.format(selection[key])]
        if published:
            row.append(form.format(published.selection[key]))
        table.add_row(*row)
    return table


def rates_table(
    rates: pl.DataFrame, patterns: PatternSet, selection: Mapping[str, Any], published: Published | None
) -> Table:
    """Rates and drops in the layout of Table 6; with the paper's drops where it has tested the model."""
    coreference = selection["coreference"]
    column = published.coreference.get(coreference) if published else None
    title = f"Drop of ACT repetition: {selection['model']}"
    title += "" if coreference == "pronoun" else f", target about: {coreference}"
    table = Table(title=title, title_justify="left")
    table.add_column("pattern")
    for heading in ("repetition %", "drop", "95 % interval", "triplets"):
        table.add_column(heading, justify="right")
    if column:
        table.add_column("paper's drop", justify="right")
    table.add_column("role")
    roles = {pattern.name: _ROLE_TEXTS[pattern.role] for pattern in patterns.all}
    for row in rates.iter_rows(named=True):
        cells = [
            row["pattern"],
            f"{row['repetition_rate']:.1f}",
            f"{row['drop']:.1f}",
            f"{row['drop_low']:.1f} to {row['drop_high']:.1f}",
            f"{row['n']:,}",
        ]
        if column:
            drop = column.drops.get(row["pattern"])
            cells.append("" if drop is None else f"{drop:.1f}")
        table.add_row(*cells, roles.get(row["pattern"], ""))
    return table


_ROLE_TEXTS = {
    Role.SELECTING: "100 % by construction",
    Role.FORBIDDEN: "repetition forbidden",
    Role.CONTROL: "control",
}


def reading(rates: pl.DataFrame, patterns: PatternSet) -> str:
    """Section 3.5 in one line: are the drops of all forbidden patterns above those of all controls?"""
    drops = dict(rates.select("pattern", "drop").iter_rows())
    forbidden = [pattern.name for pattern in patterns.scored if pattern.role is Role.FORBIDDEN]
    controls = [pattern.name for pattern in patterns.scored if pattern.role is Role.CONTROL]
    if not forbidden or not controls:
        return "The pattern set has no forbidden patterns or no controls: there is nothing to compare."
    below = [
        f"{f} ({drops[f]:.1f}) ≤ {c} ({drops[c]:.1f})" for f in forbidden for c in controls if drops[f] <= drops[c]
    ]
    said = f"the drops of {_and(forbidden)} are above both controls" if len(controls) == 2 else "the drops are above"
    if not below:
        return f"Passes the test (§3.5): {said}, {_and(controls)}."
    return f"Does not pass the test (§3.5), which asks for drops above those of {_and(controls)}: {'; '.join(below)}."


def _and(names: list[str]) -> str:
    return " and ".join(names) if len(names) < 3 else f"{', '.join(names[:-1])} and {names[-1]}"
