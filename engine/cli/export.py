"""`negengine export`: a checkpoint as ONNX graphs."""

from typing import Annotated

import typer

from ..basics.choices import Task
from ..commands import options
from ..commands.console import document, say, show


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
    from ..inference.manifest import read_manifest
    from ..library.load import check_export
    from ..library.load import export as run_export

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
