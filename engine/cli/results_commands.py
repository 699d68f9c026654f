"""Commands on runs: `compare`, `report`, `figures`, `show`, `verify`, `cite`, `reproduce`, `merge`, `suite`."""

import json
import shlex
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from ..basics.choices import TABLE, devices_help
from ..basics.errors import InputError
from ..basics.option import Argument, Option
from ..basics.printable import counted
from . import options
from .console import document, pieces, say, show
from .program import command
from .run_command import Setup, command_line, run_command, table_command

if TYPE_CHECKING:
    from ..library.shown import Shown

_Run = Annotated[Path, Argument("The folder of a finished run.", "RUN")]
_Runs = Annotated[list[Path], Argument("The folders of finished runs.", "RUN...")]
_BY = "Rates by group instead: gender, profession, verb, name, relation, dataset, condition or group "
_ITEMS = "Also write a row for each item and model, for R: .csv, .tsv, .jsonl or .parquet (default: not)."


@table_command
def compare(
    runs: _Runs,
    by: Annotated[str | None, Option(_BY + "(default: differences).", "COLUMN")] = None,
    items: Annotated[Path | None, Option(_ITEMS, "FILE")] = None,
) -> "Shown":
    """Compare any number of models, the patterns of one run, or runs that differ in --coreference.

    Example: negengine compare runs/roberta-base runs/roberta-large
    """
    from ..results.comparison.compare import compare as run_compare
    from ..results.comparison.groups import by_group
    from ..results.comparison.runs import item_rows
    from ..results.report.row_files import RowFile

    written = None if items is None else RowFile(items, "--items", mark=False)
    found: Shown = run_compare(*runs) if by is None else by_group(*runs, by=by)
    if written is not None:
        n = written.write(item_rows(*runs))
        say(f"{items}: {counted(n, 'row')}, one for each item and model; docs/r.md has a model for R")
    return found


_RunsOfOneKind = Annotated[list[Path], Argument("Folders of finished runs of one kind.", "RUN...")]


_SEMICOLON_IN_REPORT = "Save tables as CSV with ; and decimal commas, for spreadsheets in countries that write 1,5."


@command
def report(
    runs: _RunsOfOneKind,
    output: Annotated[Path, Option("The file to write.", "FILE", flags=("--output", "-o"))] = Path("report.html"),
    open_: Annotated[bool, Option("Open the report in the browser.", flags=("--open",))] = False,
    semicolon: Annotated[bool, Option(_SEMICOLON_IN_REPORT)] = False,
    as_json: options.Json = False,
) -> None:
    """Write a report of one run, or of several side by side: one HTML file that needs no network.

    Example: negengine report runs/mini -o report.html
    """
    import webbrowser

    from ..results.report.report import report as write_report

    path = write_report(runs, output, semicolon=semicolon)
    size = path.stat().st_size
    if as_json:
        document({"report": str(path), "bytes": size})
    else:
        show(f"{path}: report of {', '.join(map(str, runs))} ({size / 1e6:.1f} MB); open it in a browser")
    if open_ and not webbrowser.open(path.resolve().as_uri()):
        raise InputError(f"{path} is written, but no browser was found; open the file yourself")


@command
def figures(
    runs: _RunsOfOneKind,
    output: Annotated[Path, Option("The folder to write into.", flags=("--output", "-o"))] = Path("figures"),
    as_json: options.Json = False,
) -> None:
    """Write each figure of a report as PDF, SVG and PNG, in the width of a paper's column, and its values as CSV.

    Example: negengine figures runs/mini -o figures
    """
    from ..results.report.report import figures as write_figures

    paths = write_figures(runs, output)
    if as_json:
        document({"folder": str(output), "files": [path.name for path in paths]})
    else:
        names = dict.fromkeys(path.stem for path in paths)
        show(f"{output}: {counted(len(names), 'figure')} as PDF, SVG, PNG and CSV: {', '.join(names)}")
        first = output / f"{next(iter(names))}.pdf" if names else output
        say(f"{output}: next, in LaTeX: \\includegraphics{{{first.as_posix()}}}")


