"""Commands only: parse, call, print. No logic.

What a command needs is imported inside it, so that `negengine --help` answers at once.
"""

import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from .errors import InputError

app = typer.Typer(
    name="negengine",
    help="Negation probes of masked language models, at the speed of the hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

Model = Annotated[str, typer.Argument(help="An exported folder, or its name under models/.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="The very folder (or file) to write.")]
DeviceOption = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:INDEX.")]
Precision = Annotated[str, typer.Option("--precision", help="auto, fp32 or mixed.")]
Seed = Annotated[int, typer.Option("--seed", help="Of every random choice.")]
ShardOption = Annotated[
    str | None, typer.Option("--shard", metavar="I/N", help="Do the I-th of N shares (merge them later).")
]
BatchTokens = Annotated[int | None, typer.Option("--batch-tokens", min=16, help="Tokens in a batch.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads inside an operator.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, everything else on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more on stderr.")]


def main() -> NoReturn:
    """Run a command; exit with 0 done, 1 a fault of ours, 2 the user can mend it, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a batch system's polite stop is an interrupt too
    try:
        status = app(standalone_mode=False)  # typer turns an interrupt into the status 130
    except InputError as error:
        _fail(str(error), 2)
    except typer.TyperException as error:
        if len(sys.argv) == 1:
            print(error.format_message())
            sys.exit(0)
        context = getattr(error, "ctx", None)
        _fail(f"{error.format_message()} (see `{context.command_path if context else 'negengine'} --help`)", 2)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    if status == _INTERRUPTED:
        _fail(f"interrupted; what is finished is kept. To resume: {_same_command()}", _INTERRUPTED)
    sys.exit(status or 0)


_INTERRUPTED = 130


def _fail(message: str, status: int) -> NoReturn:
    print(f"negengine: {message}", file=sys.stderr)
    sys.exit(status)


def _same_command() -> str:
    import shlex

    return shlex.join(["negengine", *sys.argv[1:]])


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def _show(*renderables: Any) -> None:
    from rich.console import Console

    console = Console()
    for item in renderables:
        console.print(item)


def _document(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False, indent=2))


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="Hub id, local folder, or mini (the bundled model).")] = "mini",
    output: Output = None,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit on the hub.")] = None,
    allow_pickle: Annotated[bool, typer.Option(help="Read pickled weights: they can run code.")] = False,
    force: Annotated[bool, typer.Option(help="Build anew even if nothing changed.")] = False,
    as_json: Json = False,
) -> None:
    """Export a masked language model to ONNX, once.

    Example: negengine export roberta-base
    """
    build = _export_package().build
    folder = build(model, output, revision=revision, allow_pickle=allow_pickle, force=force, say=_say)
    if as_json:
        _document({"folder": str(folder), **json.loads((folder / "export.json").read_text(encoding="utf-8"))})
    else:
        print(folder)


def _export_package() -> Any:
    try:
        from ..export import build
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("negengine"):
            raise
        raise InputError(f"export needs {error.name}: pip install 'negengine[export]'") from None
    return build


@app.command()
def predict(
    model: Model,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="Sentences with one [MASK] each.")],
    top: Annotated[int, typer.Option("--top", "-k", min=1, help="How many tokens to show.")] = 5,
    device: DeviceOption = "auto",
    as_json: Json = False,
) -> None:
    """Show the most probable tokens at the mask of free text.

    Example: negengine predict mini "Jessica is a dancer. She is happy to [MASK]."
    """
    from .predict import predict as run
    from .predict import predictions_table

    predictions = run(model, texts, top=top, device=device)
    if as_json:
        _document(predictions)
    else:
        _show(*(predictions_table(item) for item in predictions))
