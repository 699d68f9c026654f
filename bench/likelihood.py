"""`negengine bench likelihood`: likelihoods of sentences, against minicons and against a loop in PyTorch.

All systems give the sum of the log-probabilities of each sentence: every measurement is also a check that all compute
the same.

    minicons             its own scorer, with the number of sentences at a time that is fastest
    PyTorch, loop        the masked copies of all sentences (of a causal model, the sentences), sorted by length and
                         padded, in batches of the size that is fastest; all logits, then the row of the mask
    PyTorch, mask row    the same, but the head sees the mask's row alone; for masked models
    ours                 `negengine likelihood` without its files
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.inference.device import CPU, cpu_threads
from ..engine.probes.likelihood.encoding import Encoder
from ..engine.sentences.lexicon import load_lexicon
from ..engine.tables import Column, Table
from .comparison import Comparison, Effort, comparison_table, largest_difference, measure_comparison
from .machine import describe
from .rounds import Start
from .shapes import SHAPES, Shape, cache_folder, prepare
from .systems.likelihood import Texts
from .systems.likelihood.loop import LOOP, CausalLoop, MaskedLoop, MaskedRowLoop
from .systems.likelihood.minicons import Minicons
from .systems.likelihood.own import Own
from .systems.system import System

EFFORT = Effort(tried=16, fewest=32)
COMPARISON = Comparison(LOOP, {"times minicons": Minicons.name, "times loop": LOOP}, largest_difference)
Say = Callable[[str], None]


def bench_likelihood(
    names: Sequence[str],
    *,
    effort: Effort = EFFORT,
    cache: Path | None = None,
    shapes: Mapping[str, Shape] = SHAPES,
    start: Start | None = None,
    say: Say,
) -> dict[str, Any]:
    """Measure models.

    Args:
        names: Names of `shapes.SHAPES`, or what `negengine export` takes.
        effort: How much is measured.
        cache: Where checkpoints and exports are kept.
        shapes: Models with random weights.
        start: See `compare`.
        say: Receives messages, one line at a time.

    Returns:
        A JSON document: the machine, and for each model the systems with their figures.

    Raises:
        InputError: A model does not exist.
    """
    folder, found = cache or cache_folder(), []
    for name in names:
        measured = prepare(name, folder, shapes)
        is_causal = measured.exported.is_causal
        result = measure_comparison(measured, systems(is_causal), sentences, COMPARISON, effort, folder, say, start)
        texts = sentences(result["sentences"]).texts
        tokens = np.mean([len(one.ids) for one in Encoder(measured.exported.tokenizer, is_causal).encode(texts)])
        found.append({**result, "causal": is_causal, "tokens": float(tokens)})
    return {"machine": describe(CPU), "threads": cpu_threads(), "models": found}


def systems(is_causal: bool) -> list[System[Texts]]:
    """All systems for a kind of model."""
    loops: list[System[Texts]] = [CausalLoop()] if is_causal else [MaskedLoop(), MaskedRowLoop()]
    return [*loops, Minicons(), Own()]


def sentences(n: int, seed: int = 0) -> Texts:
    """Sentences of the bundled lexicon: `Jessica is a dancer who likes to smoke.`, about 12 tokens."""
    lexicon, random = load_lexicon(), np.random.default_rng(seed)
    drawn = [random.integers(0, len(words), n) for words in (lexicon.names, lexicon.professions, lexicon.verbs)]
    return Texts(
        [
            f"{lexicon.names[name]} is {lexicon.professions[profession]} who likes to {lexicon.verbs[verb]}."
            for name, profession, verb in zip(*(own.tolist() for own in drawn), strict=True)
        ]
    )


def table(found: Mapping[str, Any]) -> Table:
    """The figures of one model as a table."""
    columns = [
        Column("× minicons", "times minicons", decimals=2),
        Column("× loop", "times loop", decimals=2),
        Column("largest difference", "difference", significant=2),
    ]
    title = f"{found['model']}: {found['sentences']:,} sentences of {found['tokens']:.1f} tokens, fp32"
    return comparison_table(found, title, columns)
