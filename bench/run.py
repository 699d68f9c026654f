"""`negengine bench`: the engine, its baselines and the ceiling, on one machine in one run."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..engine.choices import Precision
from ..engine.inference.calibration import calibrate
from ..engine.inference.device import CPU, Device, choose_device, cpu_threads
from ..engine.inference.exported import ExportedModel
from ..engine.inference.opened import BATCH_TOKENS
from ..engine.inference.precision import MixedDecider, Models, open_models
from ..engine.negation.runs import SelectionRun
from ..engine.negation.select import TRIPLETS_FILE, Selection, Settings
from ..export.checkpoint import locate
from .baselines import System, optimum_baselines, own_systems, pytorch_baselines
from .ceiling import ROUNDS, least_flops, product_rates
from .decided import run_selection
from .machine import describe
from .measure import WARM_UP, Timing, alternate, fastest
from .parts import PAIRS, sweep, take_apart
from .shapes import SHAPES, Measured, Shape, cache_folder, prepare
from .workload import Workload, workload

CANDIDATES = 10_900_000  # of the paper's Table 5, row 3
AUTHORS, AUTHORS_SCORING, EXACT = "authors, selection", "authors, scoring", "fp32"
LOW_PRECISION = "low precision alone"
MINI = "mini"  # the bundled model, as `negengine export` calls it
_AUDIT_SHARE = 0.005  # a scoring of 1.8 million sentences audits 0.9 %, a selection of 10.9 million 0.2 %
_TRIED = {"cpu": 128, "cuda": 4096}  # sentences for finding the best batch size
Say = Callable[[str], None]


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        rounds: How often each system is timed.
        seconds: About how long a round of the authors' program takes.
        fewest: Fewest sentences of a round.
        most: Most sentences of a round.
        warm_up: Sentences that each system runs before it is timed.
        ceiling_rounds: How often the chain of products is timed.
        calibrated: Sentences of the bundled model, for the close calls that random weights cannot tell.
        tried: Sentences for finding a baseline's best batch size; None for the device's usual number.
        lazy_pairs: Pairs of the lazy selection.
        pairs: Pairs that are run from end to end for the model's share of the time.
        sweep: Whether lengths, batch sizes and threads are varied.
    """

    rounds: int = 5
    seconds: float = 8
    fewest: int = 200
    most: int = 100_000
    warm_up: int = WARM_UP
    ceiling_rounds: int = ROUNDS
    calibrated: int = 1_000
    tried: int | None = None
    lazy_pairs: int = 8
    pairs: int = PAIRS
    sweep: bool = True


QUICK = Effort(rounds=3, seconds=2, sweep=False)  # under three minutes for the bundled model on two cores


def bench(
    names: Sequence[str],
    *,
    device: str = "auto",
    effort: Effort | None = None,
    rounds: int | None = None,
    cache: Path | None = None,
    shapes: Mapping[str, Shape] = SHAPES,
    say: Say,
) -> dict[str, Any]:
    """Measure models.

    Args:
        names: Names of `shapes`, or what `negengine export` takes.
        device: As for `choose_device`.
        effort: How much is measured.
        rounds: How often each system is timed, if not as the effort says.
        cache: Where checkpoints and exports made for measuring are kept; in the user's cache by default.
        shapes: Models with random weights.
        say: Receives messages, one line at a time.

    Returns:
        A JSON document: the machine, and for each model what `measure` gives.

    Raises:
        InputError: A device or a model does not exist.
    """
    chosen, folder, effort = choose_device(device), cache or cache_folder(), effort or Effort()
    effort = replace(effort, rounds=rounds or effort.rounds)
    for name in names:
        if name not in shapes:
            locate(name)
    results: list[dict[str, Any]] = []
    for name in names:
        say(f"{name}: preparing")
        results.append(measure(prepare(name, folder, shapes), chosen, effort, cache=folder, say=say))
    _expect_mixed(results, chosen, folder, effort.calibrated, say)
    return {"machine": describe(chosen), "command": " ".join(["negengine", *sys.argv[1:]]), "models": results}


