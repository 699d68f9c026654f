"""`negengine bench likelihood`: likelihoods of sentences, against minicons and against a loop in PyTorch.

All systems get the same sentences as texts, in the same minutes, with the same number of threads, and give the sum of
the log-probabilities of each sentence: every measurement is also a check that all compute the same.

    minicons             its own scorer, with the number of sentences at a time that is fastest
    PyTorch, loop        the masked copies of all sentences (of a causal model, the sentences), sorted by length and
                         padded, in batches of the size that is fastest; all logits, then the row of the mask
    PyTorch, mask row    the same, but the head sees the mask's row alone; for masked models
    ours                 `negengine likelihood` without its files
"""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer

from ..engine.inference.causal import open_language_model
from ..engine.inference.device import CPU, choose_device, cpu_threads
from ..engine.probes.likelihood.choices import Method
from ..engine.probes.likelihood.encoding import Encoder
from ..engine.probes.likelihood.scores import causal_logprobs, pseudo_logprobs
from ..engine.sentences.lexicon import load_lexicon
from ..engine.tables import Column, Table
from ..export.quiet import quiet
from .baselines import head_at
from .machine import describe
from .measure import memory_rise
from .shapes import SHAPES, Measured, Shape, cache_folder, prepare

MINICONS, LOOP, ROW, OURS = "minicons", "PyTorch, loop", "PyTorch, mask row", "ours"
BATCHES = (8, 32, 128)  # rows at a time that are tried for PyTorch
SENTENCES = (1, 4, 16, 64)  # sentences at a time that are tried for minicons
_TRIED = 16  # sentences for finding the best size
_FEWEST, _MOST = 32, 20_000
Scores = NDArray[np.float64]
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class System:
    """One way to compute likelihoods.

    Attributes:
        name: What it is called.
        about: How it runs.
        run: Texts → float64 [n], the sum of the log-probabilities of each.
    """

    name: str
    about: str
    run: Callable[[Sequence[str]], Scores]


def bench_likelihood(
    names: Sequence[str],
    *,
    rounds: int = 5,
    seconds: float = 8,
    cache: Path | None = None,
    shapes: Mapping[str, Shape] = SHAPES,
    say: Say,
) -> dict[str, Any]:
    """Measure models.

    Args:
        names: Names of `shapes.SHAPES`, or what `negengine export` takes.
        rounds: How often each system is timed.
        seconds: About how long a round of the slowest baseline takes.
        cache: Where checkpoints and exports are kept.
        shapes: Models with random weights.
        say: Receives messages, one line at a time.

    Returns:
        A JSON document: the machine, and for each model the systems with their figures.

    Raises:
        InputError: A model does not exist.
    """
    folder = cache or cache_folder()
    models = [_measure(prepare(name, folder, shapes), rounds, seconds, say) for name in names]
    return {"machine": describe(choose_device("cpu")), "threads": cpu_threads(), "models": models}


def sentences(n: int, seed: int = 0) -> list[str]:
    """Sentences of the bundled lexicon: `Jessica is a dancer who likes to smoke.`, about 12 tokens."""
    lexicon, random = load_lexicon(), np.random.default_rng(seed)
    drawn = [random.integers(0, len(words), n) for words in (lexicon.names, lexicon.professions, lexicon.verbs)]
    return [
        f"{lexicon.names[name]} is {lexicon.professions[profession]} who likes to {lexicon.verbs[verb]}."
        for name, profession, verb in zip(*(own.tolist() for own in drawn), strict=True)
    ]


def table(found: dict[str, Any]) -> Table:
    """The figures of one model as a table."""
    unit = f"{found['model']}: {found['sentences']:,} sentences of {found['tokens']:.1f} tokens, fp32"
    columns = [
        Column("system", "system"),
        Column("how", "about"),
        Column("sentences/s", "sentences/s", significant=3),
        Column("× minicons", "times minicons", decimals=2),
        Column("× loop", "times loop", decimals=2),
        Column("MB", "MB", decimals=0),
        Column("largest difference", "difference", significant=2),
    ]
    frame = pl.DataFrame(found["systems"], schema_overrides={"times minicons": pl.Float64, "MB": pl.Float64})
    return Table(unit, frame, columns, notes=[f"missing: {why}" for why in found["missing"]])


