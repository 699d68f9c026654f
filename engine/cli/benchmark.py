"""`negengine bench`: the engine's speed and its baselines; time and memory of exports."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..basics.atomic import json_bytes, write_bytes
from ..basics.choices import TABLE, devices_help
from ..basics.errors import InputError, needs_extra
from ..basics.option import Option, options_of
from .console import document, say, show
from .program import Command
from .run_command import PRINTING

if TYPE_CHECKING:
    from ..views import Table

EXPORT, GPU = "export", "gpu"
ITEMS = ("likelihood", "probe")
_WHAT = (
    "WHAT is measured: the command likelihood, probe or export, or gpu for all that needs a GPU (default: select and "
    "score). MODEL: mini, any checkpoint, or random weights: bert-base-shape, bert-large-shape, roberta-base-shape "
    "(default: mini)."
)
_ROUNDS = "How often each system is timed (default: 5; --quick: 3)."
_BASELINE = "A baseline to measure beside the authors' programs and ours, such as 'OpenVINO int8' (default: all); "
_GPU = "The GPU that --simulate simulates: h100, h200, a100, l4, rtx4090 or t4 (default: h200)."
_OUTPUT = "A file for the JSON document, kept up to date meanwhile (default: none; of `bench gpu`: gpu.json)."


@dataclass(frozen=True)
class Wanted:
    """The options of `bench`."""

    models: Annotated[Sequence[str], Option(_WHAT, "[WHAT] [MODEL...]", kind=list[str])] = ()
    quick: Annotated[bool, Option("Five minutes at most: fewer sentences, rounds and settings.")] = False
    rounds: Annotated[int | None, Option(_ROUNDS, "N", minimum=1)] = None
    baseline: Annotated[Sequence[str], Option(_BASELINE + "may be repeated.", "NAME", kind=list[str])] = ()
    simulate: Annotated[bool, Option("For `bench gpu`: simulate a GPU that is not there; MODEL is one model.")] = False
    gpu: Annotated[str, Option(_GPU, "NAME")] = "h200"
    output: Annotated[Path | None, Option(_OUTPUT, "FILE", flags=("-o", "--output"))] = None
    device: Annotated[str, Option(f"{devices_help()}.", "DEVICE")] = "auto"

    def effort(self, usual: Any) -> Any:
        """How often systems are timed, and for how long: the usual `Effort` of a benchmark, or a quick one."""
        effort = usual.quick() if self.quick else usual
        return replace(effort, rounds=self.rounds or effort.rounds)

    def keep(self, document: dict[str, Any]) -> None:
        """Write what is known so far into the file that was asked for."""
        if self.output is not None:
            write_bytes(self.output, json_bytes(document))


def _bench(*, form: str, as_json: bool, **given: Any) -> None:
    """Compare the engine's speed with its baselines and with the ceiling of this machine.

    Each system runs in a process of its own, with the same number of threads. Baselines are the authors' programs and
    loops in PyTorch, and minicons for likelihoods. Of exports, the time and the peak memory are measured. The last line
    of the output is one JSON document.
    Example: negengine bench mini --quick
    """
    wanted = Wanted(**given)
    subject = _subject(wanted)
    if subject:
        wanted = replace(wanted, models=wanted.models[1:])
    with needs_extra("export", "bench"):
        tables, found = _measured(subject, wanted)
    if subject != GPU or wanted.simulate:
        wanted.keep(found)
    if as_json:
        document(found)
    else:
        show(*tables, *([json.dumps(found, ensure_ascii=False)] if form == TABLE else []), form=form)
    if found.get("interrupted"):
        raise KeyboardInterrupt
    if subject == GPU and not wanted.simulate:
        from ...bench.gpu import failed

        if lacking := failed(found):
            raise InputError(f"bench gpu: failed: {', '.join(lacking)}")


bench = Command(_bench, [*options_of(Wanted).values(), *PRINTING], told=_bench.__doc__ or "")


def _subject(wanted: Wanted) -> str:
    """What is measured, empty for select and score. Raises InputError for an option that it does not have."""
    subject = wanted.models[0] if wanted.models and wanted.models[0] in {EXPORT, GPU, *ITEMS} else ""
    given: dict[str, object] = {"--baseline": wanted.baseline}
    if subject in {EXPORT, GPU}:
        given |= {"--quick": wanted.quick, "--rounds": wanted.rounds}
    if subject == EXPORT:
        given["--device"] = wanted.device != "auto"
    if subject and (refused := [name for name, value in given.items() if value]):
        raise InputError(f"bench {subject}: {refused[0]} is for `bench` without `{subject}`")
    if subject != GPU and wanted.simulate:
        raise InputError("bench: --simulate is for `bench gpu`")
    if wanted.simulate and (wanted.device != "auto" or len(wanted.models) > 2):
        raise InputError("bench gpu: --simulate takes one model, and no --device")
    return subject


def _measured(subject: str, wanted: Wanted) -> tuple[list["Table"], dict[str, Any]]:
    """The tables, and what the JSON document says."""
    models = list(wanted.models) or ["mini"]
    if wanted.simulate:
        from ...bench import simulate

        found = simulate.simulate(models[0], wanted.gpu, say)
        return [simulate.table(found)], found
    if subject == GPU:
        from ...bench import gpu

        output = wanted.output or Path("gpu.json")
        found = gpu.measure(list(wanted.models), output, say, device=wanted.device)
        say(f"{output} is written; please send it to the authors of negengine")
        return [gpu.table(found)], found
    if subject == EXPORT:
        from ...bench import export

        found = export.measure(models, say=say)
        return [export.table(found)], found
    from ...bench.subject import bench_subject

    compared = import_module(f"negengine.bench.{subject or 'run'}").SUBJECT
    given = {"device": wanted.device, "effort": wanted.effort(compared.effort), "only": list(wanted.baseline)}
    found = bench_subject(compared, models, say=say, keep=wanted.keep, **given)
    return [compared.table(result) for result in found["models"]], found
