"""The table of all faults, and what it implies."""

from collections.abc import Sequence
from dataclasses import dataclass, field

_MOST_SHOWN = 40


@dataclass
class Row:
    """What happened to one command under one kind of fault."""

    kind: str  # of fault
    case: str  # the command
    faults: int = 0  # how many happened
    survived: int = 0  # after how many the command ended as it must, and then gave the undisturbed result
    rows: int = 0  # rows that were lost or doubled
    wrong: int = 0  # after how many faults a result or an end was wrong
    note: str = ""  # what was covered, or why nothing was
    findings: list[str] = field(default_factory=list)  # what went wrong, one line each

    def add(self, more: "Row") -> None:
        self.faults += more.faults
        self.survived += more.survived
        self.rows += more.rows
        self.wrong += more.wrong
        self.findings += more.findings
        self.note = more.note


def totals(rows: Sequence[Row]) -> str:
    """The last line."""
    faults, survived, lost, wrong = (
        sum(getattr(row, name) for row in rows) for name in ("faults", "survived", "rows", "wrong")
    )
    return f"{faults:,} faults, {survived:,} survived, {lost:,} rows lost or doubled, {wrong:,} wrong"


def is_clean(rows: Sequence[Row]) -> bool:
    """Whether nothing was lost, doubled or wrong, and anything was tried at all."""
    return not any(row.rows or row.wrong for row in rows) and any(row.faults for row in rows)


def findings(rows: Sequence[Row]) -> list[str]:
    """What went wrong, the first ones of each row."""
    return [f"{row.kind}, {row.case}: {text}" for row in rows for text in row.findings][:_MOST_SHOWN]


def bound(rows: Sequence[Row]) -> str:
    """What no failure in N faults implies, in two sentences; empty if there was a failure."""
    n = sum(row.faults for row in rows)
    if not is_clean(rows):
        return ""
    return (
        f"No failure in {n:,} faults bounds the chance that such a fault does damage at {300 / n:.2g} % "
        "(95 %, one-sided: 3/N, the rule of three). This takes the faults as independent draws from one population. "
        "They are not quite: faults of one kind at neighbouring calls meet the same code, so the bound is for a fault "
        "that is drawn from this mixture of kinds, not for each kind. A row's own bound is 3 divided by its faults."
    )


def plain(rows: Sequence[Row]) -> str:
    """The table for the terminal."""
    head = ("fault", "command", "faults", "survived", "rows lost or doubled", "wrong", "note")
    body = [(r.kind, r.case, f"{r.faults:,}", f"{r.survived:,}", f"{r.rows:,}", f"{r.wrong:,}", r.note) for r in rows]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    form = "  ".join(f"{{:{'>' if 2 <= i <= 5 else '<'}{width}}}" for i, width in enumerate(widths))
    heading, *lines = (form.format(*cells).rstrip() for cells in (head, *body))
    return "\n".join([heading, "-" * len(heading), *lines])
