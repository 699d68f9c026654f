"""`negengine bench`: the main job by the engine, its baselines and the ceiling, on one machine in one run."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from ..engine.basics.choices import Precision
from ..engine.inference.audit import audit_share
from ..engine.inference.devices.cpu import CPU
from ..engine.inference.exported import ExportedModel, graph_precision
from ..engine.inference.mixed import CALIBRATION_SENTENCES
from ..engine.inference.precision import open_models
from ..engine.inference.session import Device
from ..engine.views import Column
from .baselines import AuthorsScoring, AuthorsSelection, baselines
from .ceiling import ROUNDS, least_flops, product_rates
from .machine import has_bf16
from .main_job import (
    EXACT,
    LOW_PRECISION,
    MIXED,
    LowPrecision,
    MixedPrecision,
    Reference,
    Sentences,
    calibrated,
    candidates,
    main_job,
)
from .rounds import Effort, Outcome, Say
from .shapes import MINI, Measured, prepare
from .subject import COMPUTED, Measurement, Subject
from .system import System

CANDIDATES = 10_900_000  # of the paper's Table 5, row 3
AUTHORS = AuthorsSelection.name
_TIMES = {"times authors, selection": AUTHORS, "times authors, scoring": AuthorsScoring.name}
_WHOLE = "mixed, whole grid"  # whose audit is a smaller share than that of the sentences which are timed
_CLOSE, _HOURS, _CEILING = "close calls", "hours for 10.9 M", "share of ceiling"


@dataclass(frozen=True)
class OfMainJob(Effort):
    """How much is measured; the items are sentences."""

    tried: int = 128
    fewest: int = 200
    most: int = 100_000
    ceiling_rounds: int = ROUNDS  # how often the chain of products is timed
    calibrated: int = 1_000  # sentences of the bundled model, for the close calls that random weights cannot tell

    def quick(self) -> Self:
        return replace(super().quick(), ceiling_rounds=2, calibrated=500)


def _measurements(measured: Measured, device: Device, effort: OfMainJob, say: Say) -> Iterator[Measurement]:
    exported, job = measured.exported, main_job(measured.exported)
    say("the ceiling")
    products = _products(exported, device, effort.ceiling_rounds)
    ceilings = {kind: max(by_kernel.values()) for kind, by_kernel in products.items()}

    def known(work: Sentences) -> dict[str, Any]:
        in_giga = {kind: {own: rate / 1e9 for own, rate in rates.items()} for kind, rates in products.items()}
        return {"tokens": work.length, "least GFLOP": least(exported, work.length) / 1e9, "product GFLOP/s": in_giga}

    def judged(work: Sentences, one: Outcome, reference: Outcome) -> dict[str, Any]:
        """All answers are compared with those of the authors' program, which has done all items."""
        n, ceiling = one.items, ceilings.get(one.system.arithmetic)
        right, expected = reference.answers[:n], work.encoded.expected[:n]
        return {
            _HOURS: CANDIDATES / one.rate / 3600,
            _CEILING: None if ceiling is None else one.rate * least(exported, work.length) / ceiling,
            "same top-1": float(np.mean(one.answers == right)),
            "same decision": float(np.mean((one.answers == expected) == (right == expected))),
        }

    systems = [*baselines(), *own_systems(measured, device)]
    yield Measurement(systems, partial(candidates, job), known, judged)


def own_systems(measured: Measured, device: Device) -> list[System[Sentences]]:
    """Our systems of the main job; the close calls of random weights say nothing of mixed precision."""
    if (graph := device.low_precision(measured.exported)) is None:
        return [Reference()]
    mixed = [] if measured.is_random else [MixedPrecision()]
    return [Reference(), LowPrecision(graph, device), *mixed]


