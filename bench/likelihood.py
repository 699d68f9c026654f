"""`negengine bench likelihood`: likelihoods of sentences, against minicons and against a loop in PyTorch.

All systems give the sum of the log-probabilities of each sentence: every measurement is also a check that all compute
the same. The files of `systems/likelihood/` say what each of them does.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.experiments.likelihood.likelihood_scores import Encoder
from ..engine.text.lexicon import load_lexicon
from .comparison import Comparison, Effort, Measurement, largest_difference
from .shapes import Measured
from .subject import Subject
from .systems import LOOP
from .systems.likelihood import Texts
from .systems.likelihood.loop import CausalLoop, MaskedLoop, MaskedRowLoop
from .systems.likelihood.minicons import Minicons
from .systems.likelihood.own import Own
from .systems.system import System


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


def _measurements(measured: Measured, _data: Path | None) -> Iterator[Measurement[Texts]]:
    is_causal = measured.exported.is_causal
    encoder = Encoder(measured.exported.tokenizer, is_causal)
    loops: list[System[Texts]] = [CausalLoop()] if is_causal else [MaskedLoop(), MaskedRowLoop()]

    def known(work: Texts) -> dict[str, Any]:
        tokens = np.mean([len(one.ids) for one in encoder.encode(work.texts)])
        return {"causal": is_causal, "tokens": float(tokens)}

    yield Measurement([*loops, Minicons(), Own()], sentences, known)


SUBJECT = Subject(
    "likelihood",
    "sentences",
    Comparison(LOOP, {"times minicons": Minicons.name, "times loop": LOOP}, largest_difference),
    _measurements,
    Effort(tried=16, fewest=32),
    described=lambda found: f"of {found['tokens']:.1f} tokens, fp32",
)
