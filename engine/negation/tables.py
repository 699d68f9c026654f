"""What a run shows at its end: the paper's Tables 5 and 6 with our figures, and its reading of them in one line."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.markup import escape
from rich.table import Table

from ..sentences.patterns import PatternSet, Role
from .grid import Coreference
from .published import Published, PublishedDrops


def selection_table(selection: Mapping[str, Any], published: Published | None) -> Table:
    """The selection in the layout of Table 5.

    Args:
        selection: the content of selection.json; if it has `lazy`, rows 4 and 5 are estimates.
        published: the paper's figures for the same model, if it is one of its four.
    """
    lazy = selection.get("lazy")
    about, sign = "", ""
    ratio = f"{selection['ratio']:.1f}"
    tested = "3. Tested triplets (row 1 × row 2)"
    if lazy:
        about, sign = ", estimated", "≈ "
        ratio = f"≈ {ratio} ({lazy['ratio_low']:.1f} to {lazy['ratio_high']:.1f})"
        tested = f"3. Tested triplets (of {lazy['candidates']:,})"
    rows = (
        ("1. Available verbs", f"{selection['verbs']:,}"),
        ("2. Available NAME,PROF pairs", f"{selection['pairs']:,}"),
        (tested, f"{selection['tested']:,}"),
        (f"4. leading to ACT repetition{about}", f"{sign}{selection['repeating']:,}"),
        (f"5. Ratio (%){about}" if lazy else "5. Ratio (row 4 / row 3, %)", ratio),
        ("6. Selected triplets", f"{selection['selected']:,}"),
    )
    column = _published_selection(published, selection["coreference"])
    title = f"Selection of triplets: {selection['model']}, {selection['pattern']}{_target(selection['coreference'])}"
    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    table.add_column("here", justify="right")
    if column:
        table.add_column("paper", justify="right")
        for (label, figure), theirs in zip(rows, column, strict=True):
            table.add_row(label, figure, theirs)
    else:
        for label, figure in rows:
            table.add_row(label, figure)
    return table


def rates_table(
    rates: pl.DataFrame, patterns: PatternSet, selection: Mapping[str, Any], published: Published | None
) -> Table:
    """Rates and drops in the layout of Table 6; with the paper's drops where it has tested the model.

    Args:
        rates: the content of rates.parquet.
        patterns: the set of the run.
        selection: the content of selection.json.
        published: the paper's figures for the same model, if it is one of its four.
    """
    coreference = selection["coreference"]
    column = _published_drops(published, coreference)
    title = f"Drop of ACT repetition: {selection['model']}{_target(coreference)}"
    table = Table(title=escape(title), title_justify="left", caption_justify="left")
    table.add_column("pattern")
    for heading in ("repetition %", "drop", "95 % interval", "triplets"):
        table.add_column(heading, justify="right")
    if column:
        table.add_column("paper", justify="right")
        if published and coreference != Coreference.PRONOUN:  # the paper's doubts are about Tables 8 and 9
            table.caption = "paper: " + "; ".join(published.doubts)
    table.add_column("role")
    roles = {pattern.name: pattern.role for pattern in patterns.all}
    for row in rates.iter_rows(named=True):
        role = roles.get(row["pattern"])
        cells = [escape(row["pattern"]), *_figures(row, role), f"{row['n']:,}"]
        if column:
            drop = column.drops.get(row["pattern"])
            cells.append("" if drop is None else f"{drop:.1f}")
        table.add_row(*cells, role or "")
    return table


def reading(rates: pl.DataFrame, patterns: PatternSet) -> str:
    """Section 3.5 in one line: are the drops of all forbidden patterns above those of all controls?

    A drop above another counts, however little; that their intervals overlap is said.
    """
    known = {row["pattern"]: row for row in rates.iter_rows(named=True) if row["drop"] is not None}
    forbidden, controls = (
        [known[pattern.name] for pattern in patterns.scored if pattern.role is role and pattern.name in known]
        for role in (Role.FORBIDDEN, Role.CONTROL)
    )
    if not forbidden or not controls:
        return "No reading (§3.5): it compares forbidden patterns with controls, and there are not both."
    pairs = [(f, c) for f in forbidden for c in controls]
    not_below = {_drop(f): [c for c in controls if f["drop"] <= c["drop"]] for f in forbidden}
    failing = [f"{drop} is not above {_and(over)}" for drop, over in not_below.items() if over]
    if failing:
        said = f"Does not pass the test (§3.5): the drop of {'; that of '.join(failing)}"
    else:
        both = {1: "the control", 2: "both controls,"}.get(len(controls), "all controls,")
        drops = "drop of {} is" if len(forbidden) == 1 else "drops of {} are"
        said = f"Passes the test (§3.5): the {drops.format(_and(forbidden))} above {both} {_and(controls)}"
    close = [f"{f['pattern']} and {c['pattern']}" for f, c in pairs if _overlap(f, c)]
    return f"{said}; overlapping intervals: {', '.join(close)}." if close else f"{said}."


def _published_selection(published: Published | None, coreference: str) -> tuple[str, ...] | None:
    """The paper's column, row by row: Table 5 is about pronouns; Tables 8 and 9 tell row 6 alone."""
    if published is None or coreference not in published.coreference:
        return None
    if coreference != Coreference.PRONOUN:
        triplets = published.coreference[coreference].triplets
        return ("", "", "", "", "", "" if triplets is None else f"{triplets:,}")
    row = published.selection
    millions = (f"{row[key] / 1e6:.1f} M" for key in ("tested", "repeating"))  # all the digits that the paper prints
    return (f"{row['verbs']:,}", f"{row['pairs']:,}", *millions, f"{row['ratio']:.1f}", f"{row['selected']:,}")


def _published_drops(published: Published | None, coreference: str) -> PublishedDrops | None:
    return published.coreference.get(coreference) if published else None


def _target(coreference: str) -> str:
    return "" if coreference == Coreference.PRONOUN else f", target about: {coreference}"


def _figures(row: Mapping[str, Any], role: Role | None) -> tuple[str, str, str]:
    """Rate, drop, interval; no interval where the selection fixes the rate, nothing where there is no triplet."""
    if row["drop"] is None:
        return ("", "", "")
    interval = "" if role is Role.SELECTING else f"{row['drop_low']:.1f} to {row['drop_high']:.1f}"
    return (f"{row['repetition_rate']:.1f}", f"{row['drop']:.1f}", interval)


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return bool(one["drop_low"] <= other["drop_high"] and other["drop_low"] <= one["drop_high"])


def _drop(row: Mapping[str, Any]) -> str:
    return f"{row['pattern']} ({row['drop']:.1f})"


def _and(rows: Sequence[Mapping[str, Any]]) -> str:
    words = [_drop(row) for row in rows]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
