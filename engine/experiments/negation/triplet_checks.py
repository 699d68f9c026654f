"""What `verify` checks of the test: recorded decisions asked again, and the figures counted again in a plain way."""

import unicodedata
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.choices import Precision
from ...basics.errors import InputError
from ...basics.paths import with_home
from ...inference.again import NEAR_TIE, SHARING, Draw, Question, Sample
from ...library.recount import ROUNDING, Recount, holds
from ...runs.record import StageRecord, differences
from ...runs.stage import full_identity
from ...text.bundled import lexicon_path
from ...text.keys import combine, string_keys
from ...text.lexicon import FORMS_SEPARATOR, Lexicon, load_lexicon
from ...text.pattern import AT_MASK, NAME, PROFESSION, VERB, Hole, PatternSet, column
from ...text.pattern_files import load_language
from ..finished_run import ranks_of_repetitions
from .rates import PAIR
from .select import BY_TOKENS, SEVERAL, SEVERAL_TOKENS, TOKENS, Selection, Settings

_WORDS = (*PAIR, "verb")
_SCORE = ("triplet", "pattern")


def triplets_again(draw: Draw, rows: pl.LazyFrame, patterns: PatternSet) -> Iterator[Sample]:
    """Rows of `sentence_rows`; those of verbs of several tokens apart."""
    masks = {pattern.name: pattern.mask for pattern in patterns.all}
    has_several = TOKENS in rows.collect_schema()
    single = rows.filter(pl.col(TOKENS).is_null()) if has_several else rows
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


