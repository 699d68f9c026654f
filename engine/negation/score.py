"""The scoring run: how often is the verb still repeated, pattern by pattern?

Every selected triplet fills every pattern of the set, the selecting one included: its repetition rate, 100 % by
construction, checks the run. A part is a range of triplets; its rows come pattern after pattern.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..errors import InputError
from ..inference.exported import ExportedModel, load_exported
from ..inference.model import Decider
from ..inference.precision import audit_counts, passes
from ..runs.folder import RunFolder, Shard, finished_stage
from ..runs.overlap import overlap
from ..runs.progress import metered
from ..sentences.patterns import Pattern, PatternSet
from ..sentences.spans import Sentences, in_portions
from ..sentences.tokens import Composer, MaskTokenizer, Slice, VerbConvention, composer, mask_fillers
from .rates import rates
from .select import SELECTION_FILE, TRIPLETS_FILE
from .select import STAGE as SELECTION

STAGE = "score"
SCORES_FILE, RATES_FILE = "scores.parquet", "rates.parquet"
_TRIPLETS_PER_PART = 8_192
_COLUMNS = {"NAME": "name", "PROF": "profession", "ACT": "verb", "PRON": "pronoun"}


@dataclass(frozen=True, eq=False)
class ScoredPattern:
    """One pattern over all triplets.

    Attributes:
        fillers: slot → int64 [n_triplets], indices in the slot's distinct words.
        expected: int32 [n_triplets], the verb's token at this pattern's mask.
    """

    pattern: Pattern
    composer: Composer
    fillers: dict[str, NDArray[np.int64]]
    expected: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Selected:
    """A finished selection, read from its run folder.

    Attributes:
        folder: the run folder.
        facts: what the selection wrote down for its successors.
        summary: the content of selection.json.
        triplets: columns triplet, name, gender, pronoun, profession, verb.
        sha256: of triplets.parquet.
    """

    folder: Path
    facts: dict[str, Any]
    summary: dict[str, Any]
    triplets: pl.DataFrame
    sha256: str

    @property
    def patterns(self) -> PatternSet:
        """The set that the triplets were selected with."""
        return PatternSet.from_json(self.facts["pattern set"])

    def exported(self, moved_to: str | None = None) -> ExportedModel:
        """The model that selected the triplets.

        Args:
            moved_to: where it lies now, if not where it lay then.

        Raises:
            InputError: it is not there, or another model is.
        """
        place = moved_to or self.facts["model folder"]
        try:
            found = load_exported(place)
        except InputError as error:
            hint = "" if moved_to else "; if it has moved, give --model"
            raise InputError(f"the model that selected {self.folder}: {error}{hint}") from None
        if found.sha256 != self.facts["model sha256"]:
            raise InputError(
                f"{found.folder} is not the model that selected {self.folder} (sha256 {found.sha256[:12]}…, "
                f"then {self.facts['model sha256'][:12]}…): give --model, or select again"
            )
        return found


def read_selected(folder: Path) -> Selected:
    """Read a finished selection.

    Raises:
        InputError: the folder is no run, its selection is not finished or damaged, or nothing was selected.
    """
    stage = finished_stage(folder, SELECTION)
    triplets = pl.read_parquet(folder / TRIPLETS_FILE)
    summary = json.loads((folder / SELECTION_FILE).read_bytes())
    if triplets.is_empty():
        raise InputError(f"{folder} has no selected triplets: this model repeats no verb, there is nothing to score")
    return Selected(folder, stage["about"], summary, triplets, stage["files"][TRIPLETS_FILE])


@dataclass(frozen=True, eq=False)
class Scoring:
    """A scoring run ready to run."""

    selected: Selected
    exported: ExportedModel
    tokenizer: MaskTokenizer
    patterns: tuple[ScoredPattern, ...]

    @property
    def parts(self) -> tuple[range, ...]:
        """All parts of the run: ranges of triplets."""
        n = len(self.selected.triplets)
        return tuple(range(i, min(i + _TRIPLETS_PER_PART, n)) for i in range(0, n, _TRIPLETS_PER_PART))

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for two runs to give the same scores."""
        return {
            "model": self.exported.name,
            "model sha256": self.exported.sha256,
            "patterns sha256": self.selected.patterns.sha256,
            "triplets sha256": self.selected.sha256,
            "triplets per part": _TRIPLETS_PER_PART,
        }


