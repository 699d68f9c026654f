"""The sentences of a selection or a scoring, with the model's answers (see `library.sentences`); asking them again.

An item fails if the model repeats the verb where the negation forbids it, or does not where a repetition stays natural
(sections 3.1 to 3.3 of the paper). About another person nothing is forbidden: `failed` is null in those patterns.
`verify` asks recorded decisions again, and candidates that a selection has left out.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.errors import InputError
from ...inference.again import Draw, Question, Sample
from ...library.call import as_given
from ...library.sentences import REPEATED
from ...runs.record import StageRecord, differences
from ...runs.stage import full_identity
from ...text.bundled import lexicon_path
from ...text.lexicon import Lexicon, load_lexicon
from ...text.pattern import (
    AT_MASK,
    NAME,
    PROFESSION,
    VERB,
    Hole,
    Pattern,
    PatternSet,
    Role,
    column,
    expected_verbs,
    sentence_texts,
)
from ...text.pattern_files import load_language
from .rates import PAIR
from .reading import SAME_PERSON
from .select import TOKENS, Selection, Settings

_MAIN, _HAS_ONE = "main form", "has one form"
_SCORES = {"top1": "answer", "expected_rank": "rank", "expected_logprob": "logprob"}


def scored_sentences(
    scores: Sequence[pl.LazyFrame], triplets: pl.LazyFrame, patterns: PatternSet, coreference: str, mask: str
) -> Iterator[pl.LazyFrame]:
    """The sentences of a scoring, pattern by pattern, and in each of them a piece of the scores after the other.

    `expected` is the verb's main form, as are rank and logprob.
    """
    words = _looked_up(_with_main_form(triplets))
    for pattern, piece in product(patterns.all, scores):
        rows = piece.filter(pl.col("pattern") == pattern.name).rename(_SCORES).with_columns(words)
        yield _sentences(rows, pattern, patterns.slots, coreference, mask)


def _looked_up(triplets: pl.LazyFrame) -> list[pl.Expr]:
    """The columns of triplets by their numbers, which are those of the rows of triplets.parquet.

    A filter or some rows need no others, as they would behind a join.
    """
    small = triplets.with_columns(pl.col(pl.String).cast(pl.Categorical)).collect(engine="streaming")  # each word once

    def looked_up(name: str, kind: pl.DataType) -> pl.Expr:
        def of(numbers: pl.Series) -> pl.Series:
            return small[name].gather(numbers).cast(kind)

        return pl.col("triplet").map_batches(of, return_dtype=kind, is_elementwise=True).alias(name)

    return [looked_up(name, kind) for name, kind in triplets.drop("triplet").collect_schema().items()]


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
    forms = pl.col(AT_MASK).list
    return triplets.with_columns(forms.first().alias(_MAIN), (forms.len() == 1).alias(_HAS_ONE))


def triplets_again(draw: Draw, rows: pl.LazyFrame, patterns: PatternSet) -> Iterator[Sample]:
    """Rows of `sentence_rows`."""
    masks = {pattern.name: pattern.mask for pattern in patterns.all}
    yield Sample("items", [_question(draw, row, masks) for row in draw.rows(rows)])


def _question(draw: Draw, row: Mapping[str, Any], masks: Mapping[str, Hole]) -> Question:
    if (tokens := row.get(TOKENS, 1)) > 1:
        return replace(draw.question(row, tokens), cut=True)
    spelled = [masks[row["condition"]].spell(form) for form in (row.get(AT_MASK) or ())[1:]]
    return replace(draw.question(row), accepted=draw.tokens(row["sentence"], spelled))


def unselected_again(draw: Draw, record: StageRecord, kept: pl.DataFrame, *, is_exact: bool) -> Sample:
    """Candidates without a row in `kept` (triplets.parquet). `InputError`: run.json contradicts itself."""
    kind, arguments = "unselected candidates", record.metadata.get("call", {}).get("arguments", {})
    lexicon: Lexicon | None = None
    # The words are those given, those where the run found its own, or the bundled ones.
    patterns, own = (as_given(arguments.get(name)) for name in ("patterns", "lexicon"))
    try:
        lexicon = load_language(patterns, own if draw.lexicon is None else draw.lexicon).lexicon
    except InputError:
        if draw.lexicon is not None:  # the patterns may have been moved, too
            lexicon = load_lexicon(lexicon_path(draw.lexicon))
    if lexicon is None or lexicon.sha256 != record.identity["lexicon sha256"]:
        return Sample(kind, [], "the word lists of the run were not found: give --lexicon DIR")
    selected = {pair: own["verb"].to_list() for pair, own in kept.group_by(*PAIR)}
    stage, random = _planned(draw, record, lexicon), np.random.default_rng(draw.seed)
    pattern = stage.patterns.selecting

    def of_pair(pair: int) -> Iterator[Question]:
        name, profession = divmod(pair, stage.verbs.professions)
        words = {slot: filler.word(name, profession) for slot, filler in stage.fillers.items()}
        left = _telling(stage, pair, selected.get((words[NAME], words[PROFESSION]), []))
        for number in random.permutation(left).tolist():
            verb = stage.lexicon.verbs[number]
            sentence = pattern.text({**words, VERB: verb}, draw.exported.mask_token)
            accepted = draw.tokens(sentence, [pattern.mask.spell(form) for form in stage.lexicon.accepted(verb)])
            named = f"{words[NAME]}, {words[PROFESSION]}, {verb}"
            yield Question(named, sentence, draw.tokenizer, (accepted,), is_first=False, is_exact=is_exact)

    # A random verb of each random pair in turn, so that few pairs are looked at twice.
    waiting, found = deque(map(of_pair, random.permutation(stage.verbs.pairs).tolist())), list[Question]()
    while waiting and len(found) < draw.size:
        own = waiting.popleft()
        if (question := next(own, None)) is not None:
            found.append(question)
            waiting.append(own)
    return Sample(kind, found)


def _telling(stage: Selection, pair: int, kept: Sequence[str]) -> NDArray[np.int64]:
    """The verbs of a pair that were not selected and would have been if they were repeated; in the lexicon."""
    [order] = stage.verb_order(np.divmod(np.array([pair]), stage.verbs.professions))
    numbers = stage.verbs.index[order]
    is_kept = np.array([stage.lexicon.verbs[number] in kept for number in numbers.tolist()])
    last = len(order)
    if len(kept) >= stage.settings.max_verbs:
        last = int(np.flatnonzero(is_kept).max(initial=-1)) + 1
    telling: NDArray[np.int64] = numbers[:last][~is_kept[:last]]
    return telling


def _planned(draw: Draw, record: StageRecord, lexicon: Lexicon) -> Selection:
    identity = record.identity
    named = {one.name: identity[one.name.replace("_", " ")] for one in fields(Settings)}
    patterns = PatternSet.from_json(record.metadata["pattern set"])
    stage = Selection.plan(draw.exported, lexicon, patterns, Settings(**named))
    known, planned = (
        {key: value for key, value in own.items() if not key.startswith("pairs per part")}
        for own in (identity, full_identity(stage))
    )
    if other := differences(known, planned):
        raise InputError(f"the selection that run.json describes has {other}")
    return stage