_WHERE = (
    "Only the sentences with this value in this column, or with `rank>5`, `logprob<=-2`, `name!=Anna`, `sentence~not` "
    "(holds the text). May be repeated: several values of a column, or several columns."
)
_SORT = "The smallest values of this column first; -COLUMN: the largest (default: as they were asked)."
_DRAW = "Draw N sentences (default: 20 in tables for people, else all)."
_WRITE = "Write a .csv, .xlsx, .tsv, .jsonl or .parquet file (default: print)."
_SEMICOLON = "CSV with ; and decimal commas, for spreadsheets in countries that write 1,5."


@command
def show_sentences(
    run: _Run,
    where: Annotated[list[str] | None, Option(_WHERE, "CONDITION")] = None,
    sort: Annotated[str | None, Option(_SORT, "COLUMN")] = None,
    failed: Annotated[bool, Option("Only the sentences that the model gets wrong.")] = False,
    sample: Annotated[int | None, Option(_DRAW, "N", minimum=1)] = None,
    seed: options.Seed = 0,
    output: Annotated[Path | None, Option(_WRITE, "FILE", flags=("--output", "-o"))] = None,
    semicolon: Annotated[bool, Option(_SEMICOLON)] = False,
    form: options.FormatOption = TABLE,
    as_json: options.Json = False,
) -> None:
    """Show the items of a run as sentences with the model's answers.

    Example: negengine show runs/mini --where condition=CpTn --failed
    """
    from ..inference.again import drawn
    from ..results.finished import open_run
    from ..results.report.chosen_sentences import FOR_PEOPLE, Examples, chosen
    from ..results.report.row_files import RowFile
    from ..views.formats import find_format

    if output is not None and form != TABLE:
        raise InputError(f"--output and --format {form}: give one of them; the name of the file says how it is written")
    if semicolon and output is None:
        raise InputError("--semicolon: give a file with -o FILE.csv")
    file = None if output is None else RowFile(output, semicolon=semicolon)
    opened = open_run(run)
    rows = chosen(opened, where or (), failed=failed, sort=sort)
    stream = find_format(form).stream
    if file is None and not as_json and stream is None:
        found = Examples.draw(opened, rows, sample or FOR_PEOPLE, seed, failed=failed, sort=sort)
        show(*(found.tables() if form == TABLE else found.remarked()), *found.remarks(), form=form)
        return
    if sample is not None:
        rows = drawn(rows, sample, seed) if sort is None else rows.head(sample)
    if file is None:
        from ..views.to_json import json_array

        begin = f'{{"run": {json.dumps(str(opened.folder))}, "sentences": '
        title = f"{opened.model_name}, {opened.stage}"
        pieces(stream(title, rows) if stream and not as_json else chain([begin], json_array(rows), ["}\n"]))
        return
    n = file.write(rows)
    if as_json:
        document({"run": str(run), "file": str(output), "sentences": n})
    else:
        show(f"{output}: {counted(n, 'sentence')} of {run}")


_PORT = "The port of the page's address (default: a free one)."
_OPEN = "Open the page in the browser."
_BUNDLE = "Write a folder with the page, for a colleague without Python (default: open the page)."


@command
def view(
    runs: _RunsOfOneKind,
    port: Annotated[int | None, Option(_PORT, "N", minimum=0, maximum=65535)] = None,
    open_: Annotated[bool, Option(_OPEN, flags=("--open/--no-open",))] = True,
    bundle: Annotated[Path | None, Option(_BUNDLE, "DIR")] = None,
) -> None:
    """Look at every item of one run, or of several, on a page of this computer: search, filter, sort, count, compare.

    Example: negengine view runs/mini
    """
    import webbrowser

    from ..results.view.items import Items
    from ..results.view.page import bundle as write_bundle
    from ..results.view.page import library
    from ..results.view.server import Viewer

    items = Items.open(runs)
    if bundle is not None:
        show(write_bundle(items, bundle))
        return
    library()
    with Viewer(items, port or 0) as viewer:
        show(f"{viewer.address}: open it in a browser of this computer; Ctrl-C ends it")
        if open_:
            webbrowser.open(viewer.address)
        viewer.serve_forever()


_SAMPLE = "Decide N items of each kind again, one by one, in fp32 (default: 300; 0: none)."
_SEED = "Seed for the choice of these items (default: a new one, which is printed)."
_LEXICON = "The word lists of a selection, if they were moved (default: where they were)."
_TORCH = "Decide the same items in PyTorch, too, from the model's checkpoint (default: not)."


