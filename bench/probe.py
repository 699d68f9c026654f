"""`negengine bench probe`: a user's own sentences, against a loop in PyTorch.

All systems get the same sentences in the same minutes, with the same number of threads. They give the log-probability
of each target: every measurement is also a check that all compute the same.

    PyTorch, loop       sentences sorted by length, padded, in batches of the size that is fastest; all logits, then the
                        row of the mask; log-probability and rank of the targets, and the first choice
    PyTorch, mask row   the same, but the head sees the mask's row alone
    ours                `negengine probe` without its files: it reads and checks a table, and makes the rows of results
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoTokenizer

from ..engine.inference.device import CPU, choose_device, cpu_threads
from ..engine.inference.free_text import MASK
from ..engine.inference.model import MaskedLM
from ..engine.probes.probe.columns import LOGPROB, Columns
from ..engine.probes.probe.stage import OwnStimuli
from ..engine.probes.vocabulary import Ranked
from ..engine.runs.overlap import overlap
from ..engine.runs.part import EncodedPart
from ..engine.runs.stage import PartResult
from ..engine.sentences.lexicon import load_lexicon
from ..engine.stimuli import open_table
from ..engine.tables import Column, Table
from ..export.quiet import quiet
from .baselines import head_at
from .machine import describe
from .shapes import Measured, cache_folder, prepare

LOOP, ROW, OURS = "PyTorch, loop", "PyTorch, mask row", "ours"
TARGETS = ("target", "other")
BATCHES = (8, 16, 32, 64, 128)  # tried for PyTorch
TRIED = 64
"""Sentences for finding the best batch size, and the fewest of a round."""

_MOST = 50_000
_TEXTS = (
    "{name} likes to [MASK].",
    "{name} is {profession} who likes to [MASK].",
    "{name} is {profession} who doesn't like to {verb}. Today {name} wants to [MASK].",
    "When {name} was young, it was not easy to {verb}, and so {name}, {profession}, never learned how to [MASK].",
)
Scores = NDArray[np.float64]
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class System:
    """One way to ask about sentences.

    Attributes:
        name: What it is called.
        about: How it runs.
        run: A table, number of targets → float64 [n, targets], their log-probabilities.
    """

    name: str
    about: str
    run: Callable[[pl.DataFrame, int], Scores]


def bench_probe(
    names: Sequence[str],
    *,
    rounds: int = 5,
    seconds: float = 8,
    tried: int = TRIED,
    batches: Sequence[int] = BATCHES,
    cache: Path | None = None,
    say: Say,
) -> dict[str, Any]:
    """Measure models.

    Args:
        names: Names of `shapes.SHAPES`, or what `negengine export` takes.
        rounds: How often each system is timed.
        seconds: About how long a round of the slowest baseline takes.
        tried: Sentences for finding the best batch size, and the fewest of a round.
        batches: Batch sizes that are tried for PyTorch.
        cache: Where checkpoints and exports are kept.
        say: Receives messages, one line at a time.

    Returns:
        A JSON document: the machine, and for each model and number of targets the systems with their figures.

    Raises:
        InputError: A model does not exist.
    """
    folder = cache or cache_folder()
    found = []
    for name in names:
        measured = prepare(name, folder)
        variants = _pytorch(measured, batches)
        for targets in (1, len(TARGETS)):
            say(f"{measured.name}, {targets} targets: looking for the best batch sizes")
            few = stimuli(tried, _words(measured))
            best = [_best(own, few, targets) for own in variants]
            found.append(_measure(measured, best, few, targets, rounds, seconds, say))
    return {"machine": describe(choose_device("cpu")), "threads": cpu_threads(), "models": found}


def stimuli(n: int, words: Sequence[str], seed: int = 0) -> pl.DataFrame:
    """Sentences of four different lengths with two targets each.

    Args:
        n: How many.
        words: The targets.
        seed: Of the choice.
    """
    lexicon, random = load_lexicon(), np.random.default_rng(seed)
    chosen = {
        "name": [str(word) for word in random.choice(lexicon.names, n)],
        "profession": [str(word) for word in random.choice(lexicon.professions, n)],
        "verb": [str(word) for word in random.choice(list(words), n)],
    }
    rows = [dict(zip(chosen, values, strict=True)) for values in zip(*chosen.values(), strict=True)]
    texts = [_TEXTS[i % len(_TEXTS)].format(**row) for i, row in enumerate(rows)]
    targets = {name: [str(word) for word in random.choice(list(words), n)] for name in TARGETS}
    return pl.DataFrame({"sentence": texts, **targets})


def table(found: dict[str, Any]) -> Table:
    """The figures of one model and number of targets as a table."""
    what = f"{found['sentences']:,} sentences of {found['tokens']:.1f} tokens, {found['targets']} targets each, fp32"
    columns = [
        Column("system", "system"),
        Column("how", "about"),
        Column("sentences/s", "sentences/s", significant=3),
        Column("× loop", "times loop", decimals=2),
        Column("largest difference", "difference", significant=2),
    ]
    return Table(f"{found['model']}: {what}", pl.DataFrame(found["systems"]), columns)


def _measure(
    measured: Measured,
    baselines: Sequence[System],
    few: pl.DataFrame,
    targets: int,
    rounds: int,
    seconds: float,
    say: Say,
) -> dict[str, Any]:
    slowest = max(_seconds(system, few, targets) for system in baselines) / len(few)
    work = stimuli(int(min(max(seconds / slowest, len(few)), _MOST)), _words(measured))
    with TemporaryDirectory() as folder:
        systems = [*baselines, _ours(measured, Path(folder))]
        for system in systems:
            system.run(few, targets)
        times: dict[str, list[float]] = {system.name: [] for system in systems}
        scores: dict[str, Scores] = {}
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for system in systems if number % 2 == 0 else reversed(systems):
                began = time.perf_counter()
                scores[system.name] = system.run(work, targets)
                times[system.name].append(time.perf_counter() - began)
    rates = {name: len(work) / float(np.median(own)) for name, own in times.items()}
    tokens = measured.exported.tokenizer.encode(work["sentence"].to_list())
    return {
        "model": measured.name,
        "random weights": measured.is_random,
        "sentences": len(work),
        "tokens": float(np.mean([len(ids) for ids in tokens])),
        "targets": targets,
        "rounds": rounds,
        "systems": [
            {
                "system": system.name,
                "about": system.about,
                "sentences/s": rates[system.name],
                "times loop": rates[system.name] / rates[LOOP],
                "seconds": times[system.name],
                "difference": float(np.abs(scores[system.name] - scores[LOOP]).max()),
            }
            for system in systems
        ],
    }


def _words(measured: Measured) -> list[str]:
    """The verbs that are one token in these sentences."""
    verbs, tokenizer = load_lexicon().verbs, measured.exported.tokenizer
    found = tokenizer.word_tokens([("Anna likes to ", ".")] * len(verbs), verbs)
    return [verb for verb, token in zip(verbs, found.tolist(), strict=True) if token >= 0]


def _pytorch(measured: Measured, batches: Sequence[int]) -> list[list[System]]:
    """Both loops, each with every batch size."""
    torch.set_num_threads(cpu_threads())
    tokenizer = AutoTokenizer.from_pretrained(measured.checkpoint)
    with quiet():
        model = AutoModelForMaskedLM.from_pretrained(measured.checkpoint, dtype=torch.float32).eval()

    def ask(frame: pl.DataFrame, targets: int, *, batch: int, mask_row: bool) -> Scores:
        texts = [text.replace(MASK, tokenizer.mask_token) for text in frame["sentence"]]
        expected = np.stack([tokenizer.convert_tokens_to_ids(list(frame[name])) for name in TARGETS[:targets]], axis=1)
        order = np.argsort([len(text) for text in texts], kind="stable")
        scores = np.empty(expected.shape)
        for start in range(0, len(texts), batch):
            rows = order[start : start + batch]
            encoded = tokenizer([texts[row] for row in rows], padding=True, return_tensors="pt")
            found, position = (encoded["input_ids"] == tokenizer.mask_token_id).nonzero(as_tuple=True)
            with torch.inference_mode():
                if mask_row:
                    with head_at(model, position.numpy()):
                        logits = model(**encoded).logits[:, 0]
                else:
                    logits = model(**encoded).logits[found, position]
                own = logits.gather(1, torch.from_numpy(expected[rows]))
                logprobs = own - logits.logsumexp(1, keepdim=True)
                for target in range(targets):
                    (logits > own[:, target : target + 1]).sum(1)  # the rank
                logits.argmax(1)
            scores[rows] = logprobs.numpy()
        return scores

    return [
        [System(name, f"batches of {batch}", partial(ask, batch=batch, mask_row=mask_row)) for batch in batches]
        for name, mask_row in ((LOOP, False), (ROW, True))
    ]


def _ours(measured: Measured, folder: Path) -> System:
    model = MaskedLM(measured.exported, CPU)

    def run(frame: pl.DataFrame, targets: int) -> Scores:
        path = folder / f"{len(frame)}.csv"
        if not path.exists():
            frame.write_csv(path)
        columns = Columns("sentence", TARGETS[:targets])
        stage = OwnStimuli(measured.exported, open_table(path).scan(columns.texts), columns, Ranked())
        found: dict[int, pl.DataFrame] = {}

        def decide(number: int, prepared: Any) -> pl.DataFrame:
            return stage.decide(model, number, prepared, lambda *_: None).rows

        def finish(number: int, rows: pl.DataFrame) -> None:
            EncodedPart.of(PartResult(rows))
            found[number] = rows

        overlap(range(len(stage.sizes)), stage.prepare, decide, finish)
        logprobs = pl.concat([found[number] for number in sorted(found)])[LOGPROB].to_numpy()
        return logprobs.reshape(-1, targets).astype(np.float64)

    return System(OURS, f"batches of {model.batch_tokens} tokens", run)


def _seconds(system: System, few: pl.DataFrame, targets: int) -> float:
    began = time.perf_counter()
    system.run(few, targets)
    return time.perf_counter() - began


def _best(variants: Sequence[System], few: pl.DataFrame, targets: int) -> System:
    """The fastest batch size."""
    for system in variants:
        system.run(few[:8], targets)
    return min(variants, key=lambda system: _seconds(system, few, targets))
