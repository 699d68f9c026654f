"""`negengine patterns`: pattern sets and their languages."""

from typing import Annotated

import typer

from ..basics.choices import TABLE
from ..commands import options
from ..commands.program import Program
from ..commands.run_command import print_result

app = Program(help="Check pattern sets and their words.", no_args_is_help=True)


@app.callback()
def patterns() -> None:
    """Check pattern sets and their words."""


@app.command()
def check(
    patterns: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A bundled pattern set, or your own TOML file.")],
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="Show what this model's tokenizer makes of them (default: rules and sentences only)."
        ),
    ] = None,
    lexicon: options.Lexicon = None,
    sentences: Annotated[int, typer.Option(min=1, metavar="N", help="How many sentences are shown.")] = 10,
    seed: options.Seed = 0,
    form: options.FormatOption = TABLE,
    as_json: options.Json = False,
) -> None:
    """Check a pattern set and its words, and show sentences and what a tokenizer makes of them.

    The exit status is 2 if something is wrong; the last line names its file and line.
    Example: negengine patterns check italian --model mini
    """
    from ..experiments.negation.check_patterns import check_patterns

    found = check_patterns(patterns, model=model, lexicon=lexicon, sentences=sentences, seed=seed)
    print_result(found, form, as_json)
    found.refuse_problems()