def plan(selected: Selected, exported: ExportedModel) -> Scoring:
    """Lay out a scoring run.

    Raises:
        InputError: a sentence is too long, or a verb is more than one token at the mask of a scored pattern.
    """
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    triplets, convention = selected.triplets, VerbConvention(selected.facts["verb convention"])
    words = {slot: triplets[column].unique(maintain_order=True) for slot, column in _COLUMNS.items()}
    rows = {
        slot: triplets[column]
        .replace_strict(words[slot], np.arange(len(words[slot])), return_dtype=pl.Int64)
        .to_numpy()
        for slot, column in _COLUMNS.items()
    }
    scored = []
    for pattern in selected.patterns.all:
        lists = {slot: words[slot].to_list() for slot in pattern.slots}
        base = {slot: lists[slot][0] for slot in pattern.slots}
        verb, token = mask_fillers(tokenizer, pattern, words["ACT"].to_list(), base, convention)
        if len(verb) < len(words["ACT"]):
            lost = words["ACT"][int(np.setdiff1d(np.arange(len(words["ACT"])), verb)[0])]
            raise InputError(f"{pattern.name}: the verb {lost!r} is more than one token at its mask")
        fillers = {slot: rows[slot] for slot in pattern.slots}
        composed = composer(tokenizer, pattern, lists, selected.facts["seed"])
        longest = int(composed.lengths(fillers).max(initial=0))
        if longest > exported.max_length:
            raise InputError(
                f"{pattern.name}: {longest} tokens, {exported.name} takes {exported.max_length}: shorten it"
            )
        scored.append(ScoredPattern(pattern, composed, fillers, token[rows["ACT"]]))
    return Scoring(selected, exported, tokenizer, tuple(scored))


def compose_part(scoring: Scoring, part: range) -> list[list[Slice]]:
    """For each pattern, the sentences of a range of triplets, by length."""
    span = slice(part.start, part.stop)
    return [
        list(pattern.composer.compose({slot: rows[span] for slot, rows in pattern.fillers.items()}))
        for pattern in scoring.patterns
    ]


def sample(pattern: ScoredPattern, n: int, seed: int) -> Sentences:
    """Random triplets of the run as sentences of a pattern, to calibrate on; every verb has its share."""
    total, random = len(pattern.expected), np.random.default_rng(seed)
    n = min(n, total)
    shuffled = random.permutation(total)
    by_verb = shuffled[np.argsort(pattern.expected[shuffled], kind="stable")]
    rows = np.sort(by_verb[((np.arange(n) + random.random()) * total / n).astype(np.int64)])
    slices = pattern.composer.compose({slot: indices[rows] for slot, indices in pattern.fillers.items()})
    return Sentences(list(slices), pattern.expected[rows])