def _measure(measured: Measured, rounds: int, seconds: float, say: Say) -> dict[str, Any]:
    say(f"{measured.name}: looking for the best batch sizes")
    torch.set_num_threads(cpu_threads())
    is_causal, missing = measured.exported.is_causal, []
    baselines = [_best(variants, sentences(_TRIED)) for variants in _pytorch(measured)]
    try:
        baselines.append(_best(_minicons(measured), sentences(_TRIED)))
    except ImportError as error:
        missing.append(f"minicons ({error}): pip install 'negengine[bench]'")
    systems = [*baselines, _ours(measured)]
    work = _work(baselines, seconds)
    for system in systems:
        system.run(work[:_TRIED])
    times: dict[str, list[float]] = {system.name: [] for system in systems}
    memory: dict[str, list[float]] = {system.name: [] for system in systems}
    scores: dict[str, Scores] = {}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for system in systems if number % 2 == 0 else reversed(systems):
            with memory_rise() as risen:
                began = time.perf_counter()
                scores[system.name] = system.run(work)
                times[system.name].append(time.perf_counter() - began)
            memory[system.name].append(risen[0] if risen[0] is not None else np.nan)
    rates = {name: len(work) / float(np.median(own)) for name, own in times.items()}
    encoder = Encoder(measured.exported.tokenizer, is_causal)
    return {
        "model": measured.name,
        "random weights": measured.is_random,
        "causal": is_causal,
        "sentences": len(work),
        "tokens": float(np.mean([len(one.ids) for one in encoder.encode(work)])),
        "rounds": rounds,
        "systems": [
            {
                "system": system.name,
                "about": system.about,
                "sentences/s": rates[system.name],
                "times minicons": rates[system.name] / rates[MINICONS] if MINICONS in rates else None,
                "times loop": rates[system.name] / rates[LOOP],
                "MB": float(np.max(memory[system.name])),
                "seconds": times[system.name],
                "difference": float(np.abs(scores[system.name] - scores[LOOP]).max()),
            }
            for system in systems
        ],
        "missing": missing,
    }


def _work(baselines: Sequence[System], seconds: float) -> list[str]:
    """As many sentences as the slowest baseline scores in some seconds."""
    few = sentences(_TRIED)
    slowest = 0.0
    for system in baselines:
        began = time.perf_counter()
        system.run(few)
        slowest = max(slowest, (time.perf_counter() - began) / len(few))
    return sentences(int(min(max(seconds / slowest, _FEWEST), _MOST)))


def _best(variants: Sequence[System], few: Sequence[str]) -> System:
    """The fastest of several sizes."""
    best, least = variants[0], np.inf
    for system in variants:
        system.run(few[:2])
        began = time.perf_counter()
        system.run(few)
        if (spent := time.perf_counter() - began) < least:
            best, least = system, spent
    return best


def _ours(measured: Measured) -> System:
    model = open_language_model(measured.exported, CPU)
    encoder = Encoder(measured.exported.tokenizer, measured.exported.is_causal)
    longest = measured.exported.max_length

    def run(texts: Sequence[str]) -> Scores:
        encoded = encoder.encode(texts)
        if measured.exported.is_causal:
            found = causal_logprobs(model, encoder, encoded, longest, lambda _: None)  # type: ignore[arg-type]
        else:
            found = pseudo_logprobs(model, encoder, encoded, Method.ORIGINAL, longest, lambda _: None)
        counts = np.array([len(one.scored) for one in encoded])
        sums: Scores = np.add.reduceat(found.astype(np.float64), np.cumsum(counts) - counts)
        return sums

    return System(OURS, f"batches of {model.batch_tokens} tokens", run)


