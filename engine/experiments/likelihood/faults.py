"""Rows that cannot be scored, and why."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from .columns import Columns, side_words
from .encoding import Encoder, Sentence

_ONE_WORD = r"^\s*\S*\s*$"


@dataclass(frozen=True)
class Faults:
    """Finds the rows of a table that cannot be scored.

    Attributes:
        columns: What its columns are for.
        encoder: Makes sentences of texts.
        longest: The largest number of tokens that the model takes; None where longer sentences are read in windows.
    """

    columns: Columns
    encoder: Encoder
    longest: int | None

    def __call__(self, frame: pl.DataFrame) -> pl.Series:
        """See `stimuli.Check`. Texts are tokenized only where their length or their characters leave it open."""
        reasons: list[str | None] = [None] * len(frame)
        for column in reversed(self.columns.texts):
            for row in frame.select(self._open(column)).to_series().arg_true().to_list():
                [sentence] = self.encoder.encode([text := frame[column][row]])
                reasons[row] = self.of(text, sentence, column) or reasons[row]
        if self.columns.pair is not None:
            for row, reason in enumerate(self._unpaired(frame)):
                reasons[row] = reasons[row] or reason
        return pl.Series("reason", reasons, pl.String)

    def of(self, text: str, sentence: Sentence, column: str) -> str | None:
        """What is wrong with one text; None if nothing is.

        Args:
            text: The text.
            sentence: Its tokens.
            column: Where it stands.
        """
        if (token := self.encoder.tokenizer.special_token_in([text])[0]) is not None:
            return f"{column} holds the special token {token!r}; give a sentence in plain words"
        if not len(sentence.scored):
            if self.encoder.is_causal and len(sentence.ids):
                remedy = "give more words, or export the model with --bos"
                return f"{column} is one token, and nothing stands before it; {remedy}"
            return f"{column} has no token; a text is needed"
        if self.longest is not None and len(sentence.ids) > self.longest:
            return (
                f"{column} has {len(sentence.ids):,} tokens, the model takes {self.longest:,}: shorten it, or give "
                "--windows"
            )
        return None

    def _open(self, column: str) -> pl.Expr:
        """Where a text must be tokenized to know whether it can be scored."""
        text = pl.col(column)
        found = text.str.contains_any(self._special) | text.str.contains(_ONE_WORD) | ~text.str.contains(r"\w")
        if self.longest is None:
            return found
        # A token covers at least one byte of the normalised text, or marks the start of a word. Normalisation can make
        # a text longer, so texts from a third of the length on are tokenized.
        return found | (text.str.len_bytes() * 2 + self.encoder.tokenizer.n_special_tokens() + 1 > self.longest)

    def _unpaired(self, frame: pl.DataFrame) -> Iterable[str | None]:
        pair, side = str(self.columns.pair), self.columns.side()
        words = f"{self.columns.acceptable} is {{}}; one of {side_words()} is needed"
        value = pl.col(str(self.columns.acceptable)).cast(pl.String).fill_null("empty")
        return frame.select(
            pl.when(pl.col(pair).is_null())
            .then(pl.lit(f"{pair} is empty; the two rows of a pair must share a value"))
            .when(side.is_null())
            .then(pl.format(words, value))
            .alias("reason")
        ).to_series()

    @cached_property
    def _special(self) -> list[str]:
        decoder = self.encoder.tokenizer.backend.get_added_tokens_decoder().values()
        return [token.content for token in decoder if token.special]