def decide_part(
    deciders: Mapping[str, Decider],
    scoring: Scoring,
    part: range,
    sentences: list[list[Slice]],
    advance: Callable[[int], None] = lambda _: None,
) -> pl.DataFrame:
    """Score a range of triplets in all patterns; `advance` is told how many sentences are done.

    Returns:
        One row a triplet and pattern: triplet, pattern, top1 (text), repeated, expected_rank, expected_logprob,
        top1_logprob (natural logarithms).
    """
    frames = []
    for pattern, slices in zip(scoring.patterns, sentences, strict=True):
        expected = pattern.expected[part.start : part.stop]
        columns: dict[str, NDArray[Any]] = {
            "top1": np.empty(len(part), np.int32),
            "repeated": np.empty(len(part), np.bool_),
            "expected_rank": np.empty(len(part), np.int32),
            "expected_logprob": np.empty(len(part), np.float32),
            "top1_logprob": np.empty(len(part), np.float32),
        }
        for piece in in_portions(slices):
            decisions = deciders[pattern.pattern.name].decide(piece.ids, piece.mask_position, expected[piece.rows])
            columns["top1"][piece.rows] = decisions.top1
            columns["repeated"][piece.rows] = decisions.repeated(expected[piece.rows])
            columns["expected_rank"][piece.rows] = decisions.expected_rank
            columns["expected_logprob"][piece.rows] = decisions.expected_logprob
            columns["top1_logprob"][piece.rows] = decisions.top1_logprob
            advance(len(piece.rows))
        ids, where = np.unique(columns.pop("top1"), return_inverse=True)
        texts = pl.Series([scoring.tokenizer.token_text(int(i)) for i in ids], dtype=pl.String)
        frames.append(
            pl.DataFrame(
                {
                    "triplet": scoring.selected.triplets["triplet"][part.start : part.stop],
                    "pattern": pl.Series([pattern.pattern.name], dtype=pl.String).new_from_index(0, len(part)),
                    "top1": texts.gather(where),
                    **columns,
                }
            )
        )
    return pl.concat(frames)


def score(
    scoring: Scoring,
    deciders: Mapping[str, Decider],
    folder: Path,
    *,
    shard: Shard | None = None,
    session: Mapping[str, Any],
) -> pl.DataFrame | None:
    """Run a scoring, or resume it, and write its results.

    Args:
        scoring: from `plan`.
        deciders: pattern → the model as it decides that pattern's sentences.
        folder: the run folder: that of the selection, or another, which then gets a copy of the triplets.
        shard: the share to do; by default the whole.
        session: what run.json notes of this process: device, precision.

    Returns:
        The rates, or None for one of several shards: `merge` puts those together.
    """
    parts, selected, patterns = scoring.parts, scoring.selected, len(scoring.patterns)
    about = {"patterns": [pattern.pattern.name for pattern in scoring.patterns]}
    with RunFolder.create_or_resume(
        folder, STAGE, scoring.identity, parts=len(parts), shard=shard, about=about, session=session
    ) as run:
        run.carry_stage(selected.folder, SELECTION)
        own = sum(len(parts[number]) for number in run.parts) * patterns
        todo = sum(len(parts[number]) for number in run.missing_parts) * patterns
        with metered("score", own, own - todo) as meter:

            def decide(number: int, sentences: list[list[Slice]]) -> tuple[pl.DataFrame, dict[str, float]]:
                scores = decide_part(deciders, scoring, parts[number], sentences, meter.advance)
                return scores, audit_counts(deciders)

            def write(number: int, decided: tuple[pl.DataFrame, dict[str, float]]) -> None:
                run.write_part(number, *decided)

            for numbers in passes(run, deciders):
                overlap(numbers, lambda number: compose_part(scoring, parts[number]), decide, write)
        return publish(run)


def publish(run: RunFolder) -> pl.DataFrame | None:
    """Put the parts of a finished scoring together: scores.parquet and rates.parquet.

    Returns:
        The rates; None for a shard, which has its parts alone.
    """
    if run.shard.count > 1:
        run.finish_stage({})
        return None
    if run.is_finished:
        return pl.read_parquet(run.folder / RATES_FILE)
    scores = run.read_parts()
    triplets = pl.read_parquet(run.folder / TRIPLETS_FILE)
    patterns = run.record["about"]["patterns"]  # the selecting one first
    table = rates(scores.lazy(), triplets.lazy(), patterns, selecting=patterns[0])
    run.finish_stage({SCORES_FILE: scores, RATES_FILE: table})
    return table
