"""The masked copies of sentences whose answers are pseudo-log-likelihoods, made batch by batch.

    original          each token is masked alone, and its probability given all others is asked for (Salazar, Liang,
                      Nguyen and Kirchhoff 2020, "Masked Language Model Scoring", section 2)
    within-word-l2r   with a token, those after it in the same word are masked, too: otherwise the pieces of a long
                      word give each other away (Kauf and Ivanova 2023, "A Better Way to Do Masked Language Model
                      Scoring", section 2)

The sum of the log-probabilities is the pseudo-log-likelihood of the sentence. Only the row of the mask is computed in
the last layer and in the vocabulary projection, and rows of one length need no padding. So a copy costs what a sentence
of the main job costs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .choices import Method
from .encoding import Group, Ids


@dataclass(frozen=True, eq=False)
class Queries:
    """Masked copies of one length.

    Attributes:
        ids: int32 [q, L].
        position: int32 [q], of the mask that is asked for.
        expected: int32 [q], the token that stands there in the sentence.
        slot: int64 [q], where its log-probability belongs.
    """

    ids: Ids
    position: Ids
    expected: Ids
    slot: NDArray[np.int64]


def queries(group: Group, method: Method, mask_id: int, at_once: int) -> Iterator[Queries]:
    """The masked copies of some rows.

    Args:
        group: The rows.
        method: Which tokens are masked together.
        mask_id: The model's mask.
        at_once: The largest number of copies in memory.
    """
    owners, positions = np.nonzero(group.slot >= 0)
    columns = np.arange(group.ids.shape[1])
    for start in range(0, len(owners), at_once):
        owner, position = owners[start : start + at_once], positions[start : start + at_once]
        ids, every = group.ids[owner], np.arange(len(owner))
        expected = ids[every, position]
        if method is Method.WITHIN_WORD:
            word = group.word[owner]
            own = word[every, position][:, None]
            ids[(word == own) & (own >= 0) & (columns > position[:, None])] = mask_id
        ids[every, position] = mask_id
        yield Queries(ids, position.astype(np.int32), expected, group.slot[owner, position])
