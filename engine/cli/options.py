"""Options that several commands share: one name, one meaning, one help line."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..basics.choices import Precision, output_formats


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
RunFolder = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="DIR", help="The run folder (default: runs/MODEL or runs/MODEL-PROBE)."),
]
Device = Annotated[str, typer.Option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:INDEX.")]
Devices = Annotated[
    str,
    typer.Option(
        "--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:INDEX; several share the work: cuda:0,cuda:1."
    ),
]
PrecisionOption = Annotated[
    Precision,
    typer.Option(
        "--precision", help="mixed: a low-precision model where that is safe, else fp32; auto: the faster of the two."
    ),
]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed for all random choices.")]
Lexicon = Annotated[
    str | None,
    typer.Option(
        "--lexicon",
        metavar="NAME|DIR",
        help="A bundled lexicon, or your own word lists (default: those of the patterns).",
    ),
]
Shard = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N|auto",
        help="Run the I-th of N shards (default: the whole run); `merge` puts them together. auto, or "
        "auto:FIRST-LAST: as the job array says.",
    ),
]
BatchTokens = Annotated[
    int | None,
    typer.Option(
        "--batch-tokens", min=16, metavar="N", help="Largest number of tokens in a batch (default: by the device)."
    ),
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, metavar="N", help="CPU threads (default: one for each core).")
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Run on a Ray cluster: HOST:PORT, ray://HOST:PORT, auto, or local for this machine (default: no Ray).",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, metavar="N", help="With --ray: workers (default: by what the cluster has)."),
]
CpusPerWorker = Annotated[
    float | None,
    typer.Option(
        "--cpus-per-worker", metavar="N", help="With --ray: CPUs and CPU threads of a worker (default: an equal share)."
    ),
]
GpusPerWorker = Annotated[
    float | None,
    typer.Option(
        "--gpus-per-worker",
        metavar="N",
        help="With --ray: GPUs of a worker, such as 1, 0.5 or 0 (default: 1 if there are GPUs).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, all messages on stderr.")]
if TYPE_CHECKING:
    _Format = str
else:  # the files decide what there is, so a type checker cannot know it
    _Format = StrEnum("Format", {name.upper(): name for name in output_formats()})
FormatOption = Annotated[_Format, typer.Option("--format", help="Format of the tables.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print more messages on stderr.")]
Data = Annotated[
    Path | None, typer.Option("--data", metavar="PATH", help="Folder of the data (default: where `data get` put them).")
]
