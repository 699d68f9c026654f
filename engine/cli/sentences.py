"""`negengine show`: the items of a run as sentences with the model's answers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..basics.choices import TABLE
from ..basics.errors import InputError
from ..basics.printable import counted
from ..commands import options
from ..commands.console import document, pieces, show

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
    form: options.FormatOption = TABLE,
    as_json: options.Json = False,
) -> None:
    """Show the items of a run as sentences with the model's answers.

    Example: negengine show runs/mini --pattern CpTn --failed
    """
    from ..library.open import open_run
    from ..library.sentences import drawn
    from ..results.report.chosen_sentences import FOR_PEOPLE, OPTIONS, Examples, Filter, check_name, chosen, write
    from ..views.formats import find_format

    given = {"--condition": condition, "--pattern": pattern, "--verb": verb, "--name": name, "--profession": profession}
    filters = [Filter(said, OPTIONS[said], values) for said, values in given.items() if values]
    filters += [Filter.parse(text) for text in where or ()]
    if output is not None:
        if form != TABLE:
            raise InputError(
                f"--output and --format {form}: give one of them; the name of the file says how it is written"
            )
        check_name(output)
    opened = open_run(run)
    rows = chosen(opened, filters, failed=failed)
    stream = find_format(form).stream
    if output is None and not as_json and stream is None:
        found = Examples.draw(opened, rows, sample or FOR_PEOPLE, seed, failed=failed)
        show(*found.tables(), *found.remarks(), form=form)
        return
    rows = rows if sample is None else drawn(rows, sample, seed)
    if output is None:
        title = f"{opened.model_name}, {opened.stage}"
        pieces(_document(opened, rows) if as_json or stream is None else stream(title, rows))
        return
    n = write(rows, output)
    if as_json:
        document({"run": str(run), "file": str(output), "sentences": n})
    else:
        show(f"{output}: {counted(n, 'sentence')} of {run}")


def _document(run: "Run", rows: "pl.LazyFrame") -> "Iterator[str]":
    from ..views.to_json import json_array

    yield f'{{"run": {json.dumps(str(run.folder))}, "sentences": '
    yield from json_array(rows)
    yield "}\n"
