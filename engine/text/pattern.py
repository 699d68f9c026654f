"""Sentences with slots, one of them for the mask, as values; and their texts as expressions over a table of words."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

import msgspec
import polars as pl
import regex as re  # its \w holds the marks on letters

from ..basics.choices import Coreference
from ..basics.errors import InputError
from .agreement import Capitals, Elision, begins, between, title

NAME, PROFESSION, VERB, PRONOUN, MASK = "NAME", "PROF", "ACT", "PRON", "MASK"

_COLUMNS = {NAME: "name", PROFESSION: "profession", VERB: "verb", PRONOUN: "pronoun"}
WORD_SLOTS = tuple(_COLUMNS)  # every lexicon has words for them
SLOTS = (*WORD_SLOTS, MASK)  # what a pattern may have in braces with every lexicon
SLOT_NAME = re.compile(r"[A-Z][A-Z0-9]*")  # of a further slot of a lexicon
ACT_SLOTS = (VERB, "ACT1", "ACT2")  # of pattern sets that a model fills with its own words
AT_MASK = "verb_at_mask"  # column of a table of triplets: lists of the forms at the mask, where verbs have others


def column(slot: str) -> str:
    """The column of a table of triplets that holds a slot's words: `name` for NAME, `city` for CITY."""
    return _COLUMNS.get(slot, slot.lower())


class PublishedColumn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column of a paper's table: a model, and whom the target sentence is about."""

    # Names on the Hugging Face hub, the one that the paper uses first.
    models: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    # Pattern → 100 − repetition rate, in percentage points.
    drops: dict[str, Annotated[float, msgspec.Meta(ge=0, le=100)]] = {}
    coreference: Coreference = Coreference.PRONOUN
    triplets: Annotated[int, msgspec.Meta(ge=0)] | None = None  # how many were selected; None where it is not printed
    # The keys are those of selection.json: verbs, pairs, tested, repeating, ratio (percent), selected.
    selection: dict[str, Annotated[float, msgspec.Meta(ge=0)]] = {}
    source: str = ""  # where it is printed, such as "Table 6"
    doubts: tuple[str, ...] = ()


SLOT = re.compile(r"\{(\w+)\}")
_LAST_WORD = re.compile(r"(?<![\w'’-])(\w+) \Z")
_GOES_ON = tuple(",;:，；：、–—-")  # behind such a mark the sentence goes on


class Role(StrEnum):
    """What a pattern is for (sections 3.1 to 3.3 of the paper)."""

    SELECTING = "selecting"  # the triplets whose verb is repeated in it make the test set
    FORBIDDEN = "forbidden"  # its negation rules the repetition out
    CONTROL = "control"  # repetition stays natural in it


@dataclass(frozen=True)
class Hole:
    """One occurrence of a slot in a sentence."""

    slot: str
    starts_sentence: bool
    # The rule for the word before, where it has another form before some fillers: the hole takes its place, too.
    elision: Elision | None = None
    capital: bool = False
    capitals: Capitals = ()  # the language's own rule for first letters

    def spell(self, filler: str) -> str:
        """The filler as it stands here: after the right form of the word before; with a capital at a start."""
        if self.elision is not None:
            return self.elision.spell(filler, capital=self.capital)
        return title(filler, self.capitals) if self.starts_sentence else filler


@dataclass(frozen=True)
class Pattern:
    """A context and a target sentence with slots in braces; exactly one {MASK}."""

    name: str
    context: str
    target: str = ""  # the second sentence; empty if there is none
    role: Role = Role.CONTROL
    # The language's rules for words before a filler. The word before {MASK} never changes: the model is asked for any
    # word there.
    elisions: tuple[Elision, ...] = ()
    capitals: Capitals = ()  # the language's rule for first letters, where it is not that of Unicode
    between: str | None = None  # what stands between context and target; None for what the script says

    @property
    def sentence(self) -> str:
        return (self._space if self.context and self.target else "").join((self.context, self.target))

    @property
    def _space(self) -> str:
        return between(self.context, self.target) if self.between is None else self.between

    @property
    def slots(self) -> tuple[str, ...]:  # the slots that take a filler, in order of appearance
        return tuple(dict.fromkeys(hole.slot for hole in self.holes if hole.slot != MASK))

    @property
    def mask(self) -> Hole:
        [hole] = (hole for hole in self.holes if hole.slot == MASK)
        return hole

    @property
    def holes(self) -> tuple[Hole, ...]:
        return tuple(hole for hole, _, _ in self._placed)

    @cached_property
    def pieces(self) -> tuple[str, ...]:
        """The text before, between and after the holes: one piece more than there are holes."""
        ends = [0, *(end for _, _, end in self._placed)]
        starts = [*(start for _, start, _ in self._placed), len(self.sentence)]
        return tuple(self.sentence[end:start] for end, start in zip(ends, starts, strict=True))

    @cached_property
    def _placed(self) -> tuple[tuple[Hole, int, int], ...]:  # each hole, and where it begins and ends
        rules = {rule.word: rule for rule in self.elisions}
        target = len(self.sentence) - len(self.target)
        found = []
        for match in SLOT.finditer(self.sentence):
            start = match.start()
            is_target = start == target and not self.context.rstrip().endswith(_GOES_ON)
            starts = is_target or begins(SLOT.sub("xxx", self.sentence[:start]))
            word = None if starts or match[1] == MASK else _LAST_WORD.search(self.sentence[:start])
            rule = rules.get(word[1].lower()) if word else None
            if word is None or rule is None:
                found.append((Hole(match[1], starts, capitals=self.capitals), start, match.end()))
            else:
                found.append((Hole(match[1], starts, rule, word[1][0].isupper()), word.start(), match.end()))
        return tuple(found)

    def fill(self, words: Sequence[str]) -> str:
        first, *rest = self.pieces
        return first + "".join(word + piece for word, piece in zip(words, rest, strict=True))

    def text(self, fillers: Mapping[str, str], mask: str) -> str:
        """The sentence with its slots filled; a filler at the start of a sentence gets a capital."""
        return self.fill([mask if hole.slot == MASK else hole.spell(fillers[hole.slot]) for hole in self.holes])


