"""A cue as it is marked in a sentence: which words it has, and which part of each word."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .word_list import Kind


@dataclass(frozen=True)
class MarkedCue:
    """One cue of a sentence. Two cues are equal if both the words and their parts are, as the shared task demands.

    Attributes:
        words: The positions of its words in the sentence, ascending; they need not follow each other.
        parts: Of each of these words the part that is the cue: the whole word, or an affix of it.
        kind: A single word, several words, or an affix.
    """

    words: tuple[int, ...]
    parts: tuple[str, ...]
    kind: Kind

    @classmethod
    def of(cls, sentence: Sequence[str], words: Iterable[int], parts: Iterable[str] | None = None) -> "MarkedCue":
        """A cue of a sentence.

        Args:
            sentence: Its words.
            words: The positions of the cue's words.
            parts: The part of each word; by default the whole words.
        """
        places = tuple(words)
        taken = tuple(parts) if parts is not None else tuple(sentence[place] for place in places)
        is_whole = taken == tuple(sentence[place] for place in places)
        kind = Kind.PHRASE if len(places) > 1 else Kind.PARTICLE if is_whole else Kind.AFFIX
        return cls(places, taken, kind)

    def name(self, sentence: Sequence[str]) -> str:
        """What tables call it, in lower case: `not`, `neither nor`, `un-`, `-less`."""
        text = " ".join(self.parts).lower()
        if self.kind is not Kind.AFFIX:
            return text
        return f"{text}-" if sentence[self.words[0]].lower().startswith(text) else f"-{text}"
