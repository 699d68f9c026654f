"""The table of all faults, and what it implies."""

from collections.abc import Mapping, Sequence
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
    total: int = 0  # of a loop over all calls: how many places it has
    done: set[int] = field(default_factory=set)  # of such a loop: the places that are done

    def begin(self, total: int) -> None:
        """Begin a loop anew."""
        self.faults = self.survived = self.rows = self.wrong = 0
        self.note, self.findings = "", []
        self.total, self.done = total, set()


_METHOD = """## How a fault is made

The rows `kill-calls`, `error-once`, `error-lasting`, `short-write` and `power-cut` are loops over all calls of a run;
their note says how far they came. To reach the end, a fault must be cheap:

- **Forks.** One process imports everything, and a command is a fork of it. The library of faults is there from the
  start, and is armed when the command begins. So calls are counted from there, not from Python's start. At a fork, no
  model is open and no thread runs. Versions, commit, machine and options are computed once, before all forks. The
  proof that composed sentences have the tokenizer's ids is made with fewer sentences, and a part holds a few
  sentences.
- **States of the disk.** A killed process leaves the files as they are at that moment. So one run stops after each
  call that changes a file, and its folder is copied. Each state of the folder is resumed once, although several calls
  can leave it. Each eighth call is followed by a real kill as well. A power cut takes such a state and loses what was
  not flushed.
- **Equal ends.** Each failing call has a run of its own. If it leaves the very same files as an earlier one, the
  files are not resumed again.

A fork does not show faults while Python starts, nor those of an import. The row `real-commands` has the installed
program instead, which is started each time and whose parts have their usual size. It gets signals and failing calls.
"""


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


def cells(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Heading and rows as texts."""
    head = ("fault", "command", "faults", "survived", "rows lost or doubled", "wrong", "note")
    body = [(r.kind, r.case, f"{r.faults:,}", f"{r.survived:,}", f"{r.rows:,}", f"{r.wrong:,}", r.note) for r in rows]
    return [head, *body]


def plain(rows: Sequence[Row]) -> str:
    """The table for the terminal."""
    lines = cells(rows)
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    texts = [
        "  ".join(
            cell.rjust(w) if 2 <= i <= 5 else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    return "\n".join(text.rstrip() for text in (texts[0], "-" * len(texts[0]), *texts[1:]))


def markdown(rows: Sequence[Row], facts: Mapping[str, str], command: str) -> str:
    """The document of the last full table."""
    head, *body = cells(rows)
    align = ["---", "---", "---:", "---:", "---:", "---:", "---"]
    table = "\n".join(f"| {' | '.join(line)} |" for line in (head, align, *body))
    said = "\n".join(f"- {name}: {fact}" for name, fact in facts.items())
    failed = "".join(f"- {text}\n" for text in findings(rows))
    return f"""# What a run survives

`make torture` disturbs runs while they write, then runs the same command again. The result must have the bytes of an
undisturbed run. This file is written by `{command}`.

{said}

A fault *survived* if the command ended as it must (killed, interrupted, or status 2 with one line, or nothing to
notice), and the same command then gave the same bytes. A *row* is lost or doubled if a result table has it less or
more often than the undisturbed table, by its key. *Wrong* counts the faults after which a value, a file or the end of
the command was not right.

{_METHOD}
{table}

**{totals(rows)}**

{bound(rows) or "There were failures, so there is no bound:"}
{failed}"""
