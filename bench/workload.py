"""The sentences of the main job, the same for all systems: random candidates, as texts and as token ids."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..engine.experiments.negation.select import Selection, Settings
from ..engine.inference.exported import ExportedModel
from ..engine.text.lexicon import load_lexicon
from ..engine.text.pattern import VERB
from ..engine.text.pattern_files import load_patterns
from ..engine.text.token_ids import Bucket, EncodedSentences

Ids = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences with one mask each."""

    texts: tuple[str, ...]  # n sentences
    encoded: EncodedSentences  # the same as ids, grouped by length, with the tokens that are expected

    def __len__(self) -> int:
        return len(self.texts)

    def head(self, n: int) -> "Sentences":
        buckets = []
        for bucket in self.encoded.buckets:
            own = bucket.rows < n
            if own.any():
                ids = np.ascontiguousarray(bucket.ids[own])
                buckets.append(Bucket(bucket.rows[own], ids, bucket.mask_position[own]))
        return Sentences(self.texts[:n], EncodedSentences(buckets, self.encoded.expected[:n]))

    @property
    def length(self) -> float:
        """Mean number of tokens."""
        return sum(bucket.ids.size for bucket in self.encoded.buckets) / len(self)

    def batches(self, size: int) -> Iterator[tuple[NDArray[np.int64], Ids, Ids]]:
        """Rows, ids and mask positions of batches of one length."""
        for bucket in self.encoded.buckets:
            for start in range(0, len(bucket.rows), size):
                part = slice(start, start + size)
                yield bucket.rows[part], bucket.ids[part], bucket.mask_position[part]


def main_job(exported: ExportedModel, seed: int = 0) -> Selection:
    """The selection that the sentences are candidates of."""
    return Selection.plan(exported, load_lexicon(), load_patterns(), Settings(seed=seed))


def candidates(selection: Selection, n: int) -> Sentences:
    """Draw n sentences of the selecting pattern."""
    name, profession, verb = selection.verbs[0].grid.locate(selection.sample_indices(n))
    pattern, verbs, mask = selection.patterns.selecting, selection.lexicon.verbs, selection.exported.mask_token

    def text(i: int, j: int, k: int) -> str:
        words = {slot: filler.words[filler.index[i, j]] for slot, filler in selection.fillers.items()}
        return pattern.text({**words, VERB: verbs[selection.verbs[0].index[k]]}, mask)

    texts = tuple(text(*where) for where in zip(name, profession, verb, strict=True))
    return Sentences(texts, selection.sample(n))
