"""The share of sentences in a text that contain a negation cue (Table 1 of the NLI paper)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from ...errors import InputError
from ...library.shown import Shown
from ...text.text_lines import stream_lines
from ...views import Column, Table
from .sentences import split_sentences
from .word_list import Kind, find_cues


@dataclass(frozen=True)
class CueShare:
    """How common negation is in a text file.

    Attributes:
        path: The file.
        sentences: How many sentences it has.
        negated: How many of them hold at least one cue.
        by_kind: Kind → how many hold at least one cue of that kind.
        cues: Cue → how often it occurs, the most frequent first.
    """

    path: Path
    sentences: int
    negated: int
    by_kind: dict[Kind, int]
    cues: dict[str, int]

    @property
    def share(self) -> float:
        """The fraction of sentences with a cue: Table 1."""
        return self.negated / self.sentences


@dataclass(frozen=True, eq=False)
class CueShares(Shown):
    """How common negation is in several text files."""

    shares: tuple[CueShare, ...]

    @classmethod
    def of(cls, files: Sequence[Path]) -> "CueShares":
        """Count the sentences of text files.

        Raises:
            InputError: As for `cue_share`.
        """
        return cls(tuple(cue_share(path) for path in files))

    def tables(self) -> list[Table]:
        """Texts in the layout of Table 1: sentences, the share with a cue, and the shares of the kinds of cue.

        The frame has the columns text, sentences, negated, share, and the share of each kind; shares are fractions.
        """
        rows = [
            {
                "text": str(share.path),
                "sentences": share.sentences,
                "negated": share.negated,
                "share": share.share,
                **{str(kind): share.by_kind[kind] / share.sentences for kind in Kind},
            }
            for share in self.shares
        ]
        counts = {"text": pl.String, "sentences": pl.Int64, "negated": pl.Int64}
        table = Table(
            title="Sentences with a negation cue",
            frame=pl.DataFrame(rows, schema=counts | dict.fromkeys(("share", *map(str, Kind)), pl.Float64)),
            columns=[
                Column("text", "text"),
                Column("sentences", "sentences"),
                Column("with a cue", "negated"),
                *(Column(f"{name}, %", name, decimals=2, scale=100, unit="%") for name in ("share", *map(str, Kind))),
            ],
        )
        return [table]

    def document(self) -> list[dict[str, Any]]:
        """See `Shown`."""
        return [
            {
                "file": str(share.path),
                "share": share.share,
                "sentences": share.sentences,
                "negated": share.negated,
                "by_kind": {str(kind): count for kind, count in share.by_kind.items()},
                "cues": share.cues,
            }
            for share in self.shares
        ]


def cue_share(path: Path) -> CueShare:
    """Count the sentences of a UTF-8 text file (also `.gz`) that hold a negation cue.

    A line break ends a sentence; within a line, sentences are split by `split_sentences`.

    Raises:
        InputError: The file cannot be read, is not UTF-8 text, or holds no sentence.
    """
    sentences = negated = 0
    kinds: Counter[Kind] = Counter()
    words: Counter[str] = Counter()
    for line, _ in stream_lines(path, "give a text file"):
        for sentence in split_sentences(line):
            cues = find_cues(sentence)
            sentences += 1
            negated += bool(cues)
            kinds.update({cue.kind for cue in cues})
            words.update(cue.word for cue in cues)
    if not sentences:
        raise InputError(f"{path}:1: no sentence in this file; give a text with one sentence or paragraph per line")
    by_kind = {kind: kinds[kind] for kind in Kind}
    return CueShare(
        path, sentences, negated, by_kind, dict(sorted(words.items(), key=lambda item: (-item[1], item[0])))
    )
