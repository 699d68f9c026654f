"""The selection run: which verbs does the model repeat for each [NAME, PROF] pair?

Section 3.2 of the paper: of all candidates [NAME, PROF, verb], those are kept whose verb is the model's top-1 in the
selecting pattern, at most 20 verbs a pair. Which 20, a keyed hash of (seed, NAME, PROF, verb) decides, so the choice
depends on neither batches nor shards nor interruptions. A part of the run is a range of pairs: what is kept of a pair
is decided within one part.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..errors import InputError
from ..inference.exported import ExportedModel
from ..inference.model import Decider
from ..inference.precision import audit_counts, audit_summary, passes
from ..runs.folder import RunFolder, Shard
from ..runs.overlap import overlap
from ..runs.progress import metered
from ..sentences.lexicon import Lexicon
from ..sentences.patterns import PatternSet
from ..sentences.spans import Sentences, in_portions
from ..sentences.tokens import Composer, MaskTokenizer, VerbConvention, composer, mask_fillers
from .grid import Coreference, Grid, all_pairs, sample_pairs, subjects, verb_order
from .lazy import first_repeating

STAGE = "select"
TRIPLETS_FILE, SELECTION_FILE = "triplets.parquet", "selection.json"
_TWO_SIDED_95 = 1.959964  # standard deviations; a sum over many pairs is close to normal
NEAR_TIE = 1e-4  # logits; a decision this close can differ between two ways to compute the same model in fp32
_PAIRS_PER_LAZY_PART = 512
_CANDIDATES_PER_PART = 32_768  # minutes of work on a laptop, tenths of a second on a large GPU


@dataclass(frozen=True)
class Settings:
    """What, beside model, lexicon and patterns, decides which triplets are selected."""

    seed: int = 0
    pairs: int | None = None
    max_verbs: int = 20
    coreference: Coreference = Coreference.PRONOUN
    verbs: VerbConvention = VerbConvention.IN_CONTEXT
    lazy: bool = False


@dataclass(frozen=True, eq=False)
class Selection:
    """A selection ready to run: what is tested, and how sentences are made.

    Attributes:
        verb: int64 [n_verbs], the usable verbs' indices in the lexicon.
        token: int32 [n_verbs], their token ids at the mask.
        subject: int64 [n_names, n_professions], what fills {PRON}: indices in `subject_words`.
    """

    exported: ExportedModel
    lexicon: Lexicon
    patterns: PatternSet
    settings: Settings
    grid: Grid
    verb: NDArray[np.int64]
    token: NDArray[np.int32]
    subject_words: tuple[str, ...]
    subject: NDArray[np.int64]
    composer: Composer

    @property
    def pairs_per_part(self) -> int:
        """How many pairs make a part; more in a lazy run, whose rounds get smaller and smaller."""
        return _PAIRS_PER_LAZY_PART if self.settings.lazy else max(1, _CANDIDATES_PER_PART // len(self.verb))

    @property
    def parts(self) -> tuple[range, ...]:
        """All parts of the run: ranges of positions in the grid's pairs."""
        return self.grid.parts(self.pairs_per_part)

    @property
    def facts(self) -> dict[str, Any]:
        """What a later stage needs of this one."""
        return {
            "model": self.exported.name,
            "model folder": str(self.exported.folder.resolve()),
            "model sha256": self.exported.sha256,
            "pattern": self.patterns.selecting.name,
            "pattern set": self.patterns.to_json(),
            "coreference": str(self.settings.coreference),
            "verbs": len(self.verb),
            "verb convention": str(self.settings.verbs),
            "lazy": self.settings.lazy,
            "pairs": len(self.grid.pairs),
            "seed": self.settings.seed,
        }

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for two runs to give the same triplets."""
        return {
            "model": self.exported.name,
            "model sha256": self.exported.sha256,
            "lexicon sha256": self.lexicon.sha256,
            "patterns sha256": self.patterns.sha256,
            "seed": self.settings.seed,
            "coreference": str(self.settings.coreference),
            "verbs": str(self.settings.verbs),
            "max verbs": self.settings.max_verbs,
            "pairs": self.settings.pairs,
            "lazy": self.settings.lazy,
            "pairs per part": self.pairs_per_part,
        }


def plan(
    exported: ExportedModel, lexicon: Lexicon, patterns: PatternSet, settings: Settings | None = None
) -> Selection:
    """Lay out a selection run; the model itself is not needed yet.

    Raises:
        InputError: no verb is one token, a sentence is too long for the model, or there are too few pairs.
    """
    settings = settings or Settings()
    tokenizer = MaskTokenizer.load(exported.folder, exported.mask_token)
    subject_words, subject = subjects(lexicon, settings.coreference, settings.seed)
    words = {"NAME": lexicon.names, "PROF": lexicon.professions, "ACT": lexicon.verbs, "PRON": subject_words}
    pattern = patterns.selecting
    fillers = {slot: words[slot] for slot in pattern.slots}
    base = {slot: fillers[slot][0] for slot in pattern.slots}
    verb, token = mask_fillers(tokenizer, pattern, lexicon.verbs, base, settings.verbs)
    pairs = all_pairs(lexicon) if settings.pairs is None else sample_pairs(lexicon, settings.pairs, settings.seed)
    selection = Selection(
        exported=exported,
        lexicon=lexicon,
        patterns=patterns,
        settings=settings,
        grid=Grid(len(lexicon.names), len(lexicon.professions), len(verb), pairs),
        verb=verb,
        token=token,
        subject_words=subject_words,
        subject=subject,
        composer=composer(tokenizer, pattern, fillers, settings.seed),
    )
    longest = max(int(selection.composer.lengths(_extremes(selection, words)).max()), 0)
    if longest > exported.max_length:
        raise InputError(
            f"{pattern.name}: a sentence has {longest} tokens, {exported.name} takes {exported.max_length}: shorten it"
        )
    return selection


def _extremes(selection: Selection, words: Mapping[str, tuple[str, ...]]) -> dict[str, NDArray[np.int64]]:
    """Fillers that between them have the most tokens of each slot: every filler once, the shorter lists repeated."""
    most = max(len(words[slot]) for slot in selection.patterns.selecting.slots)
    return {slot: np.arange(most) % len(words[slot]) for slot in selection.patterns.selecting.slots}


def compose_part(selection: Selection, part: range) -> Sentences:
    """All candidates of a range of pairs as token ids."""
    return _sentences(selection, *selection.grid.part_indices(part))


def _sentences(
    selection: Selection, name: NDArray[np.int64], profession: NDArray[np.int64], verb: NDArray[np.int64]
) -> Sentences:
    fillers = {
        "NAME": name,
        "PROF": profession,
        "ACT": selection.verb[verb],
        "PRON": selection.subject[name, profession],
    }
    wanted = {slot: fillers[slot] for slot in selection.patterns.selecting.slots}
    return Sentences(list(selection.composer.compose(wanted)), selection.token[verb])


def sample(selection: Selection, n: int) -> Sentences:
    """Random candidates of the run as sentences, to calibrate on; every verb is as frequent as every other."""
    name, profession, verb = selection.grid.locate(sample_indices(selection, n))
    return _sentences(selection, name, profession, verb)


def sample_indices(selection: Selection, n: int) -> NDArray[np.int64]:
    """The grid indices of `sample`, int64 [n], ascending."""
    random = np.random.default_rng(selection.settings.seed)
    verbs, pairs = len(selection.verb), len(selection.grid.pairs)
    verb = np.concatenate([random.permutation(verbs) for _ in range(-(-n // verbs))])[:n]
    return np.sort(random.integers(0, pairs, n) * verbs + verb)


@dataclass(frozen=True, eq=False)
class PartRepeats:
    """What the model decided about a part.

    Attributes:
        repeated: bool [pairs, verbs]; in a lazy run, verbs that were not tested are False.
        near_ties: how many margins were below `NEAR_TIE`.
        tested: how many candidates were tested.
        repeating: how many repeat, an estimate in a lazy run.
        variance: of that estimate.
        audit: the audit's counts.
    """

    repeated: NDArray[np.bool_]
    near_ties: int
    tested: int
    repeating: float
    variance: float = 0.0
    audit: Mapping[str, float] = field(default_factory=dict)


def decide_part(
    decider: Decider, sentences: Sentences, verbs: int, advance: Callable[[int], None] = lambda _: None
) -> PartRepeats:
    """Run a part's sentences; `advance` is told how many are done."""
    repeated, near_ties = _decide(decider, sentences, advance)
    return PartRepeats(repeated.reshape(-1, verbs), near_ties, repeated.size, int(repeated.sum()))