@table_command
def verify(
    target: Annotated[str, Argument("A run folder, an exported folder, or its name.", "RUN|MODEL")],
    sample: Annotated[int | None, Option(_SAMPLE, "N", minimum=0)] = None,
    seed: Annotated[int | None, Option(_SEED, "N", minimum=0)] = None,
    model: options.MovedModel = None,
    lexicon: Annotated[Path | None, Option(_LEXICON, "DIR")] = None,
    torch: Annotated[str | None, Option(_TORCH, "CHECKPOINT")] = None,
) -> "Shown":
    """Compare a run or an exported model with what it should hold; nothing is changed.

    The exit status is 2 if something is damaged; the last line names it and the command that repairs it.
    Example: negengine verify runs/mini --sample 100
    """
    from ..results.verification.verify import verify as run_verify

    return run_verify(target, sample=sample, seed=seed, model=model, lexicon=lexicon, torch=torch)


class CitationFormat(StrEnum):
    """How a citation is printed."""

    TEXT = "text"
    BIBTEX = "bibtex"
    JSON = "json"


_FORMAT = Option("text: methods, facts, BibTeX; bibtex alone; json.", flags=("--format",))


@command
def cite(runs: _Runs, form: Annotated[CitationFormat, _FORMAT] = CitationFormat.TEXT) -> None:
    """Print a methods paragraph, BibTeX, and facts for the Responsible NLP checklist.

    Example: negengine cite runs/mini
    """
    from ..results.report.citation import cite as run_cite

    found = run_cite(*runs)
    if form is CitationFormat.JSON:
        document(found.document())
    else:
        show((found.bibtex if form is CitationFormat.BIBTEX else found.text).rstrip("\n"))
    if form is CitationFormat.TEXT:
        named = " ".join(shlex.quote(str(run)) for run in runs)
        command = f"negengine cite {named} --format bibtex > references.bib"
        say(f"read and shorten the text; `{command}` writes the BibTeX alone")


@table_command
def reproduce(
    run: _Run,
    output: Annotated[Path, Option("The folder of the new run.", flags=("--output", "-o"))],
    model: options.MovedModel = None,
    device: Annotated[str | None, Option(f"{devices_help()} (default: as recorded).")] = None,
) -> "Shown":
    """Run the same again from what a run has recorded, and say what differs.

    Example: negengine reproduce runs/mini -o runs/mini-again
    """
    from ..results.report.reproduction import reproduce as run_reproduce

    return run_reproduce(run, output, model=model, device=device, command=command_line())


_SHARDS = "The folders of all shards; or the name of the whole run, a pattern, or a folder that holds them."
_WHOLE = "The run folder (default: the shards' name without -I-of-N)."
_STATUS = "Say which shards are finished, running, stopped or missing; merge nothing."


@table_command
def merge(
    shards: Annotated[list[Path], Argument(_SHARDS, "SHARD...")],
    output: Annotated[Path | None, Option(_WHOLE, "RUN", flags=("--output", "-o"))] = None,
    status: Annotated[bool, Option(_STATUS)] = False,
) -> "Shown":
    """Put the shards of a run together.

    With --status, the exit status is 0 if all shards are finished, and 3 if not.
    Example: negengine merge runs/mini-1-of-2 runs/mini-2-of-2 -o runs/mini
    """
    from ..results.finished import merge as run_merge
    from ..results.finished import shards_status

    return shards_status(shards) if status else run_merge(shards, output)


@partial(run_command, folder="runs/ and the name of the file")
def suite(
    setup: Setup,
    file: Annotated[Path, Argument("A TOML file with models, experiments and settings.", "FILE")],
    plan: Annotated[bool, Option("List the runs and how far they are; run nothing.")] = False,
) -> "Shown":
    """Run models × experiments × settings from a file, with one table and one report of all.

    Runs that are finished are not run again. If one fails, the others run, and the exit status is 3. --shard I/N runs
    every N-th run. Example: negengine suite suite.toml
    """
    from ..results.suite.suite_run import plan_suite
    from ..results.suite.suite_run import suite as run_suite

    return (plan_suite if plan else run_suite)(file, **vars(setup.opening), **setup.run)