@dataclass(frozen=True)
class PatternSet:
    """One pattern that selects triplets, and those that they are scored in."""

    name: str
    selecting: Pattern
    scored: tuple[Pattern, ...]
    published: tuple[PublishedColumn, ...] = ()  # what papers print, shown beside our figures; no result depends on it
    # Whether it comes with the program. run.json does not keep its published figures then, so that a corrected figure
    # reaches earlier runs.
    bundled: bool = False

    @property
    def all(self) -> tuple[Pattern, ...]:
        return (self.selecting, *self.scored)

    @property
    def slots(self) -> tuple[str, ...]:  # the slots of all patterns that take a filler, in order of appearance
        return tuple(dict.fromkeys(slot for pattern in self.all for slot in pattern.slots))

    @property
    def sha256(self) -> str:  # hexadecimal digest of the patterns, their order, and the rules that apply
        kept = self.to_json()
        content = kept["patterns"] + ([kept["elisions"]] if "elisions" in kept else [])
        content += [(name, kept[name]) for name in ("capitals", "between") if name in kept]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """The set as it is kept in run.json, with the rules of elision that apply to a hole."""
        first = self.selecting
        kept = _Kept(
            self.name,
            [(own.name, own.role, own.context, own.target) for own in self.all],
            tuple(dict.fromkeys(hole.elision for own in self.all for hole in own.holes if hole.elision)),
            list(first.capitals),
            first.between,
            () if self.bundled else self.published,
        )
        found: dict[str, Any] = msgspec.to_builtins(kept)
        return found

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "PatternSet":
        """The inverse of `to_json`. Raises InputError for anything else."""
        try:
            kept = msgspec.convert(content, _Kept)
        except msgspec.ValidationError as error:
            raise InputError(f"run.json holds no pattern set ({error}); run its command again") from None
        selecting, *scored = (
            Pattern(name, context, target, role, kept.elisions, tuple(kept.capitals), kept.between)
            for name, role, context, target in kept.patterns
        )
        return cls(kept.name, selecting, tuple(scored), kept.published)


class _Kept(msgspec.Struct, omit_defaults=True):
    """A pattern set in run.json: name, role, context and target of each pattern, and how the language writes them."""

    name: str
    patterns: Annotated[list[tuple[str, Role, str, str]], msgspec.Meta(min_length=1)]
    elisions: tuple[Elision, ...] = ()
    capitals: list[tuple[str, str]] = []
    between: str | None = None
    published: tuple[PublishedColumn, ...] = ()


def sentence_texts(pattern: Pattern, mask: str | pl.Expr) -> pl.Expr:
    """The sentence of each row, exactly as `Pattern.text` makes it, over the columns of its slots (see `column`)."""
    parts, fixed = list[pl.Expr](), pattern.pieces[0]
    for hole, after in zip(pattern.holes, pattern.pieces[1:], strict=True):
        own = mask if hole.slot == MASK else _spelled(hole, column(hole.slot))
        if isinstance(own, str):  # each part takes time in each row, so that fixed ones are put together here
            fixed += own + after
        else:
            parts += [pl.lit(fixed), own]
            fixed = after
    return pl.concat_str([*parts, pl.lit(fixed)])


def expected_verbs(pattern: Pattern, verb: str = column(VERB)) -> pl.Expr:
    """The verb of each row as it would stand at the mask, with a capital where the mask starts a sentence."""
    return _spelled(pattern.mask, verb)


def _spelled(hole: Hole, name: str) -> pl.Expr:
    """`Hole.spell` over a column."""
    if not hole.starts_sentence and hole.elision is None:
        return pl.col(name)

    def spelled(words: pl.Series) -> pl.Series:
        own = words.drop_nulls().unique()
        there = pl.Series(own.name, [hole.spell(word) for word in own], dtype=pl.String)
        return words if there.equals(own) else words.replace_strict(own, there, default=None)

    return pl.col(name).map_batches(spelled, return_dtype=pl.String, is_elementwise=True)
