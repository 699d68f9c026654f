"""Options that several commands share: one name, one meaning, one help line."""

import inspect
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..basics.choices import output_formats
from ..basics.option import options_of


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """An option as Typer reads it; one without a default must be given."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def parameters(declared: Any) -> list[inspect.Parameter]:
    """All options of a dataclass; one without a default or a flag of its own, or for several words, is an argument."""
    found = []
    for field in options_of(declared).values():
        own = field.option
        how: dict[str, Any] = {"metavar": own.metavar, "help": own.help, "min": own.minimum, "max": own.maximum}
        is_argument = (field.required and not own.flags) or re.search(r"[A-Z]\.\.\.", own.metavar or "") is not None
        told = typer.Argument(**how) if is_argument else typer.Option(*(own.flags or [field.flag]), **how)
        default = inspect.Parameter.empty if field.required else field.shown_default
        found.append(keyword(field.name, Annotated[field.command_type, told], default))
    return found


def complete_models(incomplete: str) -> list[str]:
    """The exported models whose names begin so, for a shell that completes a command line."""
    from ..inference.exported import exported_names

    return [name for name in exported_names() if name.startswith(incomplete)]


Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="An exported folder, or its name under models/.", autocompletion=complete_models
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="DIR", help="The folder to write (default: models/NAME).")
]
MovedModel = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="DIR", help="The folder of the run's model, if it was moved (default: where it was)."
    ),
]
RunFolder = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="The run folder (default: runs/MODEL or runs/MODEL-PROBE)."),
]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda, cuda:INDEX or webgpu.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed for all random choices.")]
Lexicon = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|DIR", help="A bundled lexicon, or your own word lists (default: those of the patterns)."
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        metavar="I/N|auto",
        help="Run the I-th of N shards (default: the whole run); `merge` puts them together. auto, or "
        "auto:FIRST-LAST: as the job array says.",
    ),
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Run on a Ray cluster: HOST:PORT, ray://HOST:PORT, auto, or local for this machine (default: no Ray).",
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="With --ray: workers (default: by what the cluster has).")
]
CpusPerWorker = Annotated[
    float | None,
    typer.Option(metavar="N", help="With --ray: CPUs and CPU threads of a worker (default: an equal share)."),
]
GpusPerWorker = Annotated[
    float | None,
    typer.Option(metavar="N", help="With --ray: GPUs of a worker, such as 1, 0.5 or 0 (default: 1 if there are GPUs)."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, all messages on stderr.")]
if TYPE_CHECKING:
    _Format = str
else:  # the files decide what there is, so a type checker cannot know it
    _Format = StrEnum("Format", {name.upper(): name for name in output_formats()})
FormatOption = Annotated[_Format, typer.Option("--format", help="Format of the tables.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print more messages on stderr.")]
