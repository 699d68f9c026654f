"""`negengine bench`: the engine's speed and its baselines; time and memory of exports."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..choices import Format
from ..commands import options
from ..commands.console import document, say, show
from ..errors import InputError

if TYPE_CHECKING:
    from ..tables import Table

EXPORT, LIKELIHOOD, PROBE = "export", "likelihood", "probe"


def bench(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[export|likelihood|probe] [MODEL...]",
            help="mini, any checkpoint, or random weights: bert-base-shape, bert-large-shape, roberta-base-shape. "
            "`bench export MODEL` measures exports, `bench likelihood MODEL` likelihoods of sentences, "
            "`bench probe MODEL` words in sentences.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A shorter benchmark, under three minutes: fewer sentences, no sweep.")
    ] = False,
    rounds: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="How often each system is timed (default: 5; --quick: 3)."),
    ] = None,
    with_ray: Annotated[
        bool, typer.Option("--ray", help="Measure workers of Ray on this machine, and simulate more of them.")
    ] = False,
    device: options.Device = "auto",
    form: options.FormatOption = Format.TABLE,
    as_json: options.Json = False,
) -> None:
    """Compare the engine's speed with its baselines and with the ceiling of this machine.

    The last line of the output is one JSON document. `bench export` measures the time and the peak memory
    of exports instead, `bench likelihood` the likelihoods of sentences against minicons and PyTorch, and `bench probe`
    words at the mask of a user's sentences against PyTorch.
    Example: negengine bench mini --quick
    """
    words = models or []
    measure = {EXPORT: _export, LIKELIHOOD: _likelihood, PROBE: _probe}.get(
        words[0] if words else "", _ray if with_ray else _speed
    )
    if with_ray and measure is not _ray:
        raise InputError(f"bench {words[0]}: --ray is for `bench` of the main job")
    try:
        tables, found = measure(words if measure in {_speed, _ray} else words[1:], quick, rounds, device)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("negengine"):
            raise
        raise InputError(f"bench needs {error.name}: pip install 'negengine[export]'") from None
    _show(tables, found, form, as_json)


def _speed(models: list[str], quick: bool, rounds: int | None, device: str) -> "tuple[list[Table], dict[str, Any]]":
    from ...bench.report import tables
    from ...bench.run import QUICK
    from ...bench.run import bench as measure

    found = measure(models or ["mini"], device=device, effort=QUICK if quick else None, rounds=rounds, say=say)
    return [table for result in found["models"] for table in tables(result)], found


def _ray(models: list[str], quick: bool, rounds: int | None, device: str) -> "tuple[list[Table], dict[str, Any]]":
    from ...bench.ray_report import bench_ray, ray_tables

    if len(models) > 1 or device not in {"auto", "cpu"}:
        raise InputError("bench --ray: give one model; its workers run on the CPU")
    found = bench_ray(models[0] if models else "mini", quick=quick, rounds=rounds, say=say)
    return ray_tables(found), found


def _export(models: list[str], quick: bool, rounds: int | None, device: str) -> "tuple[list[Table], dict[str, Any]]":
    from ...bench.export import document as as_document
    from ...bench.export import measure, table

    if quick or rounds is not None or device != "auto":
        raise InputError("bench export: --quick, --rounds and --device are for `bench` without `export`")
    costs = measure(models or ["mini"], say=say)
    return [table(costs)], as_document(costs)


def _likelihood(
    models: list[str], quick: bool, rounds: int | None, device: str
) -> "tuple[list[Table], dict[str, Any]]":
    from ...bench.likelihood import bench_likelihood, table

    found = bench_likelihood(models or ["mini"], say=say, **_effort(LIKELIHOOD, quick, rounds, device))
    return [table(result) for result in found["models"]], found


def _probe(models: list[str], quick: bool, rounds: int | None, device: str) -> "tuple[list[Table], dict[str, Any]]":
    from ...bench.probe import bench_probe, table

    found = bench_probe(models or ["mini"], say=say, **_effort(PROBE, quick, rounds, device))
    return [table(result) for result in found["models"]], found


def _effort(what: str, quick: bool, rounds: int | None, device: str) -> dict[str, Any]:
    """How often the loops on the CPU are timed, and for how long."""
    if device not in {"auto", "cpu"}:
        raise InputError(f"bench {what}: the other systems are measured on the CPU; remove --device")
    return {"rounds": rounds or (3 if quick else 5), "seconds": 2.0 if quick else 8.0}


def _show(tables: "list[Table]", found: dict[str, Any], form: Format, as_json: bool) -> None:
    import json

    from ..choices import Format

    if as_json:
        document(found)
        return
    show(*tables, form=Format(form))
    if form is Format.TABLE:
        show(json.dumps(found, ensure_ascii=False))
