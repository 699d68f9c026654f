"""Commands that come before a run: `export`, `predict`, `patterns check`, `data list`, `data get`."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..basics.choices import Task
from . import options
from .console import document, say, show
from .program import Program
from .run_command import table_command

if TYPE_CHECKING:
    from ..library.shown import Shown

_MODEL = "Hub id, local folder, or mini (the bundled model)."
_REVISION = "Branch, tag or commit on the hub (default: main)."
_TASK = "The task of the model; by default what its architecture says."
_BOS = "Begin every text with the BOS token; for a causal model that does not."
_BASE = "Merge a LoRA adapter with this model (default: none)."
_CHECK = "Only say whether the model can be exported, and why not (status 2)."


def export(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=_MODEL)] = "mini",
    output: options.Output = None,
    revision: Annotated[str | None, typer.Option(metavar="NAME", help=_REVISION)] = None,
    allow_pickle: Annotated[bool, typer.Option(help="Also read pickled weights, which can run code.")] = False,
    task: Annotated[Task | None, typer.Option(help=_TASK)] = None,
    bos: Annotated[bool, typer.Option("--bos", help=_BOS)] = False,
    base: Annotated[str | None, typer.Option(metavar="MODEL[@REVISION]", help=_BASE)] = None,
    force: Annotated[bool, typer.Option(help="Build the export again even if nothing changed.")] = False,
    check: Annotated[bool, typer.Option("--check", help=_CHECK)] = False,
    as_json: options.Json = False,
) -> None:
    """Export a masked or a causal language model, or a classifier of sentence pairs, to ONNX.

    Example: negengine export roberta-base
    """
    from ..inference.exported import read_manifest
    from ..library.model import check_export
    from ..library.model import export as run_export

    given: Any = {"task": task, "base": base, "revision": revision, "allow_pickle": allow_pickle}
    if check:
        verdict = check_export(model, output, **given)
        document(verdict.document()) if as_json else show("\n".join(verdict.lines()))
        raise typer.Exit(0 if verdict.possible else 2)
    folder = run_export(model, output, bos=bos, force=force, **given)
    manifest, info = read_manifest(folder)
    if as_json:
        document({"folder": str(folder), **info})
    else:
        show(str(folder))
        using = {Task.TEXT_CLASSIFICATION: "nli", Task.TOKEN_CLASSIFICATION: "cues FILE --detector"}
        then = f"negengine {using.get(Task(manifest.task), 'select')} {shlex.quote(str(folder))}"
        say(f"{folder}: {model} is exported; next, `{then}`")


_TEXTS = "Texts with one [MASK] each; a causal model also continues others."
_WITH_BOS = typer.Option("--bos", help="Begin every text with the model's BOS token (causal models).")


@table_command
def predict(
    model: options.Model,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help=_TEXTS)],
    top: Annotated[int, typer.Option("--top", "-k", min=1, metavar="N", help="How many tokens to show.")] = 5,
    bos: Annotated[bool, _WITH_BOS] = False,
    device: options.Device = "auto",
) -> "Shown":
    """Show the most probable tokens at the mask of free text.

    Example: negengine predict mini "Jessica is a dancer. She is happy to [MASK]."
    """
    from ..basics.option import Opening
    from ..library.model import find_model

    opened = find_model(model, Opening(device)).begun()  # while the imports below take their time
    from ..library.predict import Predictions
    from ..library.predict import predict as run_predict

    return Predictions(run_predict(opened, texts, top=top, bos=bos))


patterns_app = Program(help="Check pattern sets and their words.", no_args_is_help=True)


@patterns_app.callback()
def patterns() -> None:
    """Check pattern sets and their words."""


_TOKENIZER = "Show what this model's tokenizer makes of them (default: rules and sentences only)."


@patterns_app.command()
@table_command
def check(
    patterns: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A bundled pattern set, or your own TOML file.")],
    model: Annotated[str | None, typer.Option(metavar="MODEL", help=_TOKENIZER)] = None,
    lexicon: options.Lexicon = None,
    sentences: Annotated[int, typer.Option(min=1, metavar="N", help="How many sentences are shown.")] = 10,
    seed: options.Seed = 0,
) -> "Shown":
    """Check a pattern set and its words, and show sentences and what a tokenizer makes of them.

    The exit status is 2 if something is wrong; the last line names its file and line.
    Example: negengine patterns check italian --model mini
    """
    from ..experiments.negation.check_patterns import check_patterns

    return check_patterns(patterns, model=model, lexicon=lexicon, sentences=sentences, seed=seed)


data_app = Program(help="Fetch the data sets of other authors.", no_args_is_help=True)


@data_app.command("list")
@table_command
def list_data() -> "Shown":
    """List the data sets, and whether they are on this machine.

    Example: negengine data list
    """
    from ..experiments.data_sets.sources import DataSets

    return DataSets.found()


_NAMES = typer.Argument(metavar="NAME...", help="Names of data sets, as `data list` shows them.")


@data_app.command("get")
def get_data(names: Annotated[list[str], _NAMES]) -> None:
    """Fetch data sets into the cache, or check that they are there.

    The variable NEGENGINE_DATA names another folder. Example: negengine data get lm-diagnostics
    """
    from ..experiments.data_sets.fetch import get
    from ..experiments.data_sets.sources import source

    found = [source(name) for name in names]
    for one in found:
        show(str(get(one.name, say=say)))
        say(f"{one.name} is here; next, `{one.reading}`")
