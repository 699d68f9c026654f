"""A trained cue detector: an exported token classifier, and the pieces of words that it reads.

It labels tokens; a word has the label of its first one, as in training. Words are joined by single spaces.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from ...basics.errors import InputError
from ...inference.batches import Advance, ignored
from ...inference.classifier import TokenClassifier
from ...inference.devices.cpu import CPU
from ...inference.exported import ExportedModel
from ...inference.session import Device
from ...text.tokenizer import load_tokenizer
from .cue_words import LABELS, OUTSIDE, MarkedCue, cues_of

LONGEST_WORD = 64  # characters of a word that a detector reads: longer ones are addresses and the like
NO_TOKEN = -1  # position of a word that has no token


@dataclass(frozen=True, eq=False)
class Window:
    """A sentence as a model reads it, or a piece of a sentence that is too long for the model."""

    ids: NDArray[np.int32]  # [L], special tokens included
    first: NDArray[np.int64]  # [words], the position of each word's first token; `NO_TOKEN` where it has none


class WordEncoder:
    """Makes windows of words. The tokenizer is changed, so that a text cannot hold a special token."""

    def __init__(self, tokenizer: Tokenizer, longest: int) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self._longest = longest
        special = [number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special]
        name = getattr(tokenizer.model, "unk_token", None) or "<unk>"  # Unigram does not tell its own
        self._unknown = tokenizer.token_to_id(name)
        self._special = np.array([number for number in special if number != self._unknown], np.int32)

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[list[Window]]:
        """For each sentence its windows from left to right: one, unless it is longer than the model takes."""
        shortened = [[word[:LONGEST_WORD] for word in words] for words in sentences]
        encodings = self._tokenizer.encode_batch([" ".join(words) for words in shortened])
        return [list(self._windows(words, own)) for words, own in zip(shortened, encodings, strict=True)]

    def _windows(self, words: list[str], encoding: Encoding) -> Iterable[Window]:
        if len(encoding.ids) <= self._longest:
            yield self._window(words, encoding)
            return
        middle = len(words) // 2
        # A word of more tokens than any window has: its beginning.
        halves = [[words[0][: len(words[0]) // 2]]] if len(words) == 1 else [words[:middle], words[middle:]]
        for half in halves:
            yield from self._windows(half, self._tokenizer.encode(" ".join(half)))

    def _window(self, words: Sequence[str], encoding: Encoding) -> Window:
        starts, start = [], 0
        for word in words:
            starts.append(start)
            start += len(word) + 1
        first = np.full(len(words), NO_TOKEN, np.int64)
        ids, inside = np.array(encoding.ids, np.int32), np.array(encoding.special_tokens_mask) == 0
        for position, (begin, end) in enumerate(encoding.offsets):
            if not inside[position] or end <= begin:
                continue
            # The last character: some tokenizers count the space before a word as a part of its first token.
            place = bisect_right(starts, end - 1) - 1
            if end - 1 < starts[place] + len(words[place]) and first[place] == NO_TOKEN:
                first[place] = position
        if self._unknown is not None:  # the model of a tokenizer may know a special token as ordinary text
            ids[inside & np.isin(ids, self._special)] = self._unknown
        return Window(ids, first)


def encoder_of(exported: ExportedModel) -> WordEncoder:
    """The encoder of a detector; an `InputError` if the model has other labels, or its tokenizer is damaged."""
    names = tuple(exported.info["labels"])
    if sorted(names) != sorted(LABELS):
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise InputError(
            f"{exported.folder}: its labels are {shown}; a cue detector has {', '.join(LABELS)} "
            "(`negengine cues train` makes one)"
        )
    return WordEncoder(load_tokenizer(exported.folder), exported.max_length)


class CueDetector:
    """A detector on a device; `threads` batches run at the same time on the CPU. Errors: as for `encoder_of`."""

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
        return self.find_in(sentences, self.encoder.encode(sentences))

    def find_in(
        self, sentences: Sequence[Sequence[str]], encoded: Sequence[Sequence[Window]], advance: Advance = ignored
    ) -> list[list[MarkedCue]]:
        """The cues of encoded sentences; threads call `advance` after each batch with its number of windows."""
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
