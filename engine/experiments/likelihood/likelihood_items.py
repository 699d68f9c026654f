"""Items of `likelihood`: columns of tables and of the result files, minimal pairs, rows that cannot be scored.

A table has one sentence in each row; or a pair in each row, as BLiMP's files; or two rows are a pair: they share a
value, and another column says which of them is good. A word is what stands between two spaces, with its punctuation.

Two ways to compute the same sums in fp32 differ in the last digits, so log-likelihoods that differ by less than
`ROUNDING` are a tie. A tie is not correct: a model that cannot tell the sentences apart does not know the rule.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from ...inference.free_text import MASK
from ...inference.spans import Encoder, Sentence, behind
from ...requests.items import ALL
from ...text.spelling import trimmed
from ..labels import PAIR, WANTED
from ..own_table import FILE, NO, ROW, YES, OwnColumns, yes_or_no

GOOD, BAD = "good", "bad"
SIDES = (GOOD, BAD)
# What the column `--acceptable` can hold, in lower case, besides yes and no.
_WORDS = (("good", "acceptable", "grammatical"), ("bad", "unacceptable", "ungrammatical"))
SIDE = "side"
LIKELIHOOD, PER_TOKEN = "log_likelihood", "per_token"
CORRECT, CORRECT_PER_TOKEN, TIE = "correct", "correct_per_token", "tie"
VERDICTS = (CORRECT, CORRECT_PER_TOKEN, TIE)
TOKENS_FILE, WORDS_FILE = "tokens.parquet", "words.parquet"
SCORES = {
    LIKELIHOOD: pl.Float64(),  # sum over the scored tokens, natural logarithm; a masked model: pseudo-log-likelihood
    **dict.fromkeys(("tokens", "words", "characters"), pl.Int32()),  # scored tokens; characters with spaces
    **dict.fromkeys((PER_TOKEN, "per_word", "per_character"), pl.Float64()),
}
# The lists that a part has for each sentence: one row for each of their values in the file.
LISTS: Mapping[str, Mapping[str, pl.DataType]] = {
    TOKENS_FILE: {
        "tokens: number": pl.List(pl.Int32),
        "tokens: token": pl.List(pl.String),
        "tokens: word": pl.List(pl.Int32),
        "tokens: logprob": pl.List(pl.Float32),
    },
    WORDS_FILE: {
        "words: number": pl.List(pl.Int32),
        "words: word": pl.List(pl.String),
        "words: tokens": pl.List(pl.Int32),
        "words: logprob": pl.List(pl.Float64),
    },
}
MEANS = (LIKELIHOOD, PER_TOKEN, "per_word", "per_character")
RATES = {"accuracy": CORRECT, "accuracy_per_token": CORRECT_PER_TOKEN, "ties": TIE}
RESULTS = (ROW, FILE, SIDE, *SCORES, *VERDICTS, *(column for own in LISTS.values() for column in own))
"""A user's column of such a name is called `table_NAME`."""
ROUNDING = 1e-4  # natural logarithms
_OTHER = ": bad"
_KEPT = (LIKELIHOOD, PER_TOKEN, "tokens")
_ONE_WORD = r"^\s*\S*\s*$"
_LETTER = r"[\p{L}\p{N}]"  # \w has accents and joiners too, which some tokenizers drop


@dataclass(frozen=True)
class Columns(OwnColumns):
    """Columns of a table by their purpose."""

    sentence: str | None = None  # None where a row holds a pair
    good: str | None = None  # the better sentences of pairs; None where a row holds one sentence
    bad: str | None = None  # the other sentences of pairs
    pair: str | None = None  # what the two rows of a pair share; None where rows are not parts of pairs
    acceptable: str | None = None  # whether a row is the good one of its pair
    prefix: str | None = None  # what stands before the texts and is not scored; None where nothing does
    joiner: str | None = None  # what stands between prefix and text; None for the rule of `spelling`

    @property
    def texts(self) -> tuple[str, ...]:
        return (self.sentence,) if self.sentence else (str(self.good), str(self.bad))

    @property
    def needed(self) -> tuple[str, ...]:
        return self.texts if self.prefix is None else (*self.texts, self.prefix)

    def read(self, frame: pl.DataFrame) -> tuple[list[str], list[int]]:
        """The texts that a model reads, row by row, and how many of their first characters are given."""
        texts = [trimmed(text) for row in frame.select(self.texts).iter_rows() for text in row]
        if self.prefix is None:
            return texts, [0] * len(texts)
        before = [trimmed(text) for text in frame[self.prefix].to_list() for _ in self.texts]
        both = [behind(*own, self.joiner) for own in zip(before, texts, strict=True)]
        return [whole for whole, _ in both], [given for _, given in both]

    @property
    def has_pairs(self) -> bool:
        return self.sentence is None or self.pair is not None

    @property
    def condition(self) -> str:
        return "pairs" if self.has_pairs else "sentences"

    @property
    def metrics(self) -> dict[str, str]:
        return RATES if self.has_pairs else dict(zip(MEANS, MEANS, strict=True))

    @property
    def counts(self) -> pl.Expr:
        """Whether an item counts: every sentence, or the good one of each pair."""
        return pl.col(SIDE) == GOOD if self.has_pairs else pl.lit(value=True)

    def side(self) -> pl.Expr:
        """Which sentence of its pair a row with one sentence is: `good` or `bad`; null where it is not known."""
        is_good = yes_or_no(str(self.acceptable), *_WORDS)
        return pl.when(is_good).then(pl.lit(GOOD)).when(~is_good).then(pl.lit(BAD))

    def split_names(self) -> list[pl.Expr]:
        """One column of groups: the value alone. Several columns, or the value `ALL`: the column's name before it."""
        values = {name: pl.col(name).cast(pl.String) for name in self.groups}
        named = [pl.lit(f"{name}: ") + value for name, value in values.items()]
        if len(named) != 1:
            return named
        [value] = values.values()
        return [pl.when(value == ALL).then(named[0]).otherwise(value)]

    @property
    def shared(self) -> dict[str, str]:
        known = {self.pair: PAIR, self.acceptable: WANTED}
        return {name: purpose for name, purpose in known.items() if name is not None} | super().shared


