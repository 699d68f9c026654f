"""`negengine bench`: the engine, its peers and the ceiling, on one machine in one run."""

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..engine.inference.device import CPU, Device, choose_device, cpu_threads
from ..engine.inference.exported import ExportedModel
from ..engine.inference.model import BATCH_TOKENS
from ..engine.inference.precision import AUDIT_SHARE, MixedDecider, Models, Precision, calibrate, open_models
from ..engine.negation import select
from .ceiling import least_flops, product_rates
from .machine import describe
from .measure import Timing, alternate, fastest
from .parts import sweep, take_apart
from .peers import Peer, optimum_peers, own_peers, pytorch_peers
from .shapes import Measured, cache_folder, prepare
from .workload import Workload, workload

CANDIDATES = 10_900_000  # of the paper's Table 5, row 3
AUTHORS, AUTHORS_SCORING, EXACT, TWIN = "authors, selection", "authors, scoring", "fp32", "twin alone"
MINI = "mini"  # the bundled model, as `negengine export` calls it
_FEWEST, _MOST = 200, 100_000  # sentences of a round
_LAZY_PAIRS = 8
_CALIBRATED = 1_000  # sentences of the bundled model, for the close calls that random weights cannot tell
_TRIED = {"cpu": 128, "cuda": 4096}  # sentences for finding the best batch size
Say = Callable[[str], None]


def bench(
    names: Sequence[str], *, device: str = "auto", quick: bool = False, rounds: int | None = None, say: Say
) -> dict[str, Any]:
    """Measure models.

    Args:
        names: names of `shapes.SHAPES`, or what `negengine export` takes.
        device: as for `choose_device`.
        quick: fewer sentences and rounds, no sweep; under three minutes for the bundled model on two cores.
        rounds: of each way; 3, or 5 without `quick`, by default.
        say: told what is going on.

    Returns:
        A JSON document: the machine, and for each model what `measure` gives.
    """
    chosen = choose_device(device)
    results: list[dict[str, Any]] = []
    for name in names:
        say(f"{name}: making ready")
        results.append(measure(prepare(name), chosen, quick=quick, rounds=rounds or (3 if quick else 5), say=say))
    _expect_mixed(results, chosen, say)
    return {"machine": describe(chosen), "command": " ".join(["negengine", *sys.argv[1:]]), "models": results}


