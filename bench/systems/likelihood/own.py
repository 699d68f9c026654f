"""`negengine likelihood` without its files."""

import numpy as np

from ....engine.experiments.likelihood.likelihood_scores import Encoder, causal_logprobs, pseudo_logprobs
from ....engine.experiments.likelihood.likelihood_tables import Method
from ..own import Fp32
from ..system import Answers, Choice, Place
from . import Texts


class Own(Fp32[Texts]):
    """Our engine, fp32."""

    def open(self, place: Place) -> None:
        super().open(place)
        self._encoder = Encoder(self._exported.tokenizer, self._exported.is_causal)

    def run(self, work: Texts, choice: Choice) -> Answers:  # noqa: ARG002
        model, encoder, longest = self._model, self._encoder, self._exported.max_length
        encoded = encoder.encode(work.texts)
        if self._exported.is_causal:
            found = causal_logprobs(model, encoder, encoded, longest, lambda _: None)  # type: ignore[arg-type]
        else:
            found = pseudo_logprobs(model, encoder, encoded, Method.ORIGINAL, longest, lambda _: None)
        counts = np.array([len(one.scored) for one in encoded])
        sums: Answers = np.add.reduceat(found.astype(np.float64), np.cumsum(counts) - counts)
        return sums
