"""What a benchmark shows to people: tables, and bars on one scale."""

from collections.abc import Mapping
from typing import Any

from rich.bar import Bar
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table


def tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """The tables of one model."""
    return [_peers(result), _parts(result), *([_sweep(result)] if result["sweep"] else [])]


def _peers(result: Mapping[str, Any]) -> Table:
    work = result["work"]
    table = Table(
        title=escape(
            f"{result['model']} on {result['device']}: {work['sentences']:,} sentences of {work['tokens']:.1f} tokens, "
            f"medians of {work['rounds']} rounds"
        ),
        caption=escape(
            "× sel., × sc.: times the authors' two ways; hours: for 10.9 million; top-1: as the first way's. "
            f"Ceiling: {work['least GFLOP']:.3f} GFLOP a sentence at "
            + ", ".join(f"{rate:.0f} GFLOP/s in {kind}" for kind, rate in result["product GFLOP/s"].items())
        ),
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("way", no_wrap=True)
    table.add_column("", no_wrap=True)
    for heading in ("per s", "× sel.", "× sc.", "ceil. %", "hours", "MB", "top-1 %"):
        table.add_column(heading, justify="right", no_wrap=True)
    most = max(row["sentences/s"] for row in result["ways"])
    for row in result["ways"]:
        ceiling = row["share of ceiling"]
        table.add_row(
            escape(row["way"]),
            Bar(most, 0, row["sentences/s"], width=7),
            f"{row['sentences/s']:,.0f}",
            f"{row['times authors, selection']:.2f}",
            f"{row['times authors, scoring']:.1f}",
            "" if ceiling is None else f"{100 * ceiling:.0f}",
            f"{row['hours for 10.9 M']:,.1f}",
            "" if row["MB"] is None else f"{row['MB']:,.0f}",
            f"{100 * row['same top-1']:.1f}",
        )
    return table


def _parts(result: Mapping[str, Any]) -> Table:
    table = Table(title="Milliseconds for 1,000 sentences, fp32", title_justify="left")
    table.add_column("part")
    table.add_column("ms", justify="right")
    for name, seconds in result["seconds for 1,000"].items():
        table.add_row(name, "" if seconds is None else f"{1000 * seconds:,.2f}")
    table.add_row("model's share of a selection's wall time", f"{100 * result['model share']:.1f} %")
    return table


def _sweep(result: Mapping[str, Any]) -> Table:
    table = Table(title="Sentences a second, fp32, random ids", title_justify="left")
    for heading in ("threads", "tokens a batch", "tokens a sentence", "sentences/s"):
        table.add_column(heading, justify="right")
    for point in result["sweep"]:
        table.add_row(
            str(point["threads"]),
            f"{point['batch_tokens']:,}",
            str(point["length"]),
            f"{point['rate']:,.0f}",
        )
    return table
