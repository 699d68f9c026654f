"""The sentences of a selection or a scoring, with the model's answers (see `library.sentences`).

An item fails if the model repeats the verb where the negation forbids it, or does not where a repetition stays natural
(sections 3.1 to 3.3 of the paper). About another person nothing is forbidden: `failed` is null in those patterns.
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
    scores: pl.LazyFrame, triplets: pl.DataFrame, patterns: PatternSet, coreference: str, mask: str
) -> pl.LazyFrame:
    """The sentences of a scoring, pattern by pattern. `expected` is the verb's main form, as are rank and logprob."""
    scored = scores.rename(_SCORES).drop(TOKENS, strict=False)  # the triplets have it, too
    scored = scored.with_columns(_looked_up(_with_main_form(triplets.lazy()).collect()))
    own = (scored.filter(pl.col("pattern") == pattern.name) for pattern in patterns.all)
    rows = zip(own, patterns.all, strict=True)
    return pl.concat([_sentences(words, pattern, patterns.slots, coreference, mask) for words, pattern in rows])


def _looked_up(triplets: pl.DataFrame) -> list[pl.Expr]:
    """The columns of triplets by their numbers. A filter or some rows need no others, as they would behind a join."""
    if not triplets["triplet"].is_sorted():  # as the program writes them
        triplets = triplets.sort("triplet")
    numbers = triplets["triplet"]

    def column_of(words: pl.Series) -> pl.Expr:
        def found(wanted: pl.Series) -> pl.Series:
            return words.gather(numbers.search_sorted(wanted))

        return pl.col("triplet").map_batches(found, return_dtype=words.dtype, is_elementwise=True).alias(words.name)

    return [column_of(words) for words in triplets.drop("triplet").get_columns()]


def selected_sentences(triplets: pl.LazyFrame, patterns: PatternSet, coreference: str, mask: str) -> pl.LazyFrame:
    """The sentences of the selected triplets in the selecting pattern, with the columns of `scored_sentences`.

    The verb is the first choice: answer and rank are known, unless it has several accepted forms; nothing else is.
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
    failed = pl.lit(None, pl.Boolean)
    if pattern.role is Role.SELECTING:
        failed = ~pl.col(REPEATED)
    elif pattern.role is Role.FORBIDDEN and coreference in SAME_PERSON:
        failed = pl.col(REPEATED)
    words = dict.fromkeys(["name", "profession", "verb", *forms, "pronoun", *map(column, slots), *numbers])
    return rows.select(
        item="triplet",
        condition=pl.lit(pattern.name),
        sentence=sentence_texts(pattern, masks),
        expected=expected_verbs(pattern, _MAIN),
        answer="answer",
        repeated=REPEATED,
        failed=failed,
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
