"""Options that several commands share: one name, one meaning, one help line."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from ..errors import InputError

Model = Annotated[str, typer.Argument(help="An exported folder, or its name under models/.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="The very folder to write.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:INDEX.")]
Devices = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda or cuda:INDEX; several, as in cuda:0,cuda:1, share the work.")
]
Precision = Annotated[str, typer.Option("--precision", help="auto, fp32 or mixed.")]
Seed = Annotated[int, typer.Option("--seed", help="Of every random choice.")]
Pairs = Annotated[int | None, typer.Option("--pairs", min=1, metavar="N", help="A sample of N [NAME, PROF] pairs.")]
Lexicon = Annotated[Path | None, typer.Option("--lexicon", metavar="DIR", help="Your own word lists.")]
Shard = Annotated[str | None, typer.Option("--shard", metavar="I/N", help="Do the I-th of N shares; merge them later.")]
BatchTokens = Annotated[int | None, typer.Option("--batch-tokens", min=16, help="Most tokens in a batch.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads; by default one a core.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, everything else on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say more on stderr.")]

Kind = TypeVar("Kind", bound=StrEnum)


def choice(kind: type[Kind], option: str, word: str) -> Kind:
    """The member of an enumeration that an option names.

    Raises:
        InputError: there is none.
    """
    try:
        return kind(word)
    except ValueError:
        raise InputError(f"{option} {word}: give {', '.join(kind)}") from None
