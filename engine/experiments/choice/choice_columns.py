"""The tables of `choice` by the purpose of their columns: three forms, and three ways to name the right candidate.

rows       a candidate in each row, as BLiMP's; rows of one item share a value. A column says yes or no, or has the text
           of the right one
columns    a candidate in each of several columns, as XCOPA's; an empty cell is not a candidate
one cell   a list, as in JSON; an object of texts and labels, as ARC's on the hub; or lines `A: …`, `B: …` behind a
           text, as BMLAMA's

The right one is named by its label, its text, its letter or its number. A blank `_` in the context is filled with the
candidate, and the whole is scored; else the candidate stands behind its context.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from string import ascii_uppercase
from typing import Any, ClassVar, Self

import polars as pl

from ...basics.errors import InputError
from ...requests.metrics import of_choice
from ...requests.span import ALONE
from ...text.spelling import trimmed
from ...text.table import Table
from ...text.text_lines import MISSING
from ..own_table import NO, PLACE_ROW, YES, RequestColumns, context, yes_or_no

LABEL, TEXT, LETTER, NUMBER = "label", "text", "letter", "number"
_LINE = re.compile(r"^\s*([A-Z])\s?[:.)]\s+(.*\S)\s*$", re.MULTILINE)
_NUMBER = re.compile(r"([0-9]+)([.,]0)?")  # a column that lacks some values can have fractions
_BLANK = re.compile(r"(?<![\w_])_+(?![\w_])")
_OWN = "\0candidates"  # no column of a user has this name
_BLANKS = "the context has several blanks; one is needed"


@dataclass(frozen=True)
class Candidates:
    """What a cell or some cells hold."""

    context: str | None  # what stands before them in the same cell
    texts: Sequence[str]
    labels: Sequence[str] = ()  # what the table calls them; as many as texts, or none


def in_cell(cell: Any) -> Candidates:
    """A list, an object of texts and labels, or a text with lines `A: …`; no texts where it is none of them."""
    value = str(cell or "").strip()
    if value[:1] in {"[", "{"}:
        try:
            found = _of_text(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return Candidates(None, ())
        own = found if isinstance(found, dict) else {"text": found}
        texts, labels = own.get("text"), own.get("label", [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            return Candidates(None, ())
        return Candidates(None, texts, list(map(str, labels)) if len(labels) == len(texts) else ())
    lines = list(_LINE.finditer(value))
    before = value[: lines[0].start()].strip() if lines else None
    return Candidates(before or None, [line[2] for line in lines], [line[1] for line in lines])


def _of_text(value: str) -> Any:
    """What a text in JSON holds, or in Python, as pandas writes lists into CSV; ValueError for what is neither."""
    try:
        return json.loads(value)
    except ValueError:
        found = ast.literal_eval(value)
        if repr(found) != value:  # a list that NumPy writes has no commas, so Python would join its texts
            raise
        return found


@dataclass(frozen=True)
class Columns(RequestColumns):
    """Columns of a table by their purpose."""

    made: ClassVar[Sequence[str]] = (*RequestColumns.made, "context", "text", "role", "right", "candidate")

    candidates: tuple[str, ...] = ()
    context: str | None = None
    right: str | None = None  # says yes or no of the candidate in a row
    answer: str | None = None  # names the right candidate …
    by: str = TEXT  # … in this way
    first: int = 0  # the number of the first candidate
    alone: bool = False  # whether each candidate is also scored without its context
    joiner: str | None = None

    @property
    def in_rows(self) -> bool:
        return self.item is not None

    @property
    def needed(self) -> tuple[str, ...]:
        return self.candidates if self.in_rows else ()

    @property
    def optional(self) -> tuple[str, ...]:
        own = self.candidates if len(self.candidates) > 1 else ()
        return own if self.context is None else (*own, self.context)

    @property
    def asked(self) -> tuple[str, ...]:
        return (*self.needed, *self.optional, *self.candidates)

    def faults(self) -> Mapping[str, pl.Expr]:
        asked = pl.col("role").is_null()
        own = pl.when(asked).then(
            pl.format("{}\n{}", pl.col("context").fill_null(""), pl.col("text").str.strip_chars())
        )
        found = of_choice(pl.col("right").filter(asked), own.drop_nulls())
        return {**found, "only one candidate": asked.sum() == 1}

    def row_faults(self, rows: pl.DataFrame) -> pl.Series:
        if self.in_rows:
            before = rows.with_columns(context(self.context).alias(_OWN))[_OWN]
            value, item = pl.col(self.right or str(self.item)).cast(pl.String).fill_null("empty"), self.item
            told = pl.lit(f"{self.right} is ") + value + f"; one of {', '.join((*YES, *NO))} is needed"
            says_nothing = pl.lit(value=False) if self.right is None else yes_or_no(self.right).is_null()
            reason = (
                pl.when(pl.col(str(item)).is_null())
                .then(pl.lit(f"{item} is empty; the rows of an item share a value"))
                .when(says_nothing)
                .then(told)
                .otherwise(pl.Series([_several_blanks(text) for text in before], dtype=pl.String))
            )
            return rows.select(reason.alias("reason")).to_series()
        lacks = f"{self.candidates[0]} holds no candidates; a list is needed, or lines such as A: …"
        own = [_several_blanks(one.context) if one.texts else lacks for one, _ in self.of_rows(rows)]
        return pl.Series("reason", own, pl.String)

    def of_rows(self, rows: pl.DataFrame) -> Iterator[tuple[Candidates, str | None]]:
        """The candidates of each row, and how its right one is named."""
        named = [None] * len(rows) if self.answer is None else rows[self.answer].cast(pl.String).to_list()
        cells = rows.select(self.candidates).iter_rows()
        before = rows.with_columns(context(self.context).alias(_OWN))[_OWN].to_list()
        for own, text, right in zip(cells, before, named, strict=True):
            if len(own) > 1:
                kept = [trimmed(str(cell)) for cell in own if cell is not None and trimmed(str(cell)) not in MISSING]
                found = Candidates(None, kept)
            else:
                found = in_cell(own[0])
            both = [part for part in (text, found.context) if part is not None]
            yield replace(found, context="\n".join(both) or None), None if right is None else trimmed(right)

    def named_in(self, table: Table, first: int | None) -> Self:
        """The same, with the way in which most rows of a table name the right one; others have no right candidate.

        InputError: numbers do not show which one is the first.
        """
        if self.answer is None or self.in_rows:
            return self
        ways, numbers, last_is_named = dict.fromkeys((LABEL, TEXT, LETTER, NUMBER), 0), set[int](), False
        first_one = ""
        for part in range(len(table.sizes)):
            for own, right in self.of_rows(table.read(part).frame):
                if right is None:
                    continue
                first_one = first_one or (right if own.texts else "")
                ways[LABEL] += right in own.labels
                ways[TEXT] += right in map(trimmed, own.texts)
                ways[LETTER] += right.upper() in ascii_uppercase[: len(own.texts)]
                if found := _NUMBER.fullmatch(right):
                    ways[NUMBER] += 1
                    numbers.add(int(found[1]))
                    last_is_named |= int(found[1]) == len(own.texts)
        by = max(ways, key=lambda way: ways[way])
        if first_one and not ways[by]:
            told = f"{first_one!r} is not the text, the label, the letter or the number of a candidate"
            raise InputError(f"--answer {self.answer}: {table.name}: {told}")
        if by == NUMBER and first is None:
            if 0 not in numbers and not last_is_named:
                raise InputError(
                    f"--answer {self.answer}: {table.name} does not show whether the first candidate has the number 0 "
                    "or 1: give --counts-from 0 or --counts-from 1"
                )
            first = 0 if 0 in numbers else 1
        return replace(self, by=by, first=first or 0)

    def _right(self, own: Candidates, right: str | None) -> list[bool]:
        if right is None or (self.by == LABEL and not own.labels):
            return [False] * len(own.texts)
        if self.by == LABEL:
            return [label == right for label in own.labels]
        if self.by == TEXT:
            return [trimmed(text) == right for text in own.texts]
        names = list(ascii_uppercase) if self.by == LETTER else map(str, count(self.first))
        right = _NUMBER.sub(r"\1", right).upper()
        return [right == name for name, _ in zip(names, own.texts, strict=False)]

    def requests(self, rows: pl.DataFrame, title: str) -> pl.DataFrame:
        keys = self.keys(rows, title, "choice", self.item)
        if self.in_rows:
            [candidate] = self.candidates
            named = pl.col(self.answer or candidate).cast(pl.String).str.strip_chars()
            right = yes_or_no(self.right) if self.right else pl.col(candidate).str.strip_chars() == named
            before = context(self.context)
            told = rows.with_columns(context=before, text=candidate, right=right, candidate=pl.col(PLACE_ROW), **keys)
        else:
            several = [
                [
                    {"context": own.context, "text": text, "right": is_right, "candidate": number}
                    for number, text, is_right in zip(count(1), own.texts, self._right(own, named))
                ]
                for own, named in self.of_rows(rows)
            ]
            struct = pl.Struct({"context": pl.String, "text": pl.String, "right": pl.Boolean, "candidate": pl.Int64})
            told = rows.with_columns(pl.Series(_OWN, several, dtype=pl.List(struct)), **keys)
            told = told.drop("context", "text", "right", "candidate", strict=False).explode(_OWN).unnest(_OWN)
        return self._with_alone(_filled(told))

    def _with_alone(self, asked: pl.DataFrame) -> pl.DataFrame:
        asked = asked.with_columns(role=pl.lit(None, pl.String))
        if not self.alone:
            return asked
        alone = asked.filter(pl.col("context").is_not_null()).with_columns(role=pl.lit(ALONE))
        return pl.concat([asked, alone]).sort(PLACE_ROW, "candidate", maintain_order=True)


def _several_blanks(before: str | None) -> str | None:
    return _BLANKS if len(_BLANK.findall(before or "")) > 1 else None


def _filled(asked: pl.DataFrame) -> pl.DataFrame:
    """A candidate in the blank of its context, where it has one: then the whole is the text."""
    filled = list[tuple[str | None, str]]()
    for before, text in asked.select("context", "text").iter_rows():
        blank = _BLANK.search(before or "")
        whole = f"{before[: blank.start()]}{trimmed(text)}{before[blank.end() :]}" if blank else text
        filled.append((None if blank else before, whole))
    columns = pl.DataFrame(filled, schema={"context": pl.String, "text": pl.String}, orient="row")
    return asked.with_columns(columns.get_columns())
