"""The same sentences for everybody: random candidates of the main job, as texts and as token ids."""

from dataclasses import dataclass

import numpy as np

from ..engine.inference.exported import ExportedModel
from ..engine.negation import select
from ..engine.sentences.lexicon import load_lexicon
from ..engine.sentences.patterns import load_patterns
from ..engine.sentences.slots import VERB
from ..engine.sentences.spans import Sentences, Slice


@dataclass(frozen=True, eq=False)
class Workload:
    """Sentences of the selecting pattern.

    Attributes:
        selection: the run that they are candidates of.
        texts: n sentences.
        sentences: the same as ids, grouped by length.
    """

    selection: select.Selection
    texts: tuple[str, ...]
    sentences: Sentences

    def __len__(self) -> int:
        return len(self.texts)

    def head(self, n: int) -> "Workload":
        """The first n of them."""
        slices = []
        for piece in self.sentences.slices:
            own = piece.rows < n
            if own.any():
                slices.append(Slice(piece.rows[own], np.ascontiguousarray(piece.ids[own]), piece.mask_position[own]))
        return Workload(self.selection, self.texts[:n], Sentences(slices, self.sentences.expected[:n]))

    @property
    def length(self) -> float:
        """Mean number of tokens."""
        return sum(piece.ids.size for piece in self.sentences.slices) / len(self)


def workload(exported: ExportedModel, n: int, seed: int = 0) -> Workload:
    """Draw n candidates."""
    selection = select.plan(exported, load_lexicon(), load_patterns(), select.Settings(seed=seed))
    sentences = select.sample(selection, n)
    name, profession, verb = selection.grid.locate(select.sample_indices(selection, n))
    lexicon, pattern = selection.lexicon, selection.patterns.selecting
    mask = exported.mask_token
    texts = tuple(
        pattern.text(
            {
                VERB: lexicon.verbs[selection.verb[k]],
                **{slot: fillers.word(i, j) for slot, fillers in selection.fillers.items()},
            },
            mask,
        )
        for i, j, k in zip(name, profession, verb, strict=True)
    )
    return Workload(selection, texts, sentences)
