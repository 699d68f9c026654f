"""`negengine gh22`: the test of Gubelmann & Handschuh (2022), as replicated in section 2 of the SCNT paper.

Two stages in one run folder. `acts` asks the model which ACTs belong to each [NAME, PROF] pair (`gh22_acts`); `gh22`
puts them into contexts of two polarities and looks whether the target repeats them. Contexts and targets are pattern
sets: that of Table 2 (condition `original`), with connectives (Table 1), with coordinated verbs (footnote 2).

Rows of summary.parquet for each condition, values as fractions; the split is PATTERN@RANK:

    1P@1    repetition_rate       how often the top-1 at the mask is the ACT
            repetition_rate:any   coordinated only: how often it is one of the three
            ungrammatical         how often the top-1 is not in the verb lexicon (section 2.1)
    1@1     drop                  rate of 1P − rate of 1N (section 2.4), interval of the paired difference
            mcnemar_p:repetition_rate       exact test of the same [NAME, PROF] pairs in P and N
            mcnemar_p_holm:repetition_rate  adjusted after Holm over the whole summary
    ACT@1   act_not_a_verb        how often the ACT itself is not in the verb lexicon; in condition `original`
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...errors import InputError
from ...inference.exported import ExportedModel
from ...inference.model import MaskedLM
from ...runs.atomic import sha256
from ...runs.folder import RunFolder
from ...runs.overlap import overlap
from ...runs.progress import metered
from ...sentences.composition import Composer, composer
from ...sentences.lexicon import Lexicon
from ...sentences.patterns import Pattern, PatternSet, load_patterns
from ...sentences.slots import MASK, SLOTS, VERB, column
from ...sentences.spans import Slice
from ...sentences.tokenizer import MaskTokenizer
from ...statistics import mcnemar, paired_difference, proportion
from ..run import ITEMS_FILE, SUMMARY_FILE, model_identity
from ..summary import P_VALUE, Row, with_holm
from ..summary import frame as summary_frame
from .acts import ACTS_FILE, ActSelection, choose_acts
from .acts import STAGE as ACTS

STAGE, DATASET = "gh22", "GH22"
_SLOTS = (*SLOTS, "ACT1", "ACT2")
_ACTS_PER_PART = 1024


class Variant(StrEnum):
    """A set of patterns; the value is the condition in the summary."""

    ORIGINAL = "original"
    CONNECTIVE = "connective"
    COORDINATED = "coordinated"


_BUNDLED = {
    Variant.ORIGINAL: "gh22",
    Variant.CONNECTIVE: "gh22-connective",
    Variant.COORDINATED: "gh22-coordinated",
}


def load_variant(variant: Variant, path: Path | None = None) -> PatternSet:
    """The patterns of a variant, by default the bundled ones.

    Raises:
        InputError: as for `load_patterns`, or a scored pattern is not named with a number and P or N, or lacks its
            partner of the other polarity.
    """
    source = path or _BUNDLED[variant]
    patterns = load_patterns(source, _SLOTS)
    names = {pattern.name for pattern in patterns.scored}
    for name in sorted(names):
        if not re.fullmatch(r".+[PN]", name) or name[:-1] + {"P": "N", "N": "P"}[name[-1]] not in names:
            raise InputError(
                f"{source}: pattern {name!r}: names are those of pairs that differ in a last P or N (1P, 1N)"
            )
    return patterns


@dataclass(frozen=True, eq=False)
class ComposedPattern:
    """One pattern of one variant over all ACTs.

    Attributes:
        fillers: slot → int64 [n_acts], indices in the slot's distinct words.
    """

    variant: Variant
    pattern: Pattern
    composer: Composer
    fillers: dict[str, NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class Gh22:
    """The second stage, ready to run.

    Attributes:
        acts: one row a [NAME, PROF] pair and rank, from the first stage.
        identity: what must be the same for two runs to give the same items.
    """

    exported: ExportedModel
    tokenizer: MaskTokenizer
    verbs: frozenset[str]
    acts: pl.DataFrame
    patterns: tuple[ComposedPattern, ...]
    identity: dict[str, Any]

    @property
    def parts(self) -> tuple[range, ...]:
        """Ranges of rows of `acts`."""
        n = len(self.acts)
        return tuple(range(i, min(i + _ACTS_PER_PART, n)) for i in range(0, n, _ACTS_PER_PART))


def select_acts(
    selection: ActSelection, model: MaskedLM, folder: Path, *, session: Mapping[str, Any] | None = None
) -> pl.DataFrame:
    """First stage: choose the ACTs of all pairs, or resume that, and write acts.parquet.

    Returns:
        The ACTs; see `gh22_acts.choose_acts`.
    """
    parts = selection.parts
    about = {"model": selection.exported.name, "model folder": str(selection.exported.folder.resolve())}
    with RunFolder.create_or_resume(
        folder, ACTS, selection.identity, parts=len(parts), about=about, session=session
    ) as run:
        if not run.is_finished:
            todo = sum(len(parts[number]) for number in run.missing_parts)
            with metered(ACTS, len(selection.pairs), len(selection.pairs) - todo) as meter:
                for number in run.missing_parts:
                    run.write_part(number, choose_acts(selection, model, parts[number]), {})
                    meter.advance(len(parts[number]))
            run.finish_stage({ACTS_FILE: run.read_parts()})
    return pl.read_parquet(folder / ACTS_FILE)


def plan(
    exported: ExportedModel,
    lexicon: Lexicon,
    acts: pl.DataFrame,
    variants: Mapping[Variant, PatternSet],
    *,
    acts_sha256: str,
    seed: int = 0,
) -> Gh22:
    """Lay out the second stage.

    Args:
        exported: the model.
        lexicon: whose verbs count as grammatical.
        acts: from `select_acts`.
        variants: the patterns to run.
        acts_sha256: of acts.parquet.
        seed: of the sentences that composing is proved on.

    Raises:
        InputError: a sentence is too long for the model.
    """
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    columns = {slot: "act" if slot == VERB else column(slot) for slot in _SLOTS if slot != MASK}
    words = {slot: acts[name].unique(maintain_order=True) for slot, name in columns.items()}
    rows = {
        slot: acts[columns[slot]].replace_strict(own, np.arange(len(own)), return_dtype=pl.Int64).to_numpy()
        for slot, own in words.items()
    }
    composed = []
    for variant, patterns in variants.items():
        for pattern in patterns.scored:
            lists = {slot: words[slot].to_list() for slot in pattern.slots}
            own = ComposedPattern(
                variant,
                pattern,
                composer(tokenizer, pattern, lists, seed),
                {slot: rows[slot] for slot in (VERB, *pattern.slots)},
            )
            longest = int(own.composer.lengths(own.fillers).max(initial=0))
            if longest > exported.max_length:
                most = exported.max_length
                raise InputError(
                    f"{variant} {pattern.name}: {longest} tokens, {exported.name} takes {most}: shorten it"
                )
            composed.append(own)
    identity = {
        **model_identity(exported),
        "lexicon sha256": lexicon.sha256,
        "acts sha256": acts_sha256,
        **{f"{variant} patterns sha256": patterns.sha256 for variant, patterns in variants.items()},
    }
    return Gh22(exported, tokenizer, frozenset(lexicon.verbs), acts, tuple(composed), identity)


def score(plan_: Gh22, model: MaskedLM, folder: Path, *, session: Mapping[str, Any] | None = None) -> pl.DataFrame:
    """Second stage: run all patterns, or resume that, and write items.parquet and summary.parquet.

    Returns:
        The summary: dataset, condition, split, metric, value, low, high, n.
    """
    parts, patterns = plan_.parts, len(plan_.patterns)
    about = {"patterns": [[composed.variant, composed.pattern.name] for composed in plan_.patterns]}
    with RunFolder.create_or_resume(
        folder, STAGE, plan_.identity, parts=len(parts), about=about, session=session
    ) as run:
        if run.is_finished:
            return pl.read_parquet(folder / SUMMARY_FILE)
        total = len(plan_.acts) * patterns
        todo = sum(len(parts[number]) for number in run.missing_parts) * patterns
        with metered(STAGE, total, total - todo) as meter:

            def decide(number: int, sentences: list[list[Slice]]) -> pl.DataFrame:
                return decide_part(plan_, model, parts[number], sentences, meter.advance)

            def write(number: int, items: pl.DataFrame) -> None:
                run.write_part(number, items, {})

            overlap(run.missing_parts, lambda number: compose_part(plan_, parts[number]), decide, write)
        items = run.read_parts()
        summary = summarise(items)
        run.finish_stage({ITEMS_FILE: items, SUMMARY_FILE: summary})
        return summary


def run(
    selection: ActSelection,
    variants: Mapping[Variant, PatternSet],
    model: MaskedLM,
    folder: Path,
    *,
    session: Mapping[str, Any] | None = None,
) -> pl.DataFrame:
    """Both stages, or what is left of them; returns the summary."""
    acts = select_acts(selection, model, folder, session=session)
    digest = sha256((folder / ACTS_FILE).read_bytes())
    laid_out = plan(selection.exported, selection.lexicon, acts, variants, acts_sha256=digest, seed=selection.seed)
    return score(laid_out, model, folder, session=session)


def compose_part(plan_: Gh22, part: range) -> list[list[Slice]]:
    """For each pattern, the sentences of a range of ACTs, by length."""
    span = slice(part.start, part.stop)
    return [
        list(composed.composer.compose({slot: rows[span] for slot, rows in composed.fillers.items()}))
        for composed in plan_.patterns
    ]


def decide_part(
    plan_: Gh22,
    model: MaskedLM,
    part: range,
    sentences: Sequence[Sequence[Slice]],
    advance: Callable[[int], None] = lambda _: None,
) -> pl.DataFrame:
    """The items of a range of ACTs; `advance` is told how many sentences are done.

    Returns:
        One row an ACT and pattern: the ACT's columns, condition, pattern, top1 (text), repeated, repeated_any (one of
        ACT, ACT1, ACT2), top1_is_verb, expected_rank, expected_logprob, top1_logprob (natural logarithms).
    """
    acts = plan_.acts[part.start : part.stop]
    tokens = {name: acts[f"{name}_id"].to_numpy() for name in ("act", "act1", "act2")}
    frames = []
    for composed, slices in zip(plan_.patterns, sentences, strict=True):
        top1, rank = np.empty(len(part), np.int32), np.empty(len(part), np.int32)
        logprob, top1_logprob = np.empty(len(part), np.float32), np.empty(len(part), np.float32)
        for piece in slices:
            decisions = model.decide(piece.ids, piece.mask_position, tokens["act"][piece.rows])
            top1[piece.rows], rank[piece.rows] = decisions.top1, decisions.expected_rank
            logprob[piece.rows], top1_logprob[piece.rows] = decisions.expected_logprob, decisions.top1_logprob
            advance(len(piece.rows))
        ids, where = np.unique(top1, return_inverse=True)
        texts = [plan_.tokenizer.token_text(int(i)) for i in ids]
        named = [tokens[name] for name in tokens if name.upper() in composed.fillers]
        frames.append(
            acts.drop("act_id", "act1_id", "act2_id").with_columns(
                condition=pl.lit(str(composed.variant)),
                pattern=pl.lit(composed.pattern.name),
                top1=pl.Series(texts, dtype=pl.String).gather(where),
                repeated=pl.Series(top1 == tokens["act"]),
                repeated_any=pl.Series(np.any([top1 == act for act in named], axis=0)),
                top1_is_verb=pl.Series([text in plan_.verbs for text in texts], dtype=pl.Boolean).gather(where),
                expected_rank=pl.Series(rank),
                expected_logprob=pl.Series(logprob),
                top1_logprob=pl.Series(top1_logprob),
            )
        )
    return pl.concat(frames)


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items; the module says which rows it has."""
    rows: list[Row] = []
    for (condition,), own in items.group_by("condition", maintain_order=True):
        for (rank,), ranked in own.sort("rank", maintain_order=True).group_by("rank", maintain_order=True):
            by_pattern = {str(key[0]): frame for key, frame in ranked.group_by("pattern", maintain_order=True)}
            for pattern, frame in by_pattern.items():
                rows += _rates(str(condition), f"{pattern}@{rank}", frame)
            for number in dict.fromkeys(pattern[:-1] for pattern in by_pattern):
                rows += _drop(str(condition), f"{number}@{rank}", by_pattern[f"{number}P"], by_pattern[f"{number}N"])
            if condition == Variant.ORIGINAL:
                acts = next(iter(by_pattern.values()))["act_is_verb"]
                rows.append(_share(str(condition), f"ACT@{rank}", "act_not_a_verb", ~acts))
    return with_holm(summary_frame(rows))


def _rates(condition: str, split: str, frame: pl.DataFrame) -> Iterator[Row]:
    yield _share(condition, split, "repetition_rate", frame["repeated"])
    if condition == Variant.COORDINATED:
        yield _share(condition, split, "repetition_rate:any", frame["repeated_any"])
    yield _share(condition, split, "ungrammatical", ~frame["top1_is_verb"])


def _share(condition: str, split: str, metric: str, outcomes: pl.Series) -> Row:
    n = len(outcomes)
    return (DATASET, condition, split, metric, *proportion(int(outcomes.sum()), n), n)


def _drop(condition: str, split: str, positive: pl.DataFrame, negative: pl.DataFrame) -> Iterator[Row]:
    both = positive.select("pair", "repeated").join(negative.select("pair", "repeated"), on="pair", suffix="_n")
    first, second = both["repeated"].to_numpy(), both["repeated_n"].to_numpy()
    yield DATASET, condition, split, "drop", *paired_difference(first, second), len(both)
    yield DATASET, condition, split, f"{P_VALUE}:repetition_rate", mcnemar(first, second), None, None, len(both)
