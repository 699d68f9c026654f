"""`negengine bench probe`: a user's own sentences, against a loop in PyTorch.

All systems give the log-probability of each target: every measurement is also a check that all compute the same.

    PyTorch, loop       sentences sorted by length, padded, in batches of the size that is fastest; all logits, then the
                        row of the mask; log-probability and rank of the targets, and the first choice
    PyTorch, mask row   the same, but the head sees the mask's row alone
    ours                `negengine probe` without its files: it reads and checks a table, and makes the rows of results
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..engine.inference.device import CPU, cpu_threads
from ..engine.sentences.lexicon import load_lexicon
from ..engine.tables import Column, Table
from .comparison import Comparison, Effort, comparison_table, largest_difference, measure_comparison
from .machine import describe
from .made import one_token_verbs
from .rounds import Start
from .shapes import SHAPES, Shape, cache_folder, prepare
from .systems.system import System
from .systems.targets import Stimuli
from .systems.targets.loop import LOOP, Loop, RowLoop
from .systems.targets.own import Own

TARGETS = ("target", "other")
EFFORT = Effort(most=50_000)
COMPARISON = Comparison(LOOP, {"times loop": LOOP}, largest_difference)
_TEXTS = (
    "{name} likes to [MASK].",
    "{name} is {profession} who likes to [MASK].",
    "{name} is {profession} who doesn't like to {verb}. Today {name} wants to [MASK].",
    "When {name} was young, it was not easy to {verb}, and so {name}, {profession}, never learned how to [MASK].",
)
Say = Callable[[str], None]


def bench_probe(
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
        A JSON document: the machine, and for each model and number of targets the systems with their figures.

    Raises:
        InputError: A model does not exist.
    """
    folder, found = cache or cache_folder(), []
    for name in names:
        measured = prepare(name, folder, shapes)
        words = one_token_verbs(measured.exported)
        for count in range(1, len(TARGETS) + 1):
            say(f"{measured.name}: {count} target{'s' if count > 1 else ''}")
            make = partial(_stimuli, words=words, targets=TARGETS[:count])
            result = measure_comparison(measured, systems(), make, COMPARISON, effort, folder, say, start)
            tokens = measured.exported.tokenizer.encode(make(result["sentences"]).table["sentence"].to_list())
            length = float(np.mean([len(ids) for ids in tokens]))
            found.append({**result, "targets": count, "tokens": length})
    return {"machine": describe(CPU), "threads": cpu_threads(), "models": found}


def systems() -> list[System[Stimuli]]:
    """All systems."""
    return [Loop(), RowLoop(), Own()]


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


def table(found: Mapping[str, Any]) -> Table:
    """The figures of one model and number of targets as a table."""
    what = f"{found['sentences']:,} sentences of {found['tokens']:.1f} tokens, {found['targets']} targets each, fp32"
    columns = [
        Column("× loop", "times loop", decimals=2),
        Column("largest difference", "difference", significant=2),
    ]
    return comparison_table(found, f"{found['model']}: {what}", columns)


def _stimuli(n: int, words: Sequence[str], targets: Sequence[str]) -> Stimuli:
    return Stimuli(stimuli(n, words), targets)
