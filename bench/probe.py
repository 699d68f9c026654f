"""`negengine bench probe`: a user's own sentences, against a loop in PyTorch.

All systems give the log-probability of each target: every measurement is also a check that all compute the same.
The files of `systems/targets/` say what each of them does.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ..engine.basics.printable import counted
from ..engine.text.lexicon import load_lexicon
from .comparison import Comparison, Effort, Measurement, largest_difference
from .made import one_token_verbs
from .shapes import Measured
from .subject import Subject
from .systems import LOOP
from .systems.targets import Stimuli
from .systems.targets.loop import Loop, RowLoop
from .systems.targets.own import Own

TARGETS = ("target", "other")
_TEXTS = (
    "{name} likes to [MASK].",
    "{name} is {profession} who likes to [MASK].",
    "{name} is {profession} who doesn't like to {verb}. Today {name} wants to [MASK].",
    "When {name} was young, it was not easy to {verb}, and so {name}, {profession}, never learned how to [MASK].",
)


def stimuli(n: int, words: Sequence[str], seed: int = 0) -> pl.DataFrame:
    """Sentences of four different lengths with two targets each."""
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


def _stimuli(n: int, words: Sequence[str], targets: Sequence[str]) -> Stimuli:
    return Stimuli(stimuli(n, words), targets)


def _measurements(measured: Measured, _data: Path | None) -> Iterator[Measurement[Stimuli]]:
    """One for each number of targets."""
    words = one_token_verbs(measured.exported)
    for count in range(1, len(TARGETS) + 1):

        def known(work: Stimuli) -> dict[str, Any]:
            tokens = measured.exported.tokenizer.encode(work.table["sentence"].to_list())
            return {"targets": len(work.targets), "tokens": float(np.mean([len(ids) for ids in tokens]))}

        make = partial(_stimuli, words=words, targets=TARGETS[:count])
        yield Measurement([Loop(), RowLoop(), Own()], make, known)


SUBJECT = Subject(
    "probe",
    "sentences",
    Comparison(LOOP, {"times loop": LOOP}, largest_difference),
    _measurements,
    Effort(most=50_000),
    described=lambda found: f"of {found['tokens']:.1f} tokens, {counted(found['targets'], 'target')} each, fp32",
)