def _with_whole_grid(
    results: Sequence[dict[str, Any]], device: Device, cache: Path, effort: OfMainJob, say: Say
) -> None:
    """Add mixed precision in a run of all candidates; of random weights, with the close calls of the bundled model."""
    close: float | None = None
    for found in results:
        rows = {row["system"]: row for row in found["systems"]}
        if not rows.keys() >= {LOW_PRECISION, EXACT}:
            continue
        own = rows.get(MIXED, {}).get(_CLOSE)
        if own is None and close is None:
            say(f"close calls of {MINI}, for the speed of mixed precision to be expected")
            exported = prepare(MINI, cache).exported
            models = open_models(exported, device, Precision.AUTO)
            mixed = calibrated(models, candidates(main_job(exported), effort.calibrated))
            close = None if mixed is None else mixed.calibration.close
        if (taken := close if own is None else own) is not None:
            found[COMPUTED] = [whole_grid(rows, taken, MINI if own is None else found["model"])]


def whole_grid(rows: Mapping[str, Mapping[str, Any]], close: float, model: str) -> dict[str, Any]:
    """Mixed precision as fast as the two models that it takes, with the close calls of a model.

    The more decisions, the smaller a share of them is audited.
    """
    rates = {name: row["sentences/s"] for name, row in rows.items()}
    audit = audit_share([(CANDIDATES, close)], CALIBRATION_SENTENCES[0])
    rate = 1 / (1 / rates[LOW_PRECISION] + (close + audit) / rates[EXACT])
    return {
        "system": _WHOLE,
        "about": f"computed, with the {close:.1%} close calls of {model} and an audit of {audit:.2%}",
        _CLOSE: close,
        "audit": audit,
        "sentences/s": rate,
        **{key: rate / rates[of] if of in rates else None for key, of in _TIMES.items()},
        _HOURS: CANDIDATES / rate / 3600,
    }


def least(exported: ExportedModel, length: float) -> float:
    """Operations that a sentence of this many tokens needs at the least."""
    info, config = exported.info, json.loads((exported.folder / "config.json").read_text(encoding="utf-8"))
    sizes = info["layers"], info["hidden_size"], info["intermediate_size"], exported.vocab_size
    return least_flops(length, *sizes, embedding=config.get("embedding_size"))


def _products(exported: ExportedModel, device: Device, rounds: int) -> dict[str, dict[str, float]]:
    device = CPU if device.uses_cores else device  # whose plugin computes the same products
    low = device.low_precision(exported)
    kinds = dict.fromkeys(["fp32", *([] if low is None else [graph_precision(low)])])
    if device == CPU and has_bf16():  # in software it would take a quarter of an hour
        kinds["bf16"] = None
    sizes = exported.info["hidden_size"], exported.info["intermediate_size"]
    return {kind: product_rates(device, device.batch_tokens, *sizes, kind, rounds=rounds) for kind in kinds}


def _notes(found: Mapping[str, Any]) -> list[str]:
    rates = {kind: max(by_kernel.values()) for kind, by_kernel in found["product GFLOP/s"].items()}
    told = ", ".join(f"{rate:,.0f} GFLOP/s in {kind}" for kind, rate in rates.items())
    return [
        "hours: for 10.9 million sentences; top-1: the same as that of the authors' selection, in %",
        f"ceiling: % of the fastest products, {found['least GFLOP']:.3f} GFLOP a sentence at {told}",
    ]


SUBJECT = Subject(
    "select",
    "sentences",
    _measurements,
    OfMainJob(),
    times=_TIMES,
    described=lambda found: f"of {found['tokens']:.1f} tokens",
    reference=AUTHORS,
    columns=(
        Column("ceiling", _CEILING, decimals=0, scale=100, unit="%", wrap=False),
        Column("hours", _HOURS, decimals=2, wrap=False),
        Column("top-1", "same top-1", decimals=1, scale=100, unit="%", wrap=False),
    ),
    notes=_notes,
    baselines=[system.name for system in baselines() if not system.reference],
    on_any_device=True,
    compute=_with_whole_grid,
)
