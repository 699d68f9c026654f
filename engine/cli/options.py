"""Options that several commands share: one name, one meaning, one help line."""

import inspect
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..basics.choices import devices_help, output_formats
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


_MODEL = "An exported folder, or its name under models/."
Model = Annotated[str, typer.Argument(metavar="MODEL", help=_MODEL, autocompletion=complete_models)]
_OUTPUT = "The folder to write (default: models/NAME)."
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help=_OUTPUT)]
_MOVED = "The folder of the run's model, if it was moved (default: where it was)."
MovedModel = Annotated[str | None, typer.Option("--model", metavar="DIR", help=_MOVED)]
_RUN = "The run folder (default: runs/MODEL or runs/MODEL-PROBE)."
RunFolder = Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help=_RUN)]
_REPLACE = "Keep another run in this folder, such as one of an older table, under the name RUN.1."
Replace = Annotated[bool, typer.Option("--replace", help=_REPLACE)]
Device = Annotated[str, typer.Option(metavar="DEVICE", help=f"{devices_help()}.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed for all random choices.")]
_LEXICON = "A bundled lexicon, or your own word lists (default: those of the patterns)."
Lexicon = Annotated[str | None, typer.Option(metavar="NAME|DIR", help=_LEXICON)]
_SHARD = "Run the I-th of N shards (default: the whole run); `merge` puts them together. auto, or auto:FIRST-LAST: "
Shard = Annotated[str | None, typer.Option(metavar="I/N|auto", help=_SHARD + "as the job array says.")]
_RAY = "Run on a Ray cluster: HOST:PORT, ray://HOST:PORT, auto, or local for this machine (default: no Ray)."
Ray = Annotated[str | None, typer.Option(metavar="ADDRESS", help=_RAY)]
_WORKERS = "With --ray: workers (default: by what the cluster has)."
Workers = Annotated[int | None, typer.Option(min=1, metavar="N", help=_WORKERS)]
_CPUS = "With --ray: CPUs and CPU threads of a worker (default: an equal share)."
CpusPerWorker = Annotated[float | None, typer.Option(metavar="N", help=_CPUS)]
_GPUS = "With --ray: GPUs of a worker, such as 1, 0.5 or 0 (default: 1 if there are GPUs)."
GpusPerWorker = Annotated[float | None, typer.Option(metavar="N", help=_GPUS)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, all messages on stderr.")]
if TYPE_CHECKING:
    _Format = str
else:  # the files decide what there is, so a type checker cannot know it
    _Format = StrEnum("Format", {name.upper(): name for name in output_formats()})
FormatOption = Annotated[_Format, typer.Option("--format", help="Format of the tables.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print more messages on stderr.")]
