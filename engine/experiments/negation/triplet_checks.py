"""What `verify` asks the model again: recorded decisions, and candidates that a selection has left out."""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.errors import InputError
from ...basics.paths import with_home
from ...inference.again import SHARING, Draw, Question, Sample
from ...runs.record import StageRecord, differences
from ...runs.stage import full_identity
from ...text.bundled import lexicon_path
from ...text.lexicon import FORMS_SEPARATOR, Lexicon, load_lexicon
from ...text.pattern import AT_MASK, NAME, PROFESSION, VERB, Hole, PatternSet
from ...text.pattern_files import load_language
from .rates import PAIR
from .select import SEVERAL, TOKENS, Selection, Settings

_WORDS = (*PAIR, "verb")


def triplets_again(draw: Draw, rows: pl.LazyFrame, patterns: PatternSet) -> Iterator[Sample]:
    """Rows of `sentence_rows`; those of verbs of several tokens apart."""
    masks = {pattern.name: pattern.mask for pattern in patterns.all}
    has_several = TOKENS in rows.collect_schema()
    single = rows.filter(pl.col(TOKENS) == 1) if has_several else rows
    yield Sample("items", [_question(draw, row, masks) for row in draw.rows(single)])
    unlike = [row for own in patterns.all for row in draw.sharing(single.filter(condition=own.name), own)]
    if unlike:
        yield Sample(SHARING, [_question(draw, row, masks) for row in unlike])
    if has_several:
        some = draw.rows(rows.filter(pl.col(TOKENS) > 1))
        yield Sample(SEVERAL, [replace(draw.word_question(row, row[TOKENS]), cut=True) for row in some])


def _question(draw: Draw, row: Mapping[str, Any], masks: Mapping[str, Hole]) -> Question:
    forms = (row.get(AT_MASK) or "").split(FORMS_SEPARATOR)[1:]
    spelled = [masks[row["condition"]].spell(form) for form in forms]
    return replace(draw.question(row), accepted=draw.tokens(row["sentence"], spelled))


def unselected_again(draw: Draw, record: StageRecord, kept: pl.DataFrame, *, is_exact: bool) -> Sample:
    """Candidates of one token without a row in `kept` (triplets.parquet). `InputError`: run.json contradicts itself."""
    kind, arguments = "unselected candidates", record.metadata.get("call", {}).get("arguments", {})
    lexicon: Lexicon | None = None
    # The words are those given, those where the run found its own, or the bundled ones.
    patterns, own = (_source(arguments.get(name)) for name in ("patterns", "lexicon"))
    try:
        lexicon = load_language(patterns, own if draw.lexicon is None else draw.lexicon).lexicon
    except InputError:
        if draw.lexicon is not None:  # the patterns may have been moved, too
            lexicon = load_lexicon(lexicon_path(draw.lexicon))
    if lexicon is None or lexicon.sha256 != record.identity["lexicon sha256"]:
        return Sample(kind, [], "the word lists of the run were not found: give --lexicon DIR")
    selected: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, profession, verb in kept.select(_WORDS).iter_rows():
        selected[name, profession].append(verb)
    # A random verb of each random pair in turn, so that few pairs are looked at twice.
    stage, random, found = _planned(draw, record, lexicon), np.random.default_rng(draw.seed), list[Question]()
    verbs, pattern = stage.verbs[0], stage.patterns.selecting
    waiting: deque[tuple[int, list[int] | None]] = deque(
        (pair, None) for pair in random.permutation(verbs.grid.pairs).tolist()
    )
    while waiting and len(found) < draw.size:
        pair, left = waiting.popleft()
        name, profession = divmod(pair, verbs.grid.professions)
        words = {slot: filler.word(name, profession) for slot, filler in stage.fillers.items()}
        if left is None:
            left = random.permutation(_telling(stage, pair, selected[words[NAME], words[PROFESSION]])).tolist()
        if not left:
            continue
        verb = lexicon.verbs[int(verbs.index[left.pop()])]
        waiting.append((pair, left))
        sentence = pattern.text({**words, VERB: verb}, draw.exported.mask_token)
        accepted = draw.tokens(sentence, [pattern.mask.spell(form) for form in lexicon.accepted(verb)])
        named = f"{words[NAME]}, {words[PROFESSION]}, {verb}"
        asked = Question(named, sentence, draw.tokenizer, (accepted,), is_first=False, is_exact=is_exact)
        found.append(asked)
    return Sample(kind, found)


def _telling(stage: Selection, pair: int, kept: Sequence[str]) -> NDArray[np.int64]:
    """The verbs of a pair that were not selected and would have been if they were repeated; in the grid."""
    verbs = stage.verbs[0]
    [order] = stage.verb_order(verbs, np.divmod(np.array([pair]), verbs.grid.professions))
    is_kept = np.array([stage.lexicon.verbs[verb] in kept for verb in verbs.index[order].tolist()])
    last = len(order)
    if len(kept) >= stage.settings.max_verbs:
        last = int(np.flatnonzero(is_kept).max(initial=-1)) + 1
    telling: NDArray[np.int64] = order[:last][~is_kept[:last]]
    return telling


def _source(argument: Any) -> str | Path | None:
    match argument:
        case {"path": str(path)}:
            return with_home(path)
        case str(name):
            return name
    return None


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
