"""The sentences of a selection or a scoring, with the model's answers (see `negengine.engine.library.sentences`).

An item fails if the model repeats the verb where the negation forbids it, or does not repeat it where a repetition
stays natural (sections 3.1 to 3.3 of the paper). If the target is about another person, nothing forbids a repetition:
`failed` is null in the forbidden patterns then.
"""

from collections.abc import Sequence

import polars as pl

from ...library.sentences import REPEATED
from ...text.lexicon import FORMS_SEPARATOR
from ...text.pattern import AT_MASK, VERB, Pattern, PatternSet, Role, column, expected_verbs, sentence_texts
from .reading import SAME_PERSON
from .select import TOKENS

_MAIN, _HAS_ONE = "main form", "has one form"
_SCORES = {"top1": "answer", "expected_rank": "rank", "expected_logprob": "logprob"}


def scored_sentences(
    scores: pl.LazyFrame, triplets: pl.LazyFrame, patterns: PatternSet, coreference: str, mask: str
) -> pl.LazyFrame:
    """The sentences of a scoring, pattern after pattern.

    Columns: item (the triplet), condition (the pattern), sentence, expected, answer, repeated, failed, rank, logprob,
    answer_logprob (natural logarithms), precision (of the graph that gave the numbers), role, gender, and the words of
    each slot; verb_at_mask (all accepted forms) where the lexicon has other forms there. `expected` is the main form,
    and rank and logprob are its own. Of verbs of several tokens also tokens: the sentence has as many masks, and the
    numbers are those of `answers.answer_columns`.
    """
    scored = scores.rename(_SCORES).drop(TOKENS, strict=False)  # the triplets have it, too
    triplets = _with_main_form(triplets)
    return pl.concat(
        [
            _sentences(
                scored.filter(pl.col("pattern") == pattern.name).join(
                    triplets, on="triplet", how="left", maintain_order="left"
                ),
                pattern,
                patterns.slots,
                coreference,
                mask,
            )
            for pattern in patterns.all
        ]
    )


def selected_sentences(triplets: pl.LazyFrame, patterns: PatternSet, coreference: str, mask: str) -> pl.LazyFrame:
    """The sentences of the selected triplets in the selecting pattern, with the columns of `scored_sentences`.

    A selection keeps only the triplets whose verb is the first choice, so the answer is the verb and its rank is 1.
    Both are null where the verb has several accepted forms. Log-probabilities and precision are null.
    """
    triplets = _with_main_form(triplets)
    decided = triplets.with_columns(
        answer=pl.when(_HAS_ONE).then(expected_verbs(patterns.selecting, _MAIN)),
        repeated=pl.lit(value=True),
        rank=pl.when(_HAS_ONE).then(pl.lit(1, pl.Int32)),
        logprob=pl.lit(None, pl.Float32),
        top1_logprob=pl.lit(None, pl.Float32),
        precision=pl.lit(None, pl.String),
    )
    return _sentences(decided, patterns.selecting, patterns.slots, coreference, mask)


def _sentences(rows: pl.LazyFrame, pattern: Pattern, slots: Sequence[str], coreference: str, mask: str) -> pl.LazyFrame:
    forms = [AT_MASK] if AT_MASK in rows.collect_schema() else []
    numbers = [TOKENS] if TOKENS in rows.collect_schema() else []
    masks = pl.lit(mask).repeat_by(TOKENS).list.join("") if numbers else mask
    words = dict.fromkeys(["name", "profession", "verb", *forms, "pronoun", *map(column, slots), *numbers])
    return rows.select(
        item="triplet",
        condition=pl.lit(pattern.name),
        sentence=sentence_texts(pattern, masks),
        expected=expected_verbs(pattern, _MAIN),
        answer="answer",
        repeated=REPEATED,
        failed=_failed(pattern, coreference),
        rank="rank",
        logprob="logprob",
        answer_logprob="top1_logprob",
        precision="precision",
        role=pl.lit(str(pattern.role)),
        gender="gender",
        **{name: name for name in words},
    )


def _with_main_form(triplets: pl.LazyFrame) -> pl.LazyFrame:
    """Triplets with the verb's main form at the mask, and whether it is the only one."""
    if AT_MASK not in triplets.collect_schema():
        return triplets.with_columns(pl.col(column(VERB)).alias(_MAIN), pl.lit(value=True).alias(_HAS_ONE))
    forms = pl.col(AT_MASK).str.split(FORMS_SEPARATOR)
    return triplets.with_columns(forms.list.first().alias(_MAIN), (forms.list.len() == 1).alias(_HAS_ONE))


def _failed(pattern: Pattern, coreference: str) -> pl.Expr:
    if pattern.role is not Role.FORBIDDEN:
        return ~pl.col(REPEATED)
    return pl.col(REPEATED) if coreference in SAME_PERSON else pl.lit(None, pl.Boolean)
