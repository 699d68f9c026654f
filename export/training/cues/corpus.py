"""The sentences that a detector learns from, those that it is scored on after each epoch, and those of the test."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from ....engine.datasets.sources import find
from ....engine.errors import InputError
from ....engine.experiments.cues.cd_sco import DATA, TEST_FILES, TRAIN_FILES
from ....engine.experiments.cues.columns import MarkedSentence, read_columns
from ....engine.experiments.cues.labels import labels_of

DEV_SHARE = 0.15
"""Of the sentences, where no dev file is given: appendix A of the paper."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """Marked sentences in three parts.

    Attributes:
        train: To learn from.
        dev: To score after each epoch.
        test: To evaluate on; empty if there is no such file.
    """

    train: Sequence[MarkedSentence]
    dev: Sequence[MarkedSentence]
    test: Sequence[MarkedSentence]

    @classmethod
    def read(
        cls,
        files: Sequence[Path],
        dev: Sequence[Path],
        test: Sequence[Path],
        *,
        seed: int,
        limit: int | None = None,
        data: Path | None = None,
    ) -> "Corpus":
        """Read a corpus in the columns of CD-SCO.

        Args:
            files: To learn from; by default CD-SCO, as `data get cd-sco` has fetched it: its training and development
                files together, as in the paper, and its two test files.
            dev: To score after each epoch; by default a random part of the other sentences.
            test: To evaluate on.
            seed: Of the random parts.
            limit: Learn from so many sentences at most.
            data: The folder of CD-SCO, if it is elsewhere.

        Raises:
            InputError: A file is missing or bad; there is no cue to learn, or none to score.
        """
        if not files:
            folder = find(DATA, data)
            files = [folder / name for name in TRAIN_FILES]
            test = test or [folder / name for name in TEST_FILES]
        learned, scored = _read(files), _read(dev)
        order = np.random.default_rng(seed).permutation(len(learned)).tolist()
        if not scored:
            several = max(1, round(DEV_SHARE * len(learned)))
            scored = [learned[i] for i in sorted(order[:several])]
            order = order[several:]
        taken = sorted(order if limit is None else order[:limit])
        corpus = cls([learned[i] for i in taken], scored, _read(test))
        for part, sentences, given in (("train", corpus.train, files), ("dev", corpus.dev, dev or files)):
            if not any(sentence.cues for sentence in sentences):
                names = ", ".join(map(str, given))
                raise InputError(
                    f"{names}: no cue in the {len(sentences):,} sentences of the {part} part; give more files"
                )
        return corpus

    @property
    def identity(self) -> dict[str, str]:
        """Digests of what is learned and what is scored."""
        return {"train sha256": _digest(self.train), "dev sha256": _digest(self.dev)}

    def lost(self) -> list[str]:
        """The cues of the train part that labels cannot express, with their places: they are not learned."""
        return [
            f"{sentence.location}: {cue.name(sentence.words)}"
            for sentence in self.train
            for cue in labels_of(sentence.words, sentence.cues)[1]
        ]


def _read(files: Sequence[Path]) -> list[MarkedSentence]:
    return [sentence for path in files for sentence in read_columns(path)]


def _digest(sentences: Sequence[MarkedSentence]) -> str:
    content = [(sentence.words, [(cue.words, cue.parts) for cue in sentence.cues]) for sentence in sentences]
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()
