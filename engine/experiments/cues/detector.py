"""A trained cue detector: an exported token classifier with the labels of `labels`."""

from collections.abc import Sequence

import numpy as np

from ...errors import InputError
from ...inference.batches import Advance, ignored
from ...inference.classifier import TokenClassifier
from ...inference.device import CPU, Device
from ...inference.exported import ExportedModel
from .encoding import NO_TOKEN, Window, WordEncoder
from .labels import LABELS, OUTSIDE, cues_of
from .marked import MarkedCue


def encoder_of(exported: ExportedModel) -> WordEncoder:
    """The encoder of a detector.

    Raises:
        InputError: The model's labels are not those of a cue detector, or its tokenizer is damaged.
    """
    names = tuple(exported.info["labels"])
    if sorted(names) != sorted(LABELS):
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise InputError(
            f"{exported.folder}: its labels are {shown}; a cue detector has {', '.join(LABELS)} "
            "(`negengine cues train` makes one)"
        )
    return WordEncoder.of(exported.folder, exported.max_length)


class CueDetector:
    """A detector on a device.

    Args:
        exported: The model, exported for token-classification.
        device: Where it runs.
        batch_tokens: The largest number of tokens in a batch.
        threads: Batches that run at the same time on the CPU.

    Raises:
        InputError: As for `encoder_of` and `TokenClassifier`.
    """

    def __init__(
        self,
        exported: ExportedModel,
        device: Device = CPU,
        *,
        batch_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.encoder = encoder_of(exported)
        self.model = TokenClassifier(exported, device, batch_tokens=batch_tokens, threads=threads)
        self._names = np.array(exported.info["labels"], object)

    def find(self, sentences: Sequence[Sequence[str]]) -> list[list[MarkedCue]]:
        """The cues of sentences, given as words."""
        return self.find_in(sentences, self.encoder.encode(sentences))

    def find_in(
        self, sentences: Sequence[Sequence[str]], encoded: Sequence[Sequence[Window]], advance: Advance = ignored
    ) -> list[list[MarkedCue]]:
        """The cues of sentences that are encoded already.

        Args:
            sentences: The words of each sentence.
            encoded: From `encoder`.
            advance: Called after each batch with its number of windows; several threads may call it.
        """
        windows = [window for own in encoded for window in own]
        labels = iter(self.model.labels([window.ids for window in windows], advance))
        found = []
        for words, own in zip(sentences, encoded, strict=True):
            named: list[str] = []
            for window in own:
                of_tokens = self._names[next(labels)]
                named += [OUTSIDE if at == NO_TOKEN else str(of_tokens[at]) for at in window.first.tolist()]
            found.append([] if all(name == OUTSIDE for name in named) else cues_of(words, named))
        return found