def recount_selection(
    triplets: pl.DataFrame, summary: Mapping[str, Any], identity: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Iterator[Recount]:
    """What must hold of a finished selection."""
    most, n, is_lazy = identity["max verbs"], len(triplets), metadata["lazy"]
    in_order = pl.col("triplet") == pl.col("row")
    yield holds("triplets are numbered from 0", triplets.with_row_index("row"), in_order, ["triplet"])
    yield holds("each triplet is there once", triplets, ~pl.struct(_WORDS).is_duplicated(), _WORDS)
    pairs = triplets.group_by(PAIR, maintain_order=True).agg(pl.len().alias("verbs"))
    yield holds(f"at most {most} verbs are kept of a pair", pairs, pl.col("verbs") <= most, PAIR)
    if identity["lexicon sha256"] == load_lexicon().sha256:  # triplets have its words as the keys have them
        yield holds(
            "verbs of a pair are in the order of their keys",
            triplets.with_columns(pl.Series("key", _verb_keys(triplets, identity["seed"]))),
            pl.col("key") > pl.col("key").shift(1).over(PAIR),
            _WORDS,
        )
    candidates, is_cut = metadata["pairs"] * metadata["verbs"], (pairs["verbs"] >= most).any()
    tested, repeating, ratio = summary["tested"], summary["repeating"], summary["ratio"]
    yield _agree(
        "selection.json agrees with the triplets and with itself",
        {
            f"selected is {summary['selected']:,}, triplets.parquet has {n:,}": summary["selected"] == n,
            f"triplets of {len(pairs):,} pairs, but there are {metadata['pairs']:,}": len(pairs) <= metadata["pairs"],
            f"{tested:,} of {candidates:,} candidates tested": (
                n <= tested <= candidates if is_lazy else tested == candidates
            ),
            f"{repeating:,} of {tested:,} candidates repeat, {n:,} are selected": (
                0 <= repeating <= candidates if is_lazy else (repeating >= n if is_cut else repeating == n)
            ),
            f"ratio is {ratio}, of {repeating:,} among {candidates:,}": (
                abs(ratio - 100 * repeating / candidates) <= 100 * 0.5 / candidates + ROUNDING
            ),
            f"{summary['near_ties']:,} near-ties of {tested:,}": summary["near_ties"] <= tested,
        },
    )


def recount_several(
    triplets: pl.DataFrame, summary: Mapping[str, Any], identity: Mapping[str, Any], metadata: Mapping[str, Any]
) -> Iterator[Recount]:
    """What must hold of the triplets of verbs of several tokens; the statements are those of `selection`."""
    verbs = metadata[SEVERAL]
    own = {**summary, **summary[SEVERAL_TOKENS]}
    for found in recount_selection(triplets, own, identity, {**metadata, "verbs": sum(verbs.values())}):
        yield replace(found, what=f"{SEVERAL}: {found.what}")
    yield holds(
        f"{SEVERAL}: each has a number of tokens that the selection knows",
        triplets,
        (pl.col(TOKENS) > 1) & pl.col(TOKENS).cast(pl.String).is_in(list(verbs)),
        _WORDS,
    )
    rows, apart = summary[BY_TOKENS], summary[SEVERAL_TOKENS]
    more = [row for row in rows if row["tokens"] > 1]
    tested, repeating = (sum(row[name] for row in more) for name in ("tested", "repeating"))
    yield _agree(
        "figures by number of tokens agree with each other",
        {
            f"tested by number of tokens: {tested:,}, in all {apart['tested']:,}": tested == apart["tested"],
            f"verbs of one token: {rows[0]['verbs']:,}": rows[0]["verbs"] == summary["verbs"],
            f"repeating by number of tokens: {repeating:,}, in all {apart['repeating']:,}": (
                metadata["lazy"] or repeating == apart["repeating"]
            ),
            f"{apart['queries']:,} queries of {apart['tested']:,} candidates": (
                apart["tested"] + repeating <= apart["queries"] <= sum(row["tokens"] * row["tested"] for row in more)
            ),
            "a ratio is not that of its row": all(
                abs(row["ratio"] - 100 * row["repeating"] / max(row["tested"], 1)) <= ROUNDING for row in rows
            ),
        },
    )


def _agree(what: str, statements: Mapping[str, bool]) -> Recount:
    """`statements` are what a person reads where it is not so → whether it is so."""
    return Recount(what, len(statements), next((said for said, is_so in statements.items() if not is_so), ""))


def _verb_keys(triplets: pl.DataFrame, seed: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The key by which each triplet is kept, uint64 [n]; from its words alone."""
    parts = []
    for name in _WORDS:
        words = triplets[name].unique(maintain_order=True)
        keys = pl.Series(string_keys(words.to_list(), f"verbs, seed {seed}"))
        parts.append(keys.gather(triplets[name].replace_strict(words, np.arange(len(words)))).to_numpy())
    return combine(*parts) if len(triplets) else np.empty(0, np.uint64)


def recount_scores(items: pl.DataFrame, triplets: pl.DataFrame, patterns: Sequence[str]) -> Iterator[Recount]:
    """What must hold of a finished scoring; the selecting pattern is the first."""
    wanted = triplets.select("triplet").join(pl.DataFrame({"pattern": patterns}), how="cross")
    both = wanted.join(items.group_by(_SCORE).agg(pl.len().alias("rows")), on=_SCORE, how="full", coalesce=True)
    known = both.join(wanted.with_columns(known=True), on=_SCORE, how="left")
    yield holds(
        "each triplet is scored once in each pattern",
        known,
        ((pl.col("rows") == 1) & pl.col("known")).fill_null(value=False),
        _SCORE,
    )
    at_mask = pl.col(AT_MASK if AT_MASK in triplets.columns else column(VERB))
    verbs = items.join(
        triplets.select("triplet", "verb", forms=at_mask), on="triplet", how="left", maintain_order="left"
    )
    # The rank is that of the main form: where another accepted form is the first choice, it is not 1.
    may_be_another = pl.col("forms").str.contains(FORMS_SEPARATOR, literal=True)
    yield from ranks_of_repetitions(verbs, "verb", (pl.col("expected_rank") == 1) | may_be_another, _SCORE)
    texts = verbs.filter("repeated").select("verb", "forms", "top1").unique(maintain_order=True)
    forms = texts["forms"].str.split(FORMS_SEPARATOR)
    unlike = [_plain(top1) not in map(_plain, own) for top1, own in zip(texts["top1"], forms, strict=True)]
    others = texts.select("verb", "top1").filter(pl.Series(unlike, dtype=pl.Boolean)).with_columns(unlike=True)
    yield holds(
        "the first choice is the verb where the verb is repeated",
        verbs.join(others, on=["verb", "top1"], how="left"),
        ~(pl.col("repeated") & pl.col("unlike").fill_null(value=False)),
        _SCORE,
    )
    yield holds(
        "in the selecting pattern every verb is repeated, near-ties excepted",
        items.filter((pl.col("pattern") == patterns[0]) & (pl.col("precision") == str(Precision.FP32))),
        pl.col("repeated") | (pl.col("expected_logprob") - pl.col("top1_logprob") > -10 * NEAR_TIE),
        _SCORE,
    )


def _plain(text: str) -> str:
    """A word as every tokenizer keeps it: without case and accents."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in letters if not unicodedata.combining(letter))
