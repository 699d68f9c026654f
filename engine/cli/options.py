"""Options that several commands share: one name, one meaning, one help line."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from ..basics.choices import devices_help, output_formats
from ..basics.option import Argument, Option


def complete_models(incomplete: str) -> list[str]:
    """The exported models whose names begin so, for a shell that completes a command line."""
    from ..inference.exported import exported_names

    return [name for name in exported_names() if name.startswith(incomplete)]


_MODEL = "An exported folder, or its name under models/."
Model = Annotated[str, Argument(_MODEL, "MODEL", complete=complete_models)]
_OUTPUT = "The folder to write (default: models/NAME)."
Output = Annotated[Path | None, Option(_OUTPUT, "DIR", flags=("--output", "-o"))]
_MOVED = "The folder of the run's model, if it was moved (default: where it was)."
MovedModel = Annotated[str | None, Option(_MOVED, "DIR")]
RunFolder = Annotated[Path | None, Option("The run folder.", "DIR", flags=("--output", "-o"))]
_REPLACE = "Keep another run in this folder, such as one of an older table, under the name RUN.1."
Replace = Annotated[bool, Option(_REPLACE)]
Device = Annotated[str, Option(f"{devices_help()}.", "DEVICE")]
Seed = Annotated[int, Option("Seed for all random choices.", "N", minimum=0)]
_LEXICON = "A bundled lexicon, or your own word lists (default: those of the patterns)."
Lexicon = Annotated[str | None, Option(_LEXICON, "NAME|DIR")]
_SHARD = "Run the I-th of N shards (default: the whole run); `merge` puts them together. auto, or auto:FIRST-LAST: "
Shard = Annotated[str | None, Option(_SHARD + "as the job array says.", "I/N|auto")]
_RAY = "Run on a Ray cluster: HOST:PORT, ray://HOST:PORT, auto, or local for this machine (default: no Ray)."
Ray = Annotated[str | None, Option(_RAY, "ADDRESS")]
_WORKERS = "With --ray: workers (default: by what the cluster has)."
Workers = Annotated[int | None, Option(_WORKERS, "N", minimum=1)]
_CPUS = "With --ray: CPUs and CPU threads of a worker (default: an equal share)."
CpusPerWorker = Annotated[float | None, Option(_CPUS, "N")]
_GPUS = "With --ray: GPUs of a worker, such as 1, 0.5 or 0 (default: 1 if there are GPUs)."
GpusPerWorker = Annotated[float | None, Option(_GPUS, "N")]
Json = Annotated[bool, Option("Print one JSON document on stdout, all messages on stderr.", flags=("--json",))]
_FORMATS = StrEnum("Format", {name.upper(): name for name in output_formats()})  # type: ignore[misc]  # files say it
FormatOption = Annotated[str, Option("Format of the tables.", kind=_FORMATS, flags=("--format",))]
Verbose = Annotated[bool, Option("Print more messages on stderr.", flags=("-v", "--verbose"))]
