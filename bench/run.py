"""`negengine bench`: the engine, its baselines and the ceiling, on one machine in one run."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from ..engine.basics.choices import Precision
from ..engine.basics.errors import InputError
from ..engine.basics.limits import cpu_threads
from ..engine.inference.audit import audit_share
from ..engine.inference.device import choose_device
from ..engine.inference.devices.cpu import CPU
from ..engine.inference.devices.cuda import Cuda
from ..engine.inference.exported import ExportedModel, graph_precision
from ..engine.inference.mixed import CALIBRATION_SENTENCES
from ..engine.inference.precision import open_models
from ..engine.inference.session import Device
from ..engine.views import Column, Table
from ..export.checkpoint import locate
from .baselines import AuthorsScoring, AuthorsSelection, baselines
from .ceiling import ROUNDS, least_flops, product_rates
from .machine import describe, has_bf16
from .main_job import (
    AUDIT_SHARE,
    EXACT,
    LOW_PRECISION,
    MIXED,
    LowPrecision,
    MixedPrecision,
    Reference,
    Sentences,
    calibrated,
    candidates,
    lazy_beside_exhaustive,
    main_job,
)
from .rounds import INTERRUPTED, Compared, Effort, Keep, Say, Start, compare, in_a_process
from .shapes import MINI, SHAPES, Measured, cache_folder, prepare
from .system import Place, System

CANDIDATES = 10_900_000  # of the paper's Table 5, row 3
AUTHORS, AUTHORS_SCORING = AuthorsSelection.name, AuthorsScoring.name
_TRIED_ON_CUDA = 4096  # sentences for finding the best settings, where batches are larger
_BAR = 30  # columns
_EXPECTED = "mixed, expected"
_WHOLE = "mixed, whole grid"  # whose audit is a smaller share than that of the sentences which are timed


@dataclass(frozen=True)
class OfMainJob(Effort):
    """How much is measured; the items are sentences."""

    tried: int = 128
    fewest: int = 200
    most: int = 100_000
    ceiling_rounds: int = ROUNDS  # how often the chain of products is timed
    calibrated: int = 1_000  # sentences of the bundled model, for the close calls that random weights cannot tell
    lazy_pairs: int = 8  # pairs of the lazy selection

    def quick(self) -> Self:
        return replace(super().quick(), ceiling_rounds=2, calibrated=500, lazy_pairs=4)


def bench(
    names: Sequence[str], *, device: str = "auto", effort: OfMainJob | None = None, cache: Path | None = None,
    only: Sequence[str] = (), start: Start = in_a_process, say: Say, keep: Keep = lambda _: None,
) -> dict[str, Any]:  # fmt: skip
    """Measure models: a JSON document of the machine and each model; `keep` is given it whenever more is known.

    After an interrupt it has what was measured, and says so. Raises InputError if a name does not exist.
    """
    chosen, folder, effort = choose_device(device), cache or cache_folder(), effort or OfMainJob()
    others = baselines()  # the authors' programs and these, or all if none is named
    known = [system.name for system in others]
    if unknown := next((name for name in only if name not in known), None):
        raise InputError(f"--baseline {unknown}: there are {', '.join(known[2:])}")
    others = [system for system in others if not only or system.name in {*only, AUTHORS, AUTHORS_SCORING}]
    if chosen.kind == Cuda.kind:
        effort = replace(effort, tried=_TRIED_ON_CUDA)
    for name in names:
        if name not in SHAPES:
            locate(name)
    results: list[dict[str, Any]] = []

    def document(*more: dict[str, Any]) -> dict[str, Any]:
        known = {"machine": describe(chosen), "command": " ".join(["negengine", *sys.argv[1:]])}
        return {**known, "models": [*results, *more], INTERRUPTED: any(own[INTERRUPTED] for own in results)}

    for name in names:
        say(f"{name}: preparing")
        measured = prepare(name, folder)
        given = (effort, others, folder, start, say, lambda own: keep(document(own)))
        results.append(_measure(measured, chosen, *given))
        if results[-1][INTERRUPTED]:
            return document()
    _expect_mixed(results, chosen, folder, effort.calibrated, say)
    return document()


def _measure(
    measured: Measured, device: Device, effort: OfMainJob, others: Sequence[System[Sentences]], cache: Path,
    start: Start, say: Say, keep: Keep,
) -> dict[str, Any]:  # fmt: skip
    """Measure one model; the keys of the result say what they hold and in which unit."""
    exported = measured.exported
    cache.mkdir(parents=True, exist_ok=True)
    place = Place(measured.checkpoint, exported.folder, device, cpu_threads(), cache)
    job = main_job(exported)
    systems = [*others, *own_systems(measured, device)]

    def figures(compared: Compared, ceilings: Mapping[str, float] | None = None) -> dict[str, Any]:
        sentences = candidates(job, compared.outcomes[0].items)
        flops = least(exported, sentences.length)
        mixed = compared.by_name.get(MIXED)
        systems = _rows(compared, sentences, flops, ceilings or {})
        return {
            "model": measured.name,
            "random weights": measured.is_random,
            "device": str(device),
            "threads": place.threads,
            "work": {
                "sentences": len(sentences),
                "tokens": sentences.length,
                "rounds": max(1, compared.outcomes[0].rounds),
                "least GFLOP": flops / 1e9,
            },
            "product GFLOP/s": {kind: rate / 1e9 for kind, rate in (ceilings or {}).items()},
            "systems": systems,
            "skipped": dict(compared.missing),
            _EXPECTED: None,
            _WHOLE: _whole_grid(systems, mixed.found.get("close calls")) if mixed else None,
            "lazy": None,
            "close calls": mixed and mixed.found.get("close calls"),
            INTERRUPTED: compared.interrupted,
        }

    known = lambda found: keep(figures(found))  # noqa: E731
    compared = compare(systems, place, partial(candidates, job), effort, say, start, known)
    if compared.interrupted:
        return figures(compared)
    more: dict[str, Any] = {}
    ceilings: dict[str, float] = {}
    try:
        models = open_models(exported, device, Precision.AUTO)
        say("the ceiling")
        products = _products(exported, device, effort.ceiling_rounds)
        ceilings = {kind: max(by_kernel.values()) for kind, by_kernel in products.items()}
        more["product GFLOP/s by kernel"] = {
            kind: {kernel: rate / 1e9 for kernel, rate in by_kernel.items()} for kind, by_kernel in products.items()
        }
        sentences = candidates(job, compared.by_name[AUTHORS].items)
        if not measured.is_random:
            say("lazy selection")
            mixed, rate = calibrated(models, sentences), compared.by_name[AUTHORS].rate
            more["lazy"] = lazy_beside_exhaustive(job, models, mixed, rate, effort.lazy_pairs)
    except KeyboardInterrupt:
        say("interrupted: what was measured follows")
        more[INTERRUPTED] = True
    return {**figures(compared, ceilings), **more}


def own_systems(measured: Measured, device: Device) -> list[System[Sentences]]:
    """Our systems of the main job; the close calls of random weights say nothing of mixed precision."""
    if (graph := device.low_precision(measured.exported)) is None:
        return [Reference()]
    mixed = [] if measured.is_random else [MixedPrecision()]
    return [Reference(), LowPrecision(graph, device), *mixed]


def _rows(
    compared: Compared, sentences: Sentences, flops: float, ceilings: Mapping[str, float]
) -> list[dict[str, Any]]:
    """The figures of each system; all are compared with the answers of the first one."""
    rates = {name: one.rate for name, one in compared.by_name.items()}
    reference, expected = compared.outcomes[0].answers, sentences.encoded.expected
    rows = []
    for one in compared.outcomes:
        right, n, ceiling = reference[: one.items], one.items, ceilings.get(one.system.arithmetic)
        repeated = (one.answers == expected[:n], right == expected[:n])
        rows.append(
            {
                **one.row(),
                **_speed(one.rate, rates),
                "share of ceiling": None if ceiling is None else one.rate * flops / ceiling,
                "same top-1": float(np.mean(one.answers == right)),
                "same decision": float(np.mean(repeated[0] == repeated[1])),
            }
        )
    return rows


def _speed(rate: float, rates: Mapping[str, float]) -> dict[str, float | None]:
    return {
        "times authors, selection": rate / rates[AUTHORS],
        "times authors, scoring": rate / rates[AUTHORS_SCORING] if AUTHORS_SCORING in rates else None,
        "hours for 10.9 M": CANDIDATES / rate / 3600,
    }


def _expect_mixed(results: Sequence[dict[str, Any]], device: Device, cache: Path, wanted: int, say: Say) -> None:
    """Add the expected speed of mixed precision, because the close calls of random weights say nothing."""
    random = [found for found in results if found["random weights"]]
    lacking = [found for found in random if any(row["system"] == LOW_PRECISION for row in found["systems"])]
    if not lacking:
        return
    close = next((found["close calls"] for found in results if found["model"] == MINI), None)
    if close is None:
        say(f"close calls of {MINI}, for the speed of mixed precision to be expected")
        exported = prepare(MINI, cache).exported
        models = open_models(exported, device, Precision.AUTO)
        mixed = calibrated(models, candidates(main_job(exported), wanted))
        close = None if mixed is None else mixed.calibration.close
    for found in lacking:
        found[_EXPECTED] = None if close is None else expected_mixed(found["systems"], close)


def expected_mixed(systems: Sequence[dict[str, Any]], close: float, audit: float = AUDIT_SHARE) -> dict[str, Any]:
    """Mixed precision as fast as the two models that it takes, with these shares of decisions in fp32."""
    rates = {row["system"]: row["sentences/s"] for row in systems}
    rate = 1 / (1 / rates[LOW_PRECISION] + (close + audit) / rates[EXACT])
    return {
        "close calls": close,
        "audit": audit,
        "sentences/s": rate,
        "times fp32": rate / rates[EXACT],
        **_speed(rate, rates),
    }


def _whole_grid(systems: Sequence[dict[str, Any]], close: float | None) -> dict[str, Any] | None:
    """Mixed precision in a run of all candidates: the more decisions, the smaller a share of them is audited."""
    known = {row["system"] for row in systems} >= {LOW_PRECISION, EXACT, AUTHORS}
    if close is None or not known:
        return None
    return expected_mixed(systems, close, audit_share([(CANDIDATES, close)], CALIBRATION_SENTENCES[0]))


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


def tables(result: Mapping[str, Any]) -> list[Table]:
    """The chart and the tables of one model."""
    expected = result[_EXPECTED]
    more = {_EXPECTED: expected, _WHOLE: result[_WHOLE]}
    rows = [*result["systems"], *({**own, "system": name} for name, own in more.items() if own is not None)]
    lazy = [_lazy(result["lazy"])] if result["lazy"] else []
    return [_speeds(result, rows), _systems(result, rows), *lazy]


def _speeds(result: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> Table:
    work, rates = result["work"], [row["sentences/s"] for row in rows]
    most = max(rates[: len(result["systems"])])
    frame = pl.DataFrame(
        {
            "system": [row["system"] for row in rows],
            "share": [rate / most for rate in rates],
            "bar": ["█" * min(_BAR, max(1, round(_BAR * rate / most))) for rate in rates],
            "rate": rates,
        }
    )
    done = f"{work['sentences']:,} sentences of {work['tokens']:.1f} tokens, medians of {work['rounds']} rounds"
    columns = [
        Column("system", "system", wrap=False),
        Column("speed", "share", wrap=False, left=True),
        Column("sentences/s", "rate", decimals=0, wrap=False),
    ]
    notes = [
        f"each system: {result['threads']} threads, a process of its own, its fastest batch size",
        *(f"{name} is not measured: {reason}" for name, reason in result["skipped"].items()),
    ]
    return Table(
        f"{result['model']} on {result['device']}: {done}", frame, columns, notes=notes, texts={"share": "bar"}
    )


def _systems(result: Mapping[str, Any], rows: list[Mapping[str, Any]]) -> Table:
    columns = [
        Column("sel.", "times authors, selection", decimals=2, wrap=False),
        Column("sc.", "times authors, scoring", decimals=2, wrap=False),
        Column("ceil.", "share of ceiling", decimals=0, scale=100, unit="%", wrap=False),
        Column("hours", "hours for 10.9 M", decimals=2, wrap=False),
        Column("MB", "MB", decimals=0, wrap=False),
        Column("top-1", "same top-1", decimals=1, scale=100, unit="%", wrap=False),
    ]
    figures = {
        str(own.value): pl.Series([row.get(str(own.value)) for row in rows], dtype=pl.Float64) for own in columns
    }
    rates = ", ".join(f"{rate:,.0f} GFLOP/s in {kind}" for kind, rate in result["product GFLOP/s"].items())
    notes = [
        "sel., sc.: times as fast as the authors' selection and scoring; hours: for 10.9 million sentences",
        "top-1: the same as the first system's, in %; MB: peak memory of the process",
    ]
    if rates:
        notes.append(f"ceil.: % of the ceiling, {result['work']['least GFLOP']:.3f} GFLOP a sentence at {rates}")
    if result[_EXPECTED]:
        close = 100 * result[_EXPECTED]["close calls"]
        told = f"close calls of random weights mean nothing, so the {close:.1f} % of the bundled model count"
        notes.append(f"{_EXPECTED}: {told}")
    if whole := result[_WHOLE]:
        shares = 100 * whole["close calls"], 100 * whole["audit"]
        notes.append(f"{_WHOLE}: computed, with {shares[0]:.1f} % close calls and an audit of {shares[1]:.2f} %")
    frame = pl.DataFrame({"system": [row["system"] for row in rows], **figures})
    return Table("Systems compared", frame, [Column("system", "system", wrap=False), *columns], notes=notes)


def _lazy(lazy: Mapping[str, Any]) -> Table:
    names = {"exhaustive": "exhaustive, fp32", "lazy": "lazy, mixed precision where possible"}
    tested, seconds = ([lazy[f"{name} {what}"] for name in names] for what in ("tested", "seconds"))
    frame = pl.DataFrame({"selection": list(names.values()), "sentences": tested, "seconds": seconds})
    columns = [*(Column(own, own) for own in ("selection", "sentences")), Column("seconds", "seconds", decimals=2)]
    title = f"A selected test set of {lazy['pairs']} pairs, {lazy['repeating %']:.0f} % of the candidates repeat"
    notes = [
        f"lazy: {lazy['times authors, selection']:.1f} times as fast as the authors' program at its rate",
        f"the same triplets as the exhaustive run: {'yes' if lazy['same triplets'] else 'no'}",
    ]
    return Table(title, frame, columns, notes=notes)
