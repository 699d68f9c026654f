"""Commands that come before a run: `export`, `predict`, `patterns check`, `data list`, `data get`."""

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import click

from ..basics.choices import Precision, Task
from ..basics.option import Argument, Option
from . import options
from .console import document, say, show
from .program import command
from .run_command import table_command

if TYPE_CHECKING:
    from ..library.shown import Shown

_MODEL = "Hub id, local folder, or mini (the bundled model)."
_REVISION = "Branch, tag or commit on the hub (default: main)."
_TASK = "The task of the model; by default what its architecture says."
_BOS = "Begin every text with the BOS token; for a causal model that does not."
_BASE = "Merge a LoRA adapter with this model (default: none)."
_PRECISION = (
    "fp32: no int8 and fp16 graphs, which likelihoods do not use; mixed: an int8 graph in any case; "
    "auto: an int8 graph where it makes runs faster."
)
_CHECK = "Only say whether the model can be exported, and why not (status 2)."


@command
def export(
    model: Annotated[str, Argument(_MODEL, "MODEL")] = "mini",
    output: options.Output = None,
    revision: Annotated[str | None, Option(_REVISION, "NAME")] = None,
    allow_pickle: Annotated[bool, Option("Also read pickled weights, which can run code.")] = False,
    task: Annotated[Task | None, Option(_TASK)] = None,
    bos: Annotated[bool, Option(_BOS)] = False,
    base: Annotated[str | None, Option(_BASE, "MODEL[@REVISION]")] = None,
    precision: Annotated[Precision, Option(_PRECISION)] = Precision.AUTO,
    force: Annotated[bool, Option("Build the export again even if nothing changed.")] = False,
    check: Annotated[bool, Option(_CHECK)] = False,
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
        raise click.exceptions.Exit(0 if verdict.possible else 2)
    folder = run_export(model, output, bos=bos, force=force, precision=precision, **given)
    manifest, info = read_manifest(folder)
    if as_json:
        document({"folder": str(folder), **info})
    else:
        show(str(folder))
        using = {Task.TEXT_CLASSIFICATION: "nli", Task.TOKEN_CLASSIFICATION: "cues FILE --detector"}
        then = f"negengine {using.get(Task(manifest.task), 'select')} {shlex.quote(str(folder))}"
        say(f"{folder}: {model} is exported; next, `{then}`")


_TEXTS = "Texts with one [MASK] each; a causal model also continues others."
_WITH_BOS = Option("Begin every text with the model's BOS token (causal models).")


@table_command
def predict(
    model: options.Model,
    texts: Annotated[list[str], Argument(_TEXTS, "TEXT...")],
    top: Annotated[int, Option("How many tokens to show.", "N", minimum=1, flags=("--top", "-k"))] = 5,
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

    return Predictions(run_predict(opened, texts, top=top, bos=bos), texts, opened.exported.tokenizer)


@table_command
def check(
    patterns: Annotated[str, Argument("A bundled pattern set, or your own TOML file.", "NAME|FILE")],
    lexicon: options.Lexicon = None,
    sentences: Annotated[int, Option("How many sentences are shown.", "N", minimum=1)] = 10,
    seed: options.Seed = 0,
) -> "Shown":
    """Check a pattern set and its words by the rules of their language, and show sentences.

    `select --plan` says what a model makes of them. The exit status is 2 if something is wrong; the last line names its
    file and line. Example: negengine patterns check italian
    """
    from ..experiments.negation.check_patterns import check_patterns

    return check_patterns(patterns, lexicon=lexicon, sentences=sentences, seed=seed)


@table_command
def list_data() -> "Shown":
    """List the data sets, and whether they are on this machine.

    Example: negengine data list
    """
    from ..experiments.data_sets.sources import DataSets

    return DataSets.found()


_NAMES = Argument("Names of data sets, as `data list` shows them.", "NAME...")


@command
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


patterns = click.Group(commands={"check": check}, help="Check pattern sets and their words.")
data = click.Group(commands={"list": list_data, "get": get_data}, help="Fetch the data sets of other authors.")
