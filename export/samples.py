"""The inputs on which an export is measured and compared: token ids of real sentences and strings of random tokens.

Besides sentences of the real patterns there are strings of random tokens from the shortest to the longest input that
the export takes, because a graph can be right for short sentences only: a mask of a window, a table of positions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..engine.text.lexicon import load_lexicon
from ..engine.text.pattern_files import load_patterns
from .observe import Feeds

USUAL = 512  # tokens; of longer inputs the values are compared with PyTorch, and not measured
_SENTENCES_PER_PATTERN = 20
_AT_ONCE = 16  # samples of one length in a batch


@dataclass(frozen=True, eq=False)
class Sample:
    """One input of a model.

    Attributes:
        ids: token ids int32 [L] with special tokens.
        position: where the mask is; None for a model that gives one row of logits for its whole input, or one for each
            token.
        segments: int32 [L], 0 for a first text and 1 for a second one; None where the model takes none.
    """

    ids: NDArray[np.int32]
    position: int | None = None
    segments: NDArray[np.int32] | None = None


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples of one length: their numbers in the whole, and their inputs to a finished graph."""

    rows: list[int]
    feeds: Feeds


def pattern_texts(mask_token: str) -> Iterator[str]:
    """Sentences of all bundled patterns, with fillers spread over the lists.

    Args:
        mask_token: as the model writes it.
    """
    lexicon = load_lexicon()
    for pattern in load_patterns().all:
        for i in range(_SENTENCES_PER_PATTERN):
            name = i * len(lexicon.names) // _SENTENCES_PER_PATTERN
            fillers = {
                "NAME": lexicon.names[name],
                "PROF": lexicon.professions[(7 * i) % len(lexicon.professions)],
                "ACT": lexicon.verbs[(37 * i) % len(lexicon.verbs)],
                "PRON": lexicon.pronouns[lexicon.genders[name]],
            }
            yield pattern.text(fillers, mask_token)


def random_strings(tokens: Sequence[int], longest: int, seed: int = 0) -> Iterator[tuple[NDArray[np.int32], int]]:
    """A string of random tokens of those given, for each of several lengths up to the longest, and a position in it."""
    random = np.random.default_rng(seed)
    for length in sorted({3, 17, 64, 150, min(longest, USUAL), longest}):
        if length <= longest:
            ids = random.choice(np.array(tokens, np.int32), length)
            yield ids, int(random.integers(length))


def batches(samples: Sequence[Sample]) -> list[Batch]:
    """The samples as inputs of a finished graph, in batches of one length."""
    by_length: dict[int, list[int]] = {}
    for row, sample in enumerate(samples):
        by_length.setdefault(len(sample.ids), []).append(row)
    groups = [rows[i : i + _AT_ONCE] for _, rows in sorted(by_length.items()) for i in range(0, len(rows), _AT_ONCE)]
    return [Batch(rows, _feeds([samples[row] for row in rows])) for rows in groups]


def _feeds(samples: Sequence[Sample]) -> Feeds:
    feeds = {
        "input_ids": np.stack([sample.ids for sample in samples]),
        "mask_position": np.array([sample.position or 0 for sample in samples], np.int32),
        "expected_id": np.zeros(len(samples), np.int32),
    }
    segments = [sample.segments for sample in samples if sample.segments is not None]
    return feeds | ({"token_type_ids": np.stack(segments)} if segments else {})
