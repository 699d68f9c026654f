"""Options that several commands share: one name, one meaning, one help line."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Precision(StrEnum):
    """Choices of --precision; as in `inference.precision`, which takes long to import."""

    AUTO = "auto"
    FP32 = "fp32"
    MIXED = "mixed"


class Task(StrEnum):
    """Choices of --task of `export`."""

    FILL_MASK = "fill-mask"
    TEXT_CLASSIFICATION = "text-classification"


class Format(StrEnum):
    """Choices of --format; as in `tables.render`, which takes long to import."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"


class Coreference(StrEnum):
    """Choices of --coreference; as in `negation.grid`, which takes long to import."""

    PRONOUN = "pronoun"
    SAME_NAME = "same-name"
    SAME_GENDER = "same-gender"
    OTHER_GENDER = "other-gender"


class Verbs(StrEnum):
    """Choices of --verbs; as in `sentences`, which takes long to import."""

    IN_CONTEXT = "in-context"
    BARE = "bare"


Model = Annotated[str, typer.Argument(help="An exported folder, or its name under models/.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Output folder.")]
RunFolder = Annotated[
    Path | None, typer.Option("--output", "-o", help="The run folder (default: runs/MODEL or runs/MODEL-PROBE).")
]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda or cuda:INDEX.")]
Devices = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda or cuda:INDEX; several share the work: cuda:0,cuda:1.")
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision", help="mixed: a low-precision model where that is safe, else fp32; auto: the faster of both."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed for all random choices.")]
Pairs = Annotated[
    int | None,
    typer.Option("--pairs", min=1, metavar="N", help="Use a random sample of N [NAME, PROF] pairs (default: all)."),
]
Lexicon = Annotated[Path | None, typer.Option("--lexicon", metavar="DIR", help="Your own word lists.")]
Shard = Annotated[
    str | None, typer.Option("--shard", metavar="I/N", help="Run the I-th of N shards; `merge` puts them together.")
]
BatchTokens = Annotated[int | None, typer.Option("--batch-tokens", min=16, help="Largest number of tokens in a batch.")]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="CPU threads (default: one for each core).")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, all messages on stderr.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Format of the tables.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print more messages on stderr.")]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="PATH", help="Folder of the data (default: where `data get` put them).")
]