def measure(measured: Measured, device: Device, *, quick: bool, rounds: int, say: Say) -> dict[str, Any]:
    """Measure one model; the keys of the result say what they hold and in which unit."""
    exported = measured.exported
    torch_peers = pytorch_peers(measured, device)
    work = _work(exported, torch_peers[0], seconds=2 if quick else 8)
    works = {"selection": work, "scoring": work.head(len(work) // 8)}
    models = open_models(exported, device, Precision.AUTO)
    mixed = None if measured.is_random else _mixed(models, work)
    cache_folder().mkdir(parents=True, exist_ok=True)
    skipped: dict[str, str] = {}
    try:
        libraries = [*torch_peers, *optimum_peers(measured, device, cache_folder())]
    except (ImportError, ValueError, RuntimeError) as error:
        libraries, skipped["Optimum"] = torch_peers, str(error).partition("\n")[0]
    say("looking for the best batch size of the libraries")
    peers = [*_at_their_best(libraries, work.head(_TRIED[device.kind])), *own_peers(models, mixed)]
    timings = alternate(peers, works, rounds, say, device)
    say("the ceiling")
    flops = _least(exported, work.length)
    products = _products(exported, device, models)
    rates = {kind: max(by_kernel.values()) for kind, by_kernel in products.items()}
    say("parts")
    parts = take_apart(work.selection, models.exact, work.head(500).sentences)
    authors_rate = timings[AUTHORS].rate
    lazy = None if measured.is_random else _lazy(work, models, mixed, authors_rate, say)
    return {
        "model": measured.name,
        "random weights": measured.is_random,
        "device": str(device),
        "work": {
            "sentences": len(work),
            "tokens": work.length,
            "rounds": rounds,
            "least GFLOP": flops / 1e9,
        },
        "product GFLOP/s": {kind: rate / 1e9 for kind, rate in rates.items()},
        "product GFLOP/s by kernel": {
            kind: {kernel: rate / 1e9 for kernel, rate in by_kernel.items()} for kind, by_kernel in products.items()
        },
        "ways": [_way(peer, timings, flops, rates) for peer in peers],
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
        "sweep": [] if quick else _sweeps(exported, device),
    }


def _work(exported: ExportedModel, authors: Peer, seconds: float) -> Workload:
    """As many sentences as the authors' way decides in some seconds."""
    few = workload(exported, 2 * _FEWEST)
    authors.run(few.head(_FEWEST // 2))
    started = time.perf_counter()
    authors.run(few)
    rate = len(few) / (time.perf_counter() - started)
    return workload(exported, int(min(max(rate * seconds, _FEWEST), _MOST)))


def _at_their_best(peers: Sequence[Peer], few: Workload) -> list[Peer]:
    """Each way with its best batch size."""
    names = dict.fromkeys(peer.name for peer in peers)
    return [fastest([peer for peer in peers if peer.name == name], few) for name in names]


def _mixed(models: Models, work: Workload) -> MixedDecider | None:
    if models.fast is None:
        return None
    return MixedDecider(models.fast, models.exact, calibrate(models.fast, models.exact, work.sentences))


def _expect_mixed(results: Sequence[dict[str, Any]], device: Device, say: Say) -> None:
    """Put what mixed precision can be expected to do where random weights cannot show it."""
    lacking = [found for found in results if found["random weights"] and any(w["way"] == TWIN for w in found["ways"])]
    if not lacking:
        return
    close = next((found["close calls"] for found in results if found["model"] == MINI), None)
    close = _close_calls(device, say) if close is None else close
    for found in lacking:
        found["mixed, expected"] = None if close is None else _expected(found["ways"], close)


def _close_calls(device: Device, say: Say) -> float | None:
    """Share of close calls of the bundled model; None if it has no twin for the device."""
    say(f"close calls of {MINI}, for the speed of mixed precision to be expected")
    exported = prepare(MINI).exported
    mixed = _mixed(open_models(exported, device, Precision.AUTO), workload(exported, _CALIBRATED))
    return None if mixed is None else mixed.calibration.close


def _expected(ways: Sequence[dict[str, Any]], close: float) -> dict[str, Any]:
    """Mixed precision as fast as the two models that it takes, and as often in fp32 as with the bundled model."""
    rates = {way["way"]: way["sentences/s"] for way in ways}
    rate = 1 / (1 / rates[TWIN] + (close + AUDIT_SHARE) / rates[EXACT])
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


def _products(exported: ExportedModel, device: Device, models: Models) -> dict[str, dict[str, float]]:
    kinds = ("fp32", "int8") if device == CPU else ("fp32", "fp16")
    sizes = exported.info["hidden_size"], exported.info["intermediate_size"]
    return {kind: product_rates(device, models.exact.batch_tokens, *sizes, kind) for kind in kinds}


def _way(peer: Peer, timings: dict[str, Timing], flops: float, rates: dict[str, float]) -> dict[str, Any]:
    timing = timings[peer.name]
    fast_kind = next(kind for kind in rates if kind != "fp32")
    ceiling = {TWIN: rates[fast_kind], "mixed": None}.get(peer.name, rates["fp32"])
    return {
        "way": peer.name,
        "about": peer.about,
        "ours": peer.ours,
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


def _lazy(work: Workload, models: Models, mixed: MixedDecider | None, authors_rate: float, say: Say) -> dict[str, Any]:
    """A selected test set for a few pairs: lazy against exhaustive in fp32, and the authors' way at its rate."""
    say("lazy selection")
    found: dict[str, Any] = {}
    with TemporaryDirectory() as folder:
        for name, lazy, decider in (("exhaustive", False, models.exact), ("lazy", True, mixed or models.exact)):
            plan = select.plan(
                work.selection.exported,
                work.selection.lexicon,
                work.selection.patterns,
                select.Settings(pairs=_LAZY_PAIRS, lazy=lazy),
            )
            started = time.perf_counter()
            summary = select.select(plan, decider, Path(folder) / name, session={}) or {}
            found[f"{name} seconds"] = time.perf_counter() - started
            found[f"{name} tested"] = summary["tested"]
            found.setdefault("repeating %", summary["ratio"])
        found["same triplets"] = (Path(folder) / "exhaustive" / select.TRIPLETS_FILE).read_bytes() == (
            Path(folder) / "lazy" / select.TRIPLETS_FILE
        ).read_bytes()
    return {
        "pairs": _LAZY_PAIRS,
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
