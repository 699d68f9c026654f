"""What a benchmark shows to people: bars on one scale and tables, none of them wider than 80 columns."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

_BAR = 40  # columns
_EXPECTED = "mixed, expected"


def tables(result: Mapping[str, Any]) -> list[RenderableType]:
    """The chart and the tables of one model."""
    shown: list[RenderableType] = [_bars(result), _ways(result), _parts(result)]
    if result["lazy"]:
        shown.append(_lazy(result["lazy"]))
    if result["sweep"]:
        shown.append(_sweep(result))
    return shown


def _rows(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    expected = result[_EXPECTED]
    return [*result["ways"], *([] if expected is None else [{**expected, "way": _EXPECTED}])]


def _bars(result: Mapping[str, Any]) -> Table:
    work = result["work"]
    chart = Table(
        title=escape(
            f"{result['model']} on {result['device']}: {work['sentences']:,} sentences of {work['tokens']:.1f} tokens, "
            f"medians of {work['rounds']} rounds"
        ),
        title_justify="left",
        box=None,
        show_header=False,
    )
    most = max(row["sentences/s"] for row in result["ways"])
    for row in _rows(result):
        length = max(1, round(_BAR * row["sentences/s"] / most))
        chart.add_row(escape(row["way"]), Text("█" * min(length, _BAR)), Text(f"{row['sentences/s']:,.0f}/s"))
    for name, reason in result["skipped"].items():
        chart.add_row(escape(name), Text(f"left out: {reason}"), "")
    return chart


def _ways(result: Mapping[str, Any]) -> Table:
    caption = (
        "sel., sc.: times the authors' two ways; hours: for 10.9 million; top-1: as the first way's, %. "
        f"ceil.: %, of {result['work']['least GFLOP']:.3f} GFLOP a sentence at "
        + ", ".join(f"{rate:,.0f} GFLOP/s in {kind}" for kind, rate in result["product GFLOP/s"].items())
    )
    if result[_EXPECTED]:
        caption += (
            f". {_EXPECTED}: as random weights have no close calls worth the name, with the "
            f"{100 * result[_EXPECTED]['close calls']:.1f} % of the bundled model"
        )
    table = Table(caption=escape(caption), caption_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("way", no_wrap=True)
    for heading in ("per s", "sel.", "sc.", "ceil.", "hours", "MB", "top-1"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in _rows(result):
        table.add_row(
            escape(row["way"]),
            f"{row['sentences/s']:,.0f}",
            _three_digits(row["times authors, selection"]),
            _three_digits(row["times authors, scoring"]),
            _number(row.get("share of ceiling"), 100),
            _three_digits(row["hours for 10.9 M"]),
            _number(row.get("MB")),
            _number(row.get("same top-1"), 100, ".1f"),
        )
    return table


def _number(value: float | None, times: float = 1, form: str = ",.0f") -> str:
    return "" if value is None else format(times * value, form)


def _three_digits(value: float) -> str:
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{decimals}f}"


def _parts(result: Mapping[str, Any]) -> Table:
    table = Table(title="Milliseconds for 1,000 sentences, fp32", title_justify="left")
    table.add_column("part")
    table.add_column("ms", justify="right")
    for name, seconds in result["seconds for 1,000"].items():
        table.add_row(name, _number(seconds, 1000, ",.2f"))
    table.add_row("model's share of a selection's wall time", f"{100 * result['model share']:.1f} %")
    return table


def _lazy(lazy: Mapping[str, Any]) -> Table:
    table = Table(
        title=f"A selected test set of {lazy['pairs']} pairs, {lazy['repeating %']:.0f} % of the candidates repeating",
        caption=f"Lazy: {lazy['times authors, selection']:.1f} times as fast as the authors' way at its rate; the same "
        f"triplets as of the exhaustive run: {'yes' if lazy['same triplets'] else 'no'}",
        title_justify="left",
        caption_justify="left",
    )
    for heading in ("selection", "calls", "seconds"):
        table.add_column(heading, justify="left" if heading == "selection" else "right")
    for name, about in (("exhaustive", "exhaustive, fp32"), ("lazy", "lazy, mixed where there is a twin")):
        table.add_row(about, f"{lazy[f'{name} tested']:,}", f"{lazy[f'{name} seconds']:,.2f}")
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
