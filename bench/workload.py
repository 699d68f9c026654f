"""The same sentences for all systems: random candidates of the main job, as texts and as token ids."""

from dataclasses import dataclass

import numpy as np

from ..engine.inference.exported import ExportedModel
from ..engine.negation.select import Selection, Settings
from ..engine.sentences.lexicon import load_lexicon
from ..engine.sentences.patterns import load_patterns
from ..engine.sentences.slots import VERB
from ..engine.sentences.spans import Bucket, EncodedSentences


@dataclass(frozen=True, eq=False)
class Workload:
    """Sentences of the selecting pattern.

    Attributes:
        selection: The run that they are candidates of.
        texts: n sentences.
        sentences: The same as ids, grouped by length.
    """

    selection: Selection
    texts: tuple[str, ...]
    sentences: EncodedSentences

    def __len__(self) -> int:
        return len(self.texts)

    def head(self, n: int) -> "Workload":
        """The first n of them."""
        buckets = []
        for bucket in self.sentences.buckets:
            own = bucket.rows < n
            if own.any():
                ids = np.ascontiguousarray(bucket.ids[own])
                buckets.append(Bucket(bucket.rows[own], ids, bucket.mask_position[own]))
        return Workload(self.selection, self.texts[:n], EncodedSentences(buckets, self.sentences.expected[:n]))

    @property
    def length(self) -> float:
        """Mean number of tokens."""
        return sum(bucket.ids.size for bucket in self.sentences.buckets) / len(self)


def workload(exported: ExportedModel, n: int, seed: int = 0) -> Workload:
    """Draw n candidates."""
    selection = Selection.plan(exported, load_lexicon(), load_patterns(), Settings(seed=seed))
    name, profession, verb = selection.grid.locate(selection.sample_indices(n))
    pattern, verbs = selection.patterns.selecting, selection.lexicon.verbs

    def text(i: int, j: int, k: int) -> str:
        words = {slot: filler.words[filler.index[i, j]] for slot, filler in selection.fillers.items()}
        return pattern.text({**words, VERB: verbs[selection.verb[k]]}, exported.mask_token)

    texts = tuple(text(*where) for where in zip(name, profession, verb, strict=True))
    return Workload(selection, texts, selection.sample(n))
