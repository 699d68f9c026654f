"""The printed report of a benchmark: bars on one scale and tables, at most 80 columns wide."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ..engine.views import Column, Table

_BAR = 30  # columns
_EXPECTED = "mixed, expected"


def tables(result: Mapping[str, Any]) -> list[Table]:
    """The chart and the tables of one model."""
    expected = result[_EXPECTED]
    rows = [*result["systems"], *([] if expected is None else [{**expected, "system": _EXPECTED}])]
    lazy = [_lazy(result["lazy"])] if result["lazy"] else []
    return [_speeds(result, rows), _systems(result, rows), *lazy]


def _speeds(result: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> Table:
    work, rates = result["work"], [row["sentences/s"] for row in rows]
    most = max(rates[: len(result["systems"])])
    frame = pl.DataFrame(
        {
            "system": [row["system"] for row in rows],
            "share": [rate / most for rate in rates],
            "bar": ["█" * min(_BAR, max(1, round(_BAR * rate / most))) for rate in rates],
            "rate": rates,
        }
    )
    done = f"{work['sentences']:,} sentences of {work['tokens']:.1f} tokens, medians of {work['rounds']} rounds"
    columns = [
        Column("system", "system", wrap=False),
        Column("speed", "share", wrap=False, left=True),
        Column("sentences/s", "rate", decimals=0, wrap=False),
    ]
    notes = [
        f"each system: {result['threads']} threads, a process of its own, its fastest batch size",
        *(f"{name} is not measured: {reason}" for name, reason in result["skipped"].items()),
    ]
    return Table(
        f"{result['model']} on {result['device']}: {done}", frame, columns, notes=notes, texts={"share": "bar"}
    )


def _systems(result: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> Table:
    columns = [
        Column("sel.", "times authors, selection", decimals=2, wrap=False),
        Column("sc.", "times authors, scoring", decimals=2, wrap=False),
        Column("ceil.", "share of ceiling", decimals=0, scale=100, unit="%", wrap=False),
        Column("hours", "hours for 10.9 M", decimals=2, wrap=False),
        Column("MB", "MB", decimals=0, wrap=False),
        Column("top-1", "same top-1", decimals=1, scale=100, unit="%", wrap=False),
    ]
    figures = {
        str(own.value): pl.Series([row.get(str(own.value)) for row in rows], dtype=pl.Float64) for own in columns
    }
    rates = ", ".join(f"{rate:,.0f} GFLOP/s in {kind}" for kind, rate in result["product GFLOP/s"].items())
    notes = [
        "sel., sc.: times as fast as the authors' selection and scoring; hours: for 10.9 million sentences",
        "top-1: the same as the first system's, in %; MB: peak memory of the process",
    ]
    if rates:
        notes.append(f"ceil.: % of the ceiling, {result['work']['least GFLOP']:.3f} GFLOP a sentence at {rates}")
    if result[_EXPECTED]:
        close = 100 * result[_EXPECTED]["close calls"]
        told = f"close calls of random weights mean nothing, so the {close:.1f} % of the bundled model count"
        notes.append(f"{_EXPECTED}: {told}")
    frame = pl.DataFrame({"system": [row["system"] for row in rows], **figures})
    return Table("Systems compared", frame, [Column("system", "system", wrap=False), *columns], notes=notes)


def _lazy(lazy: Mapping[str, Any]) -> Table:
    names = {"exhaustive": "exhaustive, fp32", "lazy": "lazy, mixed precision where possible"}
    tested, seconds = ([lazy[f"{name} {what}"] for name in names] for what in ("tested", "seconds"))
    frame = pl.DataFrame({"selection": list(names.values()), "sentences": tested, "seconds": seconds})
    columns = [*(Column(own, own) for own in ("selection", "sentences")), Column("seconds", "seconds", decimals=2)]
    title = f"A selected test set of {lazy['pairs']} pairs, {lazy['repeating %']:.0f} % of the candidates repeat"
    notes = [
        f"lazy: {lazy['times authors, selection']:.1f} times as fast as the authors' program at its rate",
        f"the same triplets as the exhaustive run: {'yes' if lazy['same triplets'] else 'no'}",
    ]
    return Table(title, frame, columns, notes=notes)
