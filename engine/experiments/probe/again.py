"""What the model has decided, as it can be asked again: targets of one token, of several, and whole words."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from ...choices import TargetMethod
from ...library.again import Draw, Question, Sample
from ...text.word_marks import Mark, WordClass, WordMarks
from ..vocabulary import Ranked, Vocabulary
from .columns import TARGET_TOKENS

SEVERAL = "targets of several tokens"


def samples(draw: Draw, rows: pl.LazyFrame, method: TargetMethod, ranked: Ranked) -> Iterator[Sample]:
    """Rows of `sentence_rows`. With the method `whole-word` each row is more than one decision.

    Raises:
        InputError: The method is `whole-word`, and the vocabulary does not mark words.
    """
    if method is TargetMethod.WHOLE_WORD:
        marks = WordMarks.of(draw.tokenizer, draw.exported.vocab_size)
        yield Sample(SEVERAL, [_whole_word(draw, row, marks) for row in draw.rows(rows)])
        return
    fills = method is not TargetMethod.ALL_MASKS
    several = [
        replace(draw.word_question(row, row[TARGET_TOKENS]), fills=fills)
        for row in draw.rows(rows.filter(pl.col(TARGET_TOKENS) > 1))
    ]
    single = [draw.question(row) for row in draw.rows(rows.filter(pl.col(TARGET_TOKENS) == 1))]
    if ranked.name != Vocabulary.ALL:
        own = ranked.ids(draw.tokenizer, draw.exported.vocab_size)
        others = np.setdiff1d(np.arange(draw.exported.vocab_size), own)
        single = [replace(question, unranked=(others,), among_ranked=True) for question in single]
    if several:
        yield Sample(SEVERAL, several)
    if single or not several:
        yield Sample("items", single)


def _whole_word(draw: Draw, row: Mapping[str, Any], marks: WordMarks) -> Question:
    """A token competes only with those that can stand there, and the end of the word counts where it is a choice."""
    question = draw.word_question(row, row[TARGET_TOKENS])
    unranked = []
    for query, [token] in enumerate(question.tokens):
        own = marks.classes[token]
        if not draw.exported.is_causal:
            competes = marks.classes == own
        elif query or marks.mark is Mark.END:
            competes = np.ones(len(marks.classes), np.bool_)
        else:
            competes = marks.unmarked if own == WordClass.CONTINUES else marks.breaks
        unranked.append(np.flatnonzero(~competes))
    has_end = draw.exported.is_causal and marks.mark is not Mark.END
    return replace(question, unranked=tuple(unranked), among_ranked=True, ends=marks.breaks if has_end else None)
