"""The sentences of a run with the model's answers (see `negengine.engine.library.sentences`).

An item fails if the model repeats the ACT after a negative context, or does not repeat it after an affirmative one.
"""

from collections.abc import Mapping

import polars as pl

from ...library.sentences import REPEATED
from ...text.pattern import VERB, Pattern, PatternSet, Role, column, expected_verbs, sentence_texts
from ..items import with_precision
from .choices import Variant

_OWN = ("gender", "name", "profession", "pronoun", "act", "act1", "act2")
_FURTHER = ("precision", "repeated_any", "top1_is_verb", "act_is_verb")


def sentence_rows(items: pl.LazyFrame, variants: Mapping[Variant, PatternSet], mask: str) -> pl.LazyFrame:
    """The sentences, variant by variant and pattern by pattern.

    Args:
        items: The content of items.parquet.
        variants: The patterns of the run.
        mask: The model's mask token.

    Returns:
        item (the [NAME, PROF] pair), condition (the variant), sentence, expected (the ACT), answer, repeated, failed,
        rank and logprob (of the ACT at this mask), answer_logprob (natural logarithms), pattern, act_rank (the ACT's
        rank among the model's own predictions), gender, name, profession, pronoun, act, act1, act2, precision (of the
        graph that gave rank and log-probabilities), repeated_any (the answer is one of the ACTs in the context),
        top1_is_verb, act_is_verb.
    """
    words = with_precision(items).with_columns(pl.col("act").alias(column(VERB)))
    return pl.concat(
        [_sentences(words, variant, pattern, mask) for variant, set_ in variants.items() for pattern in set_.scored]
    )


def _sentences(items: pl.LazyFrame, variant: Variant, pattern: Pattern, mask: str) -> pl.LazyFrame:
    repeated = pl.col(REPEATED)
    return items.filter((pl.col("condition") == str(variant)) & (pl.col("pattern") == pattern.name)).select(
        item="pair",
        condition="condition",
        sentence=sentence_texts(pattern, mask),
        expected=expected_verbs(pattern),
        answer="top1",
        repeated=repeated,
        failed=repeated if pattern.role is Role.FORBIDDEN else ~repeated,
        rank="expected_rank",
        logprob="expected_logprob",
        answer_logprob="top1_logprob",
        pattern="pattern",
        act_rank="rank",
        **{name: name for name in (*_OWN, *_FURTHER)},
    )