def measure(measured: Measured, device: Device, effort: Effort, *, cache: Path, say: Say) -> dict[str, Any]:
    """Measure one model; the keys of the result say what they hold and in which unit."""
    exported = measured.exported
    torch_baselines = pytorch_baselines(measured, device)
    work = _work(exported, torch_baselines[0], effort)
    works = {"selection": work, "scoring": work.head(len(work) // 8)}
    models = open_models(exported, device, Precision.AUTO)
    mixed = None if measured.is_random else _mixed(models, work)
    cache.mkdir(parents=True, exist_ok=True)
    skipped: dict[str, str] = {}
    try:
        libraries = [*torch_baselines, *optimum_baselines(measured, device, cache)]
    except (ImportError, ValueError, RuntimeError) as error:
        libraries, skipped["Optimum"] = torch_baselines, str(error).partition("\n")[0]
    say("looking for the best batch size of the libraries")
    tried = work.head(effort.tried or _TRIED[device.kind])
    best = _at_their_best(libraries, tried, effort.warm_up // 4)
    systems = [*best, *own_systems(models, mixed)]
    timings = alternate(systems, works, effort.rounds, say, device, warm_up=effort.warm_up)
    say("the ceiling")
    flops = _least(exported, work.length)
    products = _products(exported, device, models, effort.ceiling_rounds)
    rates = {kind: max(by_kernel.values()) for kind, by_kernel in products.items()}
    say("parts")
    parts = take_apart(work.selection, models.reference, work.head(500).sentences, pairs=effort.pairs)
    lazy = None if measured.is_random else _lazy(work, models, mixed, timings[AUTHORS].rate, effort.lazy_pairs, say)
    return {
        "model": measured.name,
        "random weights": measured.is_random,
        "device": str(device),
        "work": {
            "sentences": len(work),
            "tokens": work.length,
            "rounds": effort.rounds,
            "least GFLOP": flops / 1e9,
        },
        "product GFLOP/s": {kind: rate / 1e9 for kind, rate in rates.items()},
        "product GFLOP/s by kernel": {
            kind: {kernel: rate / 1e9 for kernel, rate in by_kernel.items()} for kind, by_kernel in products.items()
        },
        "systems": [_row(system, timings, flops, rates) for system in systems],
        "skipped": skipped,
        "mixed, expected": None,
        "lazy": lazy,
        "close calls": None if mixed is None else mixed.calibration.close,
        "seconds for 1,000": {
            "composing": parts.composing,
            "transfer": parts.transfer,
            "model": parts.model,
            "decisions": parts.decisions,
            "writing": parts.writing,
        },
        "model share": parts.model_share,
        "sweep": _sweeps(exported, device) if effort.sweep else [],
    }


def _work(exported: ExportedModel, authors: System, effort: Effort) -> Workload:
    """As many sentences as the authors' program decides in some seconds."""
    few = workload(exported, 2 * effort.fewest)
    authors.run(few.head(effort.fewest // 2))
    started = time.perf_counter()
    authors.run(few)
    rate = len(few) / (time.perf_counter() - started)
    return workload(exported, int(min(max(rate * effort.seconds, effort.fewest), effort.most)))


def _at_their_best(systems: Sequence[System], few: Workload, warm_up: int) -> list[System]:
    """Each system with its best batch size."""
    names = dict.fromkeys(system.name for system in systems)
    return [fastest([system for system in systems if system.name == name], few, warm_up) for name in names]


def _mixed(models: Models, work: Workload) -> MixedDecider | None:
    if models.low_precision is None:
        return None
    calibration = calibrate(models.low_precision, models.reference, work.sentences, audit_share=_AUDIT_SHARE)
    return MixedDecider(models.low_precision, models.reference, calibration)


def _expect_mixed(results: Sequence[dict[str, Any]], device: Device, cache: Path, calibrated: int, say: Say) -> None:
    """Add the expected speed of mixed precision, because random weights cannot show it."""
    random = [found for found in results if found["random weights"]]
    lacking = [found for found in random if any(row["system"] == LOW_PRECISION for row in found["systems"])]
    if not lacking:
        return
    close = next((found["close calls"] for found in results if found["model"] == MINI), None)
    close = _close_calls(device, cache, calibrated, say) if close is None else close
    for found in lacking:
        found["mixed, expected"] = None if close is None else _expected(found["systems"], close)


def _close_calls(device: Device, cache: Path, calibrated: int, say: Say) -> float | None:
    """Share of close calls of the bundled model; None if it has no low-precision model for the device."""
    say(f"close calls of {MINI}, for the speed of mixed precision to be expected")
    exported = prepare(MINI, cache).exported
    mixed = _mixed(open_models(exported, device, Precision.AUTO), workload(exported, calibrated))
    return None if mixed is None else mixed.calibration.close


def _expected(systems: Sequence[dict[str, Any]], close: float) -> dict[str, Any]:
    """Mixed precision as fast as the two models that it takes, and as often in fp32 as with the bundled model."""
    rates = {row["system"]: row["sentences/s"] for row in systems}
    rate = 1 / (1 / rates[LOW_PRECISION] + (close + _AUDIT_SHARE) / rates[EXACT])
    return {
        "close calls": close,
        "sentences/s": rate,
        "times fp32": rate / rates[EXACT],
        "times authors, selection": rate / rates[AUTHORS],
        "times authors, scoring": rate / rates[AUTHORS_SCORING],
        "hours for 10.9 M": CANDIDATES / rate / 3600,
    }


def _least(exported: ExportedModel, length: float) -> float:
    info, config = exported.info, json.loads((exported.folder / "config.json").read_text(encoding="utf-8"))
    sizes = info["layers"], info["hidden_size"], info["intermediate_size"], exported.vocab_size
    return least_flops(length, *sizes, embedding=config.get("embedding_size"))


def _products(exported: ExportedModel, device: Device, models: Models, rounds: int) -> dict[str, dict[str, float]]:
    kinds = ("fp32", "int8") if device == CPU else ("fp32", "fp16")
    sizes = exported.info["hidden_size"], exported.info["intermediate_size"]
    return {kind: product_rates(device, models.reference.batch_tokens, *sizes, kind, rounds=rounds) for kind in kinds}


def _row(system: System, timings: dict[str, Timing], flops: float, rates: dict[str, float]) -> dict[str, Any]:
    timing = timings[system.name]
    fast_kind = next(kind for kind in rates if kind != "fp32")
    ceiling = {LOW_PRECISION: rates[fast_kind], "mixed": None}.get(system.name, rates["fp32"])
    return {
        "system": system.name,
        "about": system.about,
        "ours": system.ours,
        "sentences/s": timing.rate,
        "seconds": list(timing.seconds),
        "times authors, selection": timing.rate / timings[AUTHORS].rate,
        "times authors, scoring": timing.rate / timings[AUTHORS_SCORING].rate,
        "share of ceiling": None if ceiling is None else timing.rate * flops / ceiling,
        "hours for 10.9 M": CANDIDATES / timing.rate / 3600,
        "MB": timing.megabytes,
        "J": timing.joules,
        "same top-1": timing.agreement,
        "same decision": timing.decisions,
    }


def _lazy(
    work: Workload, models: Models, mixed: MixedDecider | None, authors_rate: float, pairs: int, say: Say
) -> dict[str, Any]:
    """A selected test set for a few pairs: lazy against exhaustive in fp32, and the authors' program at its rate."""
    say("lazy selection")
    found: dict[str, Any] = {}
    with TemporaryDirectory() as temporary:
        folders = {name: Path(temporary) / name for name in ("exhaustive", "lazy")}
        deciders = {"exhaustive": models.reference, "lazy": mixed or models.reference}
        for name, folder in folders.items():
            plan = work.selection.exported, work.selection.lexicon, work.selection.patterns
            selection = Selection.plan(*plan, Settings(pairs=pairs, lazy=name == "lazy"))
            started = time.perf_counter()
            run_selection(selection, models, deciders[name], folder)
            found[f"{name} seconds"] = time.perf_counter() - started
            summary = SelectionRun.open(folder).summary
            found[f"{name} tested"] = summary["tested"]
            found.setdefault("repeating %", summary["ratio"])
        one, other = ((folder / TRIPLETS_FILE).read_bytes() for folder in folders.values())
        found["same triplets"] = one == other
    return {
        "pairs": pairs,
        **found,
        "times fewer calls": found["exhaustive tested"] / found["lazy tested"],
        "times exhaustive": found["exhaustive seconds"] / found["lazy seconds"],
        "times authors, selection": found["exhaustive tested"] / authors_rate / found["lazy seconds"],
    }


def _sweeps(exported: ExportedModel, device: Device) -> list[dict[str, Any]]:
    most = cpu_threads() if device == CPU else 1
    counts = sorted({1, *(2**i for i in range(1, most.bit_length()) if 2**i <= most), most})
    sizes = (256, 512, 2048) if device == CPU else (4096, 16384, 65536)
    points = sweep(exported, device, (12, 18, 32), sizes, (most,))
    points += sweep(exported, device, (18,), (BATCH_TOKENS[device.kind],), [count for count in counts if count != most])
    return [asdict(point) for point in points]
