"""The program: the commands of all probes, and all other commands.

Commands parse their arguments, call the library, and print.

What a command needs is imported inside it, so that `negengine --help` answers at once.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ..choices import Task
from ..commands import options
from ..commands.console import document, open_standard_streams, say, show
from ..commands.program import Program
from ..commands.run_command import resuming_command, table_command
from ..commands.subcommands import with_subcommands
from ..errors import OF_THE_MACHINE, InputError, shortened
from ..library.registry import commands as probe_commands
from ..library.registry import resumable, subcommands
from . import benchmark, comparison, data, paper, patterns, sentences, shards, suite, verify
from . import report as reports

if TYPE_CHECKING:
    from ..library.shown import Shown

app = Program(
    name="negengine",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def run() -> int:
    """Run the command of this process's arguments; returns the exit status."""
    open_standard_streams()
    try:
        return app(standalone_mode=False, prog_name="negengine") or 0  # Typer turns an interrupt into status 130
    except InputError as error:
        say(f"negengine: {error}")
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # Typer does not export it
            show(error.format_message())
            return 0
        context = getattr(error, "ctx", None)
        where = f"{context.command_path if context else 'negengine'} --help"
        say(f"negengine: {shortened(_message(error))} (see `{where}`)")
    except OSError as error:
        if error.errno not in OF_THE_MACHINE:
            raise
        said = f"{error.filename or 'the system'}: {error.strerror}; try again once the cause is removed"
        say(f"negengine: {shortened(said)}")
    return 2


def _message(error: typer.TyperException) -> str:
    """Typer's message, without the prefix of a library, and with what may have been meant."""
    if near := getattr(error, "possibilities", None):
        return f"{getattr(error, 'message', '').removesuffix('.')}. Did you mean {' or '.join(sorted(near))}?"
    return error.format_message().replace("Value error, ", "").removesuffix(".")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        show(f"negengine {version('negengine')}")
        raise typer.Exit


@app.callback()
def negengine(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Negation probes of language models, at the speed of the hardware."""


def say_interrupted() -> None:
    """Say what an interrupted run has kept, and which command resumes it."""
    named = {" ".join(sys.argv[1:2]), " ".join(sys.argv[1:3])}
    kept = not named.isdisjoint({"merge", "reproduce", "suite", *resumable()})
    say(f"negengine: interrupted{f'; finished parts are kept. To resume: {resuming_command()}' if kept else ''}")


@app.command()
def export(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Hub id, local folder, or mini (the bundled model).")
    ] = "mini",
    output: options.Output = None,
    revision: Annotated[
        str | None, typer.Option(metavar="NAME", help="Branch, tag or commit on the hub (default: main).")
    ] = None,
    allow_pickle: Annotated[bool, typer.Option(help="Also read pickled weights, which can run code.")] = False,
    task: Annotated[
        Task | None, typer.Option(help="The task of the model; by default what its architecture says.")
    ] = None,
    bos: Annotated[
        bool, typer.Option("--bos", help="Begin every text with the BOS token; for a causal model that does not.")
    ] = False,
    force: Annotated[bool, typer.Option(help="Build the export again even if nothing changed.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the model can be exported, and why not (status 2).")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Export a masked or a causal language model, or a classifier of sentence pairs, to ONNX.

    Example: negengine export roberta-base
    """
    from ..api.load import check_export
    from ..api.load import export as run_export
    from ..inference.manifest import read_manifest

    if check:
        verdict = check_export(model, output, task=task, revision=revision, allow_pickle=allow_pickle)
        document(verdict.document()) if as_json else show("\n".join(verdict.lines()))
        raise typer.Exit(0 if verdict.possible else 2)
    folder = run_export(model, output, task=task, bos=bos, revision=revision, allow_pickle=allow_pickle, force=force)
    manifest, info = read_manifest(folder)
    if as_json:
        document({"folder": str(folder), **info})
    else:
        show(str(folder))
        using = {Task.TEXT_CLASSIFICATION: "nli", Task.TOKEN_CLASSIFICATION: "cues FILE --detector"}
        say(f"{folder}: {model} is exported; next, `negengine {using.get(Task(manifest.task), 'select')} {folder}`")


for probe_command in probe_commands():
    app.command(cls=with_subcommands(subcommands(probe_command.__name__)))(probe_command)


app.command()(suite.suite)
app.command()(shards.merge)
app.command()(comparison.compare)


@app.command()
@table_command
def predict(
    model: options.Model,
    texts: Annotated[
        list[str],
        typer.Argument(metavar="TEXT...", help="Texts with one [MASK] each; a causal model also continues others."),
    ],
    top: Annotated[int, typer.Option("--top", "-k", min=1, metavar="N", help="How many tokens to show.")] = 5,
    device: options.Device = "auto",
) -> "Shown":
    """Show the most probable tokens at the mask of free text.

    Example: negengine predict mini "Jessica is a dancer. She is happy to [MASK]."
    """
    from ..library.model import find_model

    opening = find_model(model, device=device).opening()  # while the imports below take their time
    from ..api.predict import Predictions
    from ..api.predict import predict as run_predict

    return Predictions(run_predict(opening, texts, top=top))


app.command()(reports.report)
app.command()(reports.figures)
app.command("show")(sentences.show_sentences)
app.command()(benchmark.bench)
app.command()(verify.verify)
app.command()(paper.cite)
app.command()(paper.reproduce)


@app.command()
def doctor(as_json: options.Json = False) -> None:
    """Check what works on this machine, and what is missing.

    Example: negengine doctor
    """
    from .doctor import diagnose

    found = diagnose()
    if as_json:
        document(found)
    else:
        width = max(map(len, found))
        show("\n".join(f"{name:{width}}  {value}" for name, value in found.items()))


app.add_typer(data.app, name="data")
app.add_typer(patterns.app, name="patterns")