def _minicons(measured: Measured) -> list[System]:
    """The scorer of minicons.

    Raises:
        ImportError: It is not installed.
    """
    from minicons import scorer  # noqa: PLC0415 - an optional baseline

    kind = scorer.IncrementalLMScorer if measured.exported.is_causal else scorer.MaskedLMScorer
    with quiet(), warnings.catch_warnings(action="ignore"):
        model = kind(measured.checkpoint, "cpu")

    def run(texts: Sequence[str], size: int) -> Scores:
        found: list[float] = []
        for start in range(0, len(texts), size):
            found += model.sequence_score(list(texts[start : start + size]), reduction=lambda own: own.sum(0).item())
        return np.array(found)

    return [System(MINICONS, f"{size} sentences at a time", partial(run, size=size)) for size in SENTENCES]


def _pytorch(measured: Measured) -> list[list[System]]:
    kind = AutoModelForCausalLM if measured.exported.is_causal else AutoModelForMaskedLM
    with quiet():
        model = kind.from_pretrained(measured.checkpoint).eval()
        tokenizer = AutoTokenizer.from_pretrained(measured.checkpoint)
    if measured.exported.is_causal:
        return [[_causal_loop(model, tokenizer, size) for size in BATCHES]]
    return [[_masked_loop(name, model, tokenizer, size) for size in BATCHES] for name in (LOOP, ROW)]


def _masked_loop(name: str, model: Any, tokenizer: Any, size: int) -> System:
    def run(texts: Sequence[str]) -> Scores:
        found = np.zeros(len(texts))
        copies = list(_copies(tokenizer, texts))
        copies.sort(key=lambda masked: len(masked[1]))
        for start in range(0, len(copies), size):
            rows, ids, places, tokens = zip(*copies[start : start + size], strict=True)
            padded = tokenizer.pad({"input_ids": list(ids)}, return_tensors="pt")
            every, where = torch.arange(len(ids)), torch.tensor(places)
            if name == ROW:
                with head_at(model, np.array(places, np.int32)):
                    logits = model(**padded).logits[:, 0]
            else:
                logits = model(**padded).logits[every, where]
            scores = logits[every, torch.tensor(tokens)] - logits.logsumexp(1)
            np.add.at(found, list(rows), scores.double().numpy())
        return found

    return System(name, f"batches of {size}", _without_gradients(run))


def _copies(tokenizer: Any, texts: Sequence[str]) -> Iterator[tuple[int, list[int], int, int]]:
    """The masked copies of all sentences: number of the sentence, ids, position, token."""
    encoded = tokenizer(list(texts), return_special_tokens_mask=True)
    for row, (ids, special) in enumerate(zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)):
        for place, token in enumerate(ids):
            if not special[place]:
                yield row, [*ids[:place], tokenizer.mask_token_id, *ids[place + 1 :]], place, token


def _causal_loop(model: Any, tokenizer: Any, size: int) -> System:
    def run(texts: Sequence[str]) -> Scores:
        found = np.zeros(len(texts))
        encoded = tokenizer(list(texts), return_special_tokens_mask=True)
        order = sorted(range(len(texts)), key=lambda row: len(encoded["input_ids"][row]))
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            ids = [encoded["input_ids"][row] for row in rows]
            padded = tokenizer.pad({"input_ids": ids}, return_tensors="pt", padding_side="right")
            logprobs = model(**padded).logits[:, :-1].log_softmax(-1)
            following = padded["input_ids"][:, 1:]
            scores = logprobs.gather(2, following[:, :, None])[:, :, 0].double().numpy()
            for place, row in enumerate(rows):
                special = np.array(encoded["special_tokens_mask"][row][1:], bool)
                found[row] = scores[place, : len(special)][~special].sum()
        return found

    return System(LOOP, f"batches of {size}", _without_gradients(run))


def _without_gradients(run: Callable[[Sequence[str]], Scores]) -> Callable[[Sequence[str]], Scores]:
    def scored(texts: Sequence[str]) -> Scores:
        with torch.inference_mode():
            return run(texts)

    return scored