def decide_part_lazily(
    decider: Decider, selection: Selection, part: range, advance: Callable[[int], None] = lambda _: None
) -> PartRepeats:
    """Test the verbs of a part's pairs in the order of their keys until enough repeat (see `lazy`)."""
    name, profession = _pairs(selection, part)
    near_ties = 0

    def decide(pair: NDArray[np.int64], verb: NDArray[np.int64]) -> NDArray[np.bool_]:
        nonlocal near_ties
        repeated, ties = _decide(decider, _sentences(selection, name[pair], profession[pair], verb))
        near_ties += ties
        return repeated

    found = first_repeating(_verb_order(selection, name, profession), selection.settings.max_verbs, decide)
    advance(found.repeated.size)
    return PartRepeats(
        repeated=found.repeated,
        near_ties=near_ties,
        tested=int(found.tested.sum()),
        repeating=float(found.repeating.sum()),
        variance=float(found.variance.sum()),
    )


def _decide(
    decider: Decider, sentences: Sentences, advance: Callable[[int], None] = lambda _: None
) -> tuple[NDArray[np.bool_], int]:
    """Which sentences repeat the verb, bool [n], and how many are near-ties."""
    repeated = np.empty(len(sentences.expected), np.bool_)
    near_ties = 0
    for piece in in_portions(sentences.slices):
        expected = sentences.expected[piece.rows]
        decisions = decider.decide(piece.ids, piece.mask_position, expected)
        repeated[piece.rows] = decisions.repeated(expected)
        near_ties += int(np.count_nonzero(np.abs(decisions.margin(expected)) < NEAR_TIE))
        advance(len(piece.rows))
    return repeated, near_ties


