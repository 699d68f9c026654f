"""The printed report of a benchmark: bars on one scale and tables, at most 80 columns wide."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from ..engine.views import Column, Table

_BAR = 30  # columns
_EXPECTED = "mixed, expected"


def tables(result: Mapping[str, Any]) -> list[Table]:
    """The chart and the tables of one model."""
    shown = [_speeds(result), _systems(result), _parts(result)]
    if result["lazy"]:
        shown.append(_lazy(result["lazy"]))
    if result["sweep"]:
        shown.append(_sweep(result))
    return shown


def _rows(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    expected = result[_EXPECTED]
    return [*result["systems"], *([] if expected is None else [{**expected, "system": _EXPECTED}])]


def _speeds(result: Mapping[str, Any]) -> Table:
    work, rows = result["work"], _rows(result)
    most = max(row["sentences/s"] for row in result["systems"])
    rates = [row["sentences/s"] for row in rows]
    frame = pl.DataFrame(
        {
            "system": [row["system"] for row in rows],
            "share": [rate / most for rate in rates],
            "bar": ["█" * min(_BAR, max(1, round(_BAR * rate / most))) for rate in rates],
            "rate": rates,
        }
    )
    title = (
        f"{result['model']} on {result['device']}: {work['sentences']:,} sentences of {work['tokens']:.1f} tokens, "
        f"medians of {work['rounds']} rounds"
    )
    columns = [
        Column("system", "system", wrap=False),
        Column("speed", "share", wrap=False, left=True),
        Column("sentences/s", "rate", decimals=0, wrap=False),
    ]
    used = [row["threads used"] for row in result["systems"] if row["threads used"] is not None]
    notes = [
        f"each system: {result['threads']} threads, a process of its own, its fastest batch size"
        + (f"; threads that were busy: {min(used)} to {max(used)}" if used else ""),
        *(f"{name} is not measured: {reason}" for name, reason in result["skipped"].items()),
    ]
    return Table(title, frame, columns, notes=notes, texts={"share": "bar"})


def _systems(result: Mapping[str, Any]) -> Table:
    keys = {
        "times authors, selection": "sel.",
        "times authors, scoring": "sc.",
        "share of ceiling": "ceil.",
        "hours for 10.9 M": "hours",
        "MB": "MB",
        "same top-1": "top-1",
    }
    rows = _rows(result)
    frame = pl.DataFrame(
        {
            "system": [row["system"] for row in rows],
            **{key: pl.Series([row.get(key) for row in rows], dtype=pl.Float64) for key in keys},
            **{_digits_of(key): [_digits(row[key]) for row in rows] for key in _THREE_DIGITS},
        }
    )
    columns = [Column("system", "system", wrap=False)]
    for key, heading in keys.items():
        decimals: int | str = _digits_of(key) if key in _THREE_DIGITS else 1 if key == "same top-1" else 0
        scale = 100 if key in {"share of ceiling", "same top-1"} else 1
        columns.append(
            Column(heading, key, decimals=decimals, scale=scale, unit="%" if scale == 100 else "", wrap=False)
        )
    rates = ", ".join(f"{rate:,.0f} GFLOP/s in {kind}" for kind, rate in result["product GFLOP/s"].items())
    notes = [
        "sel., sc.: times as fast as the authors' selection and scoring; hours: for 10.9 million sentences",
        "top-1: the same as the first system's, in %; MB: peak memory of the process",
        f"ceil.: % of the ceiling, {result['work']['least GFLOP']:.3f} GFLOP a sentence at {rates}",
    ]
    if result[_EXPECTED]:
        close = 100 * result[_EXPECTED]["close calls"]
        notes.append(
            f"{_EXPECTED}: close calls of random weights mean nothing, so the {close:.1f} % of the bundled model count"
        )
    return Table("Systems compared", frame, columns, notes=notes)


_THREE_DIGITS = ("times authors, selection", "times authors, scoring", "hours for 10.9 M")


def _digits_of(key: str) -> str:
    return f"decimals of {key}"


def _digits(value: float) -> int:
    """Decimals that show three digits."""
    return 2 if value < 10 else 1 if value < 100 else 0


def _parts(result: Mapping[str, Any]) -> Table:
    seconds = result["seconds for 1,000"]
    frame = pl.DataFrame({"part": list(seconds), "seconds": pl.Series(list(seconds.values()), dtype=pl.Float64)})
    columns = [Column("part", "part"), Column("ms", "seconds", decimals=2, scale=1000, unit="ms")]
    notes = [f"the model's share of a selection's wall time: {100 * result['model share']:.1f} %"]
    return Table("Milliseconds for 1,000 sentences, reference model", frame, columns, notes=notes)


def _lazy(lazy: Mapping[str, Any]) -> Table:
    names = {"exhaustive": "exhaustive, fp32", "lazy": "lazy, mixed precision where possible"}
    frame = pl.DataFrame(
        {
            "selection": list(names.values()),
            "sentences": [lazy[f"{name} tested"] for name in names],
            "seconds": [lazy[f"{name} seconds"] for name in names],
        }
    )
    columns = [
        Column("selection", "selection"),
        Column("sentences", "sentences"),
        Column("seconds", "seconds", decimals=2),
    ]
    title = f"A selected test set of {lazy['pairs']} pairs, {lazy['repeating %']:.0f} % of the candidates repeat"
    notes = [
        f"lazy: {lazy['times authors, selection']:.1f} times as fast as the authors' program at its rate",
        f"the same triplets as the exhaustive run: {'yes' if lazy['same triplets'] else 'no'}",
    ]
    return Table(title, frame, columns, notes=notes)


def _sweep(result: Mapping[str, Any]) -> Table:
    columns = [
        Column("threads", "threads"),
        Column("tokens a batch", "batch_tokens"),
        Column("tokens a sentence", "length"),
        Column("sentences/s", "rate", decimals=0),
    ]
    return Table("Sentences a second, reference model, random ids", pl.DataFrame(result["sweep"]), columns)