def with_verdicts(items: pl.DataFrame) -> pl.DataFrame:
    """Judge pairs whose sentences are in one row of the table: each good sentence, then its bad one."""
    following = items.select(pl.col(name).shift(-1).alias(name + _OTHER) for name in _KEPT)
    return items.hstack(following).with_columns(_verdicts(pl.col(SIDE) == GOOD)).drop(following.columns)


def with_joined_verdicts(items: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """Judge pairs whose sentences are two rows of the table, in any order; other columns are not held in memory."""
    names = items.collect_schema().names()
    keys = [name for name in (FILE, columns.pair) if name is not None and name in names]
    bad = items.filter(pl.col(SIDE) == BAD).select(*keys, *_KEPT).collect(engine="streaming")
    bad = bad.rename({name: name + _OTHER for name in _KEPT}).unique(keys, keep="none")
    joined = items.join(bad.lazy(), on=keys, how="left", maintain_order="left")
    return joined.with_columns(_verdicts(pl.col(SIDE) == GOOD)).drop([name + _OTHER for name in _KEPT])


def _verdicts(counts: pl.Expr) -> list[pl.Expr]:
    difference, by_token = (pl.col(name) - pl.col(name + _OTHER) for name in (LIKELIHOOD, PER_TOKEN))
    fewer = pl.min_horizontal("tokens", "tokens" + _OTHER)  # what rounding moves is divided by the tokens, too
    return [
        pl.when(counts).then(difference > ROUNDING).alias(CORRECT),
        pl.when(counts).then(by_token > ROUNDING / fewer).alias(CORRECT_PER_TOKEN),
        pl.when(counts).then(difference.abs() <= ROUNDING).alias(TIE),
    ]


@dataclass(frozen=True)
class Faults:
    """Finds the rows of a table that cannot be scored; a `Check`."""

    columns: Columns
    encoder: Encoder
    longest: int | None  # tokens; None where longer sentences are read in windows

    def __call__(self, frame: pl.DataFrame) -> pl.Series:
        """Texts are tokenized only where their length or their characters leave it open."""
        reasons: list[str | None] = [None] * len(frame)
        texts, given = self.columns.read(frame)
        sides = self.columns.texts
        for side, column in reversed(list(enumerate(sides))):
            own = pl.DataFrame({column: texts[side :: len(sides)]}, schema={column: pl.String})
            for row in own.select(self._open(column)).to_series().arg_true().to_list():
                place = row * len(sides) + side
                [sentence] = self.encoder.encode([texts[place]], [given[place]])
                reasons[row] = self.of(texts[place], sentence, column) or reasons[row]
        if self.columns.pair is not None:
            for row, reason in enumerate(self._unpaired(frame)):
                reasons[row] = reasons[row] or reason
        return pl.Series("reason", reasons, pl.String)

    def of(self, text: str, sentence: Sentence, column: str) -> str | None:
        """What is wrong with one text; None if nothing is."""
        token = MASK if MASK in text else self.encoder.tokenizer.special_token_in([text])[0]
        if token is not None:
            return f"{column} holds the special token {token!r}; give a sentence in plain words"
        if not len(sentence.scored):
            if self.encoder.is_causal and len(sentence.ids):
                return f"{column} is one token, and nothing stands before it; give more words, or --bos"
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
        found = text.str.contains_any(self._special) | text.str.contains(_ONE_WORD) | ~text.str.contains(_LETTER)
        if self.longest is None:
            return found
        # A token covers at least one byte of the normalised text, or marks the start of a word. Normalisation can make
        # a text longer: some letters become whole words.
        longest = pl.max_horizontal(text.str.len_bytes(), text.str.normalize("NFKD").str.len_bytes())
        return found | (longest * 2 + self.encoder.tokenizer.n_special_tokens() + 1 > self.longest)

    def _unpaired(self, frame: pl.DataFrame) -> Iterable[str | None]:
        pair, side = str(self.columns.pair), self.columns.side()
        words = ", ".join(map("/".join, zip((*_WORDS[0], *YES), (*_WORDS[1], *NO), strict=True)))
        value = pl.col(str(self.columns.acceptable)).cast(pl.String).fill_null("empty")
        return frame.select(
            pl.when(pl.col(pair).is_null())
            .then(pl.lit(f"{pair} is empty; the two rows of a pair must share a value"))
            .when(side.is_null())
            .then(pl.lit(f"{self.columns.acceptable} is ") + value + f"; one of {words} is needed")
            .alias("reason")
        ).to_series()

    @cached_property
    def _special(self) -> list[str]:
        decoder = self.encoder.tokenizer.backend.get_added_tokens_decoder().values()
        return [MASK, *(token.content for token in decoder if token.special)]