def _pairs(selection: Selection, part: range) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Name and profession of a part's pairs, each int64 [pairs]."""
    return np.divmod(selection.grid.pairs[part.start : part.stop], selection.grid.professions)


def _verb_order(selection: Selection, name: NDArray[np.int64], profession: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each pair's usable verbs by ascending key, int64 [pairs, verbs]."""
    keys = verb_order(selection.lexicon, selection.settings.seed, name, profession, selection.verb)
    return np.argsort(keys, axis=1, kind="stable")


def keep_verbs(selection: Selection, part: range, repeated: NDArray[np.bool_]) -> pl.DataFrame:
    """The triplets kept of a part: of each pair, the repeating verbs with the smallest keys.

    Args:
        selection: the run.
        part: range of positions in the grid's pairs.
        repeated: bool [pairs, verbs].

    Returns:
        One row a triplet with name, gender, pronoun (what fills {PRON}), profession, verb; ordered by pair, then key.
    """
    name, profession = _pairs(selection, part)
    order = _verb_order(selection, name, profession)
    in_order = np.take_along_axis(repeated, order, axis=1)
    kept = in_order & (in_order.cumsum(axis=1) <= selection.settings.max_verbs)
    pair, position = np.nonzero(kept)
    lexicon = selection.lexicon
    chosen, who, what = selection.verb[order[pair, position]], name[pair], profession[pair]
    return pl.DataFrame(
        {
            "name": pl.Series(lexicon.names, dtype=pl.String).gather(who),
            "gender": pl.Series(lexicon.genders, dtype=pl.String).gather(who),
            "pronoun": pl.Series(selection.subject_words, dtype=pl.String).gather(selection.subject[who, what]),
            "profession": pl.Series(lexicon.professions, dtype=pl.String).gather(what),
            "verb": pl.Series(lexicon.verbs, dtype=pl.String).gather(chosen),
        }
    )


def select(
    selection: Selection, decider: Decider, folder: Path, *, shard: Shard | None = None, session: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Run a selection, or resume it, and write its results.

    Args:
        selection: from `plan`.
        decider: the model.
        folder: the run folder.
        shard: the share to do; by default the whole.
        session: what run.json notes of this process: device, precision.

    Returns:
        The content of selection.json, or None for one of several shards: `merge` puts those together.

    Raises:
        InputError: the folder belongs to another run or is in use, or the disk is full.
    """
    parts, verbs = selection.parts, selection.grid.verbs
    deciders = {selection.patterns.selecting.name: decider}
    with RunFolder.create_or_resume(
        folder,
        STAGE,
        selection.identity,
        parts=len(parts),
        shard=shard,
        about=selection.facts,
        session=session,
    ) as run:
        own = sum(len(parts[number]) for number in run.parts) * verbs
        todo = sum(len(parts[number]) for number in run.missing_parts) * verbs
        with metered("select", own, own - todo) as meter:

            def prepare(number: int) -> Sentences | None:
                return None if selection.settings.lazy else compose_part(selection, parts[number])

            def decide(number: int, sentences: Sentences | None) -> PartRepeats:
                if sentences is None:
                    repeats = decide_part_lazily(decider, selection, parts[number], meter.advance)
                else:
                    repeats = decide_part(decider, sentences, verbs, meter.advance)
                return replace(repeats, audit=audit_counts(deciders))

            def write(number: int, repeats: PartRepeats) -> None:
                counts = {
                    "tested": repeats.tested,
                    "repeating": repeats.repeating,
                    "variance": repeats.variance,
                    "near_ties": repeats.near_ties,
                    **repeats.audit,
                }
                run.write_part(number, keep_verbs(selection, parts[number], repeats.repeated), counts)

            for numbers in passes(run, deciders):
                overlap(numbers, prepare, decide, write)
        return publish(run)


def publish(run: RunFolder) -> dict[str, Any] | None:
    """Put the parts of a finished selection together: triplets.parquet and selection.json.

    Returns:
        The content of selection.json: rows 1 to 6 of the paper's Table 5, and what else a reader of the run needs.
        None for a shard, which has its parts alone.
    """
    if run.shard.count > 1:
        run.finish_stage({})
        return None
    if run.is_finished:
        content: dict[str, Any] = json.loads((run.folder / SELECTION_FILE).read_bytes())
        return content
    triplets = run.read_parts().with_row_index("triplet").cast({"triplet": pl.Int64})
    counts, facts = run.counts(), run.record["about"]
    candidates = facts["pairs"] * facts["verbs"]
    summary = {
        "model": facts["model"],
        "pattern": facts["pattern"],
        "coreference": facts["coreference"],
        "verbs": facts["verbs"],
        "pairs": facts["pairs"],
        "tested": counts["tested"],
        "repeating": round(counts["repeating"]),
        "ratio": 100 * counts["repeating"] / candidates,
        "selected": len(triplets),
        "near_ties": counts["near_ties"],
        "precision": audit_summary(counts),
    }
    if facts["lazy"]:
        half = _TWO_SIDED_95 * 100 * counts["variance"] ** 0.5 / candidates
        summary["lazy"] = {
            "candidates": candidates,
            "times_fewer_calls": candidates / counts["tested"],
            "ratio_low": max(0.0, summary["ratio"] - half),
            "ratio_high": min(100.0, summary["ratio"] + half),
        }
    run.finish_stage({TRIPLETS_FILE: triplets, SELECTION_FILE: summary})
    return summary
