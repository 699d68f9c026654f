"""`negengine show`: the items of a run as sentences with the model's answers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..choices import Format
from ..commands import options
from ..commands.console import document, pieces, show
from ..errors import InputError
from ..printable import counted, json_safe

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

    from ..library.run import Run

Values = list[str] | None


def show_sentences(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    condition: Annotated[
        Values,
        typer.Option("--condition", metavar="CONDITION", help="Sentences of this condition only; may be repeated."),
    ] = None,
    pattern: Annotated[
        Values, typer.Option("--pattern", metavar="PATTERN", help="Sentences of this pattern only; may be repeated.")
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Sentences only that the model fails.")] = False,
    verb: Annotated[
        Values, typer.Option("--verb", metavar="VERB", help="Sentences with this verb only; may be repeated.")
    ] = None,
    name: Annotated[
        Values, typer.Option("--name", metavar="NAME", help="Sentences with this name only; may be repeated.")
    ] = None,
    profession: Annotated[
        Values,
        typer.Option(
            "--profession", metavar="PROFESSION", help="Sentences with this profession only; may be repeated."
        ),
    ] = None,
    where: Annotated[
        Values,
        typer.Option("--where", metavar="COLUMN=VALUE", help="Sentences with this value only; may be repeated."),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample", min=1, metavar="N", help="Draw N sentences (default: 20 in tables for people, else all)."
        ),
    ] = None,
    seed: options.Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a .parquet, .csv, .tsv or .jsonl file (default: print)."
        ),
    ] = None,
    form: options.FormatOption = Format.TABLE,
    as_json: options.Json = False,
) -> None:
    """Show the items of a run as sentences with the model's answers.

    Example: negengine show runs/mini --pattern CpTn --failed
    """
    from ..library.open import open_run
    from ..library.sentences import drawn
    from ..results.report.chosen import FOR_PEOPLE, OPTIONS, Examples, Filter, chosen
    from ..results.report.sentence_files import check_name, write

    given = {"--condition": condition, "--pattern": pattern, "--verb": verb, "--name": name, "--profession": profession}
    filters = [Filter(said, OPTIONS[said], values) for said, values in given.items() if values]
    filters += [Filter.parse(text) for text in where or ()]
    if output is not None:
        if form is not Format.TABLE:
            raise InputError(
                f"--output and --format {form}: give one of them; the name of the file says how it is written"
            )
        check_name(output)
    opened = open_run(run)
    rows = chosen(opened, filters, failed=failed)
    if output is None and not as_json and form not in {Format.JSON, Format.CSV}:
        found = Examples.draw(opened, rows, sample or FOR_PEOPLE, seed, failed=failed)
        show(*found.tables(), *found.remarks(), form=form)
        return
    rows = rows if sample is None else drawn(rows, sample, seed)
    if output is None:
        pieces(_streamed(opened, rows, form, as_json))
        return
    n = write(rows, output)
    if as_json:
        document({"run": str(run), "file": str(output), "sentences": n})
    else:
        show(f"{output}: {counted(n, 'sentence')} of {run}")


def _streamed(run: "Run", rows: "pl.LazyFrame", form: Format, as_json: bool) -> "Iterator[str]":
    """The rows as CSV; as one JSON document with --json; as the JSON of a table with --format json."""
    from ..results.report.sentence_files import csv, json_array

    if not as_json and form is Format.CSV:
        yield from csv(rows)
        return
    if as_json:
        yield f'{{"run": {json.dumps(str(run.folder))}, "sentences": '
        yield from map(json_safe, json_array(rows))
        yield "}\n"
        return
    yield f'[{{"title": {json.dumps(f"{run.model_name}, {run.stage}")}, "units": {{}}, "rows": '
    yield from map(json_safe, json_array(rows))
    yield ', "notes": []}]\n'
