"""`negengine bench`: the engine's speed and its baselines; time and memory of exports."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..basics.atomic import json_bytes, write_bytes
from ..basics.choices import TABLE
from ..basics.errors import InputError, needs_extra
from . import options
from .console import document, say, show

if TYPE_CHECKING:
    from ..views import Table

EXPORT, GPU, CORES = "export", "gpu", "cores"
WITH_DATA = ("lama", "diagnostics", "nli")
ITEMS = ("likelihood", "probe", "gh22", *WITH_DATA)


@dataclass(frozen=True)
class Wanted:
    """What was given on the command line, see `bench`; None or an empty list stands for the default."""

    models: list[str]
    quick: bool
    rounds: int | None
    device: str
    baselines: list[str]
    data: Path | None
    rehearse: bool
    output: Path | None

    def effort(self, usual: Any) -> Any:
        """How often systems are timed, and for how long: the usual `Effort` of a benchmark, or a quick one."""
        effort = usual.quick() if self.quick else usual
        return replace(effort, rounds=self.rounds or effort.rounds)

    def keep(self, document: dict[str, Any]) -> None:
        """Write what is known so far into the file that was asked for."""
        if self.output is not None:
            write_bytes(self.output, json_bytes(document))


Result = tuple["list[Table]", dict[str, Any]]


def bench(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WHAT] [MODEL...]",
            help="WHAT is measured: the command likelihood, probe, lama, diagnostics, gh22, nli or export; gpu for all "
            "that needs a GPU; cores for how busy many cores would be (default: select and score). MODEL: mini, any "
            "checkpoint, or random weights: bert-base-shape, bert-large-shape, roberta-base-shape (default: mini).",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Five minutes at most: fewer sentences, rounds and settings.")
    ] = False,
    rounds: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="How often each system is timed (default: 5; --quick: 3).")
    ] = None,
    baseline: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A baseline to measure beside the authors' programs and ours, such as 'OpenVINO int8' (default: all); "
            "may be repeated.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Folder of the data of lama, diagnostics or nli (default: where `data get` put them)."
        ),
    ] = None,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="For `bench gpu`: try all its steps on the CPU, with little work.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A file for the JSON document, kept up to date meanwhile (default: none; of `bench gpu`: gpu.json).",
        ),
    ] = None,
    with_ray: Annotated[bool, typer.Option("--ray", help="Measure workers of Ray on this machine.")] = False,
    device: options.Device = "auto",
    form: options.FormatOption = TABLE,
    as_json: options.Json = False,
) -> None:
    """Compare the engine's speed with its baselines and with the ceiling of this machine.

    Each system runs in a process of its own, with the same number of threads. Baselines are the papers' own programs
    and loops in PyTorch, and minicons for likelihoods. Where the data of a paper are missing, items of the same lengths
    are made. Of exports, the time and the peak memory are measured. The last line of the output is one JSON document.
    Example: negengine bench mini --quick
    """
    words = models or []
    subject = words[0] if words and words[0] in _SUBJECTS else ""
    if with_ray and subject:
        raise InputError(f"bench {subject}: --ray is for `bench` without `{subject}`")
    if baseline and (other := subject or ("--ray" if with_ray else "")):
        raise InputError(f"bench {other}: --baseline is for `bench` without `{other}`")
    if data is not None and subject not in WITH_DATA:
        raise InputError(f"bench: --data is for {', '.join(WITH_DATA)}")
    if subject != GPU and rehearse:
        raise InputError("bench: --rehearse is for `bench gpu`")
    measure = _ray if with_ray else _SUBJECTS.get(subject, _speed)
    wanted = Wanted(words[1:] if subject else words, quick, rounds, device, baseline or [], data, rehearse, output)
    with needs_extra("export", "bench"):
        tables, found = measure(wanted)
    if subject != GPU:
        wanted.keep(found)
    if as_json:
        document(found)
    else:
        show(*tables, *([json.dumps(found, ensure_ascii=False)] if form == TABLE else []), form=form)
    if found.get("interrupted"):
        raise KeyboardInterrupt
    if subject == GPU:
        from ...bench.gpu import failed

        if lacking := failed(found):
            raise InputError(f"bench gpu: failed: {', '.join(lacking)}")


def _speed(wanted: Wanted) -> Result:
    from ...bench.report import tables
    from ...bench.run import OfMainJob
    from ...bench.run import bench as measure

    models, effort = wanted.models or ["mini"], wanted.effort(OfMainJob())
    found = measure(models, device=wanted.device, effort=effort, only=wanted.baselines, say=say, keep=wanted.keep)
    return [table for result in found["models"] for table in tables(result)], found


def _ray(wanted: Wanted) -> Result:
    from ...bench.ray_speed import bench_ray, ray_table

    if len(wanted.models) > 1 or wanted.device not in {"auto", "cpu"}:
        raise InputError("bench --ray: give one model; its workers run on the CPU")
    model = wanted.models[0] if wanted.models else "mini"
    found = bench_ray(model, quick=wanted.quick, rounds=wanted.rounds, say=say)
    return [ray_table(found)], found


def _export(wanted: Wanted) -> Result:
    from ...bench.export import measure, table

    if wanted.quick or wanted.rounds is not None or wanted.device != "auto":
        raise InputError("bench export: --quick, --rounds and --device are for `bench` without `export`")
    costs = measure(wanted.models or ["mini"], say=say)
    return [table(costs)], {"export": costs}


def _cores(wanted: Wanted) -> Result:
    from ...bench.cores import measure, table

    if wanted.quick or wanted.rounds is not None or wanted.device != "auto":
        raise InputError("bench cores: --quick, --rounds and --device are for `bench` without `cores`")
    found = measure(wanted.models or ["mini"], say=say)
    return [table(found)], found


def _gpu(wanted: Wanted) -> Result:
    from ...bench.gpu import measure, table

    if wanted.quick or wanted.rounds is not None:
        raise InputError("bench gpu: --quick and --rounds are for `bench` without `gpu`")
    output = wanted.output or Path("gpu.json")
    found = measure(wanted.models, output, say, device=wanted.device, rehearse=wanted.rehearse)
    say(f"{output} is written; please send it to the authors of negengine")
    return [table(found)], found


def _compared(name: str, wanted: Wanted) -> Result:
    from importlib import import_module

    from ...bench.subject import bench_subject

    if wanted.device not in {"auto", "cpu"}:
        raise InputError(f"bench {name}: the other systems are measured on the CPU; remove --device")
    subject = import_module(f"negengine.bench.{name}").SUBJECT
    effort = wanted.effort(subject.effort)
    models = wanted.models or ["mini"]
    found = bench_subject(subject, models, data=wanted.data, effort=effort, say=say, keep=wanted.keep)
    return [subject.table(result) for result in found["models"]], found


_SUBJECTS: dict[str, Callable[[Wanted], Result]] = {
    CORES: _cores,
    EXPORT: _export,
    GPU: _gpu,
    **{subject: partial(_compared, subject) for subject in ITEMS},
}
