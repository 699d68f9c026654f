"""The second stage: is the ACT of the context repeated at the mask of the target, in both polarities?

Where an ACT of the context is not a text of its own, no sentence can hold it: it is not asked, and is counted apart.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.errors import InputError
from ...basics.printable import counted
from ...inference.batches import Steps, finished, gathered
from ...inference.exported import PRECISIONS, ExportedModel, refuse_too_long
from ...inference.mixed import FIRST_CHOICES, Method, take_audits
from ...inference.model import Asked, Decider, Decisions, LanguageModel
from ...inference.precision import Workload
from ...requests.contrast import Contrast, contrast_rows
from ...requests.items import ITEMS_FILE, SUMMARY_FILE
from ...requests.summary import DIFFERENCE, frame, means, with_holm
from ...runs.masked_stages import Deciders, MixedStage
from ...runs.record import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult, changed, part_ranges
from ...statistics import LIBRARIES
from ...text.composition import Composer, composer
from ...text.pattern import NAME, PROFESSION, PRONOUN, VERB, Pattern, PatternSet, column
from ...text.token_ids import Bucket, EncodedSentences
from .acts import IS_TEXT, Acts
from .gh22_patterns import ACT_SLOTS, Variant

ACTS_PER_PART = 1024
DATASET = "GH22"
PATTERNS_KEY = "{} patterns sha256"  # of a variant's patterns in the identity
SPLIT = pl.format("{}@{}", "pattern", "rank")
USED = ("condition", "rank", "pattern", "pair", "repeated", "repeated_any", "top1_is_verb", "act_is_verb")
"""The columns of the items that `summarise` uses."""
NOT_A_TEXT = "act_not_a_text"
_UNASKED = "not a text, {}@{}"
_TOKENS = {slot: f"{slot.lower()}_id" for slot in ACT_SLOTS}
COLUMNS = {slot: column(slot) for slot in (NAME, PROFESSION, PRONOUN)} | {slot: slot.lower() for slot in ACT_SLOTS}


def summarise(items: pl.DataFrame, unasked: Mapping[tuple[str, int], int] | None = None) -> pl.DataFrame:
    """The summary of a run's items, by condition and rank; values are fractions.

    `unasked`: how many ACTs of a condition and rank were not asked, as they are not texts; no rate counts them.

    The drop is the rate of 1P − that of 1N (section 2.4), with McNemar's exact test; pairs are the sampling units.
    `ungrammatical`: a low rate can also come from ungrammatical predictions (section 2.1).
    """
    common: Mapping[str, Any] = {"dataset": pl.lit(DATASET), "pair": "pair", "cluster": pl.lit(None, pl.String)}
    metrics: Mapping[str, Any] = {
        "repetition_rate": "repeated",
        "repetition_rate:any": pl.when(condition=str(Variant.COORDINATED)).then("repeated_any"),
        "ungrammatical": ~pl.col("top1_is_verb"),
    }
    sentences = items.select("condition", "rank", "pattern", splits=pl.concat_list(SPLIT), **common, **metrics)
    acts = items.filter(condition=str(Variant.ORIGINAL), pattern=items["pattern"][0]).select(
        "condition", **common, splits=pl.concat_list(pl.format("ACT@{}", "rank")), act_not_a_verb=~pl.col("act_is_verb")
    )
    pairs = sentences.filter(pl.col("pattern").str.ends_with("P")).unique(("condition", "splits"), maintain_order=True)
    drops = [
        Contrast(
            "repetition_rate", (DATASET, condition, f"{name}@{rank}"), (DATASET, condition, f"{name[:-1]}N@{rank}")
        )
        for condition, name, rank in pairs.select("condition", "pattern", "rank").iter_rows()
    ]
    texts = items.group_by("condition", "rank").agg(n=pl.col("pair").n_unique())
    asked = {(condition, rank): n for condition, rank, n in texts.iter_rows()}
    lost = pl.DataFrame(
        [
            {"condition": condition, "pair": None, "splits": [f"ACT@{rank}"], NOT_A_TEXT: number < n}
            for (condition, rank), n in (unasked or {}).items()
            for number in range(n + asked.get((condition, rank), 0))
        ],
        schema={"condition": pl.String, "pair": pl.Int64, "splits": pl.List(pl.String), NOT_A_TEXT: pl.Boolean},
    ).select("condition", "splits", NOT_A_TEXT, **common)
    parts = means(sentences, [*metrics]), contrast_rows(sentences, drops), means(acts, ["act_not_a_verb"])
    found = frame([*itertools.chain(*parts), *means(lost, [NOT_A_TEXT])])
    # `1P@50 vs 1N@50` is called `1@50`, and its difference the drop.
    drop = {f"{DIFFERENCE}:repetition_rate": "drop"}
    named = found.with_columns(pl.col("split").str.replace("P@.*(@.*)", "$1"), pl.col("metric").replace(drop))
    conditions = items["condition"].unique(maintain_order=True)
    order = pl.col("condition").cast(pl.Enum(conditions)), pl.col("split").str.extract("@(.*)").cast(pl.Int64)
    return with_holm(named.sort(order, maintain_order=True))


@dataclass(frozen=True, eq=False)
class ComposedPattern:
    """One pattern of one variant over all ACTs that it can hold."""

    variant: Variant
    pattern: Pattern
    composer: Composer
    acts: NDArray[np.int64]  # [n], the numbers of these ACTs, ascending
    fillers: dict[str, NDArray[np.int64]]  # slot → [n], indices in the slot's distinct words

    def compose(self, rows: NDArray[np.int64] | slice) -> list[Bucket]:
        return list(self.composer.compose({slot: indices[rows] for slot, indices in self.fillers.items()}))

    def of(self, part: range) -> slice:
        """The rows whose ACTs are in a part."""
        return slice(*np.searchsorted(self.acts, (part.start, part.stop)).tolist())


@dataclass(frozen=True, eq=False)
class Repetitions(MixedStage[LanguageModel, Decider, list[list[Bucket]]]):
    """The contexts and targets of a run. A part is a range of ACTs; its rows come pattern after pattern."""

    name: ClassVar[str] = "gh22"
    beside: ClassVar[tuple[str, ...]] = ("acts",)
    rows_file: ClassVar[str | None] = ITEMS_FILE
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    method: ClassVar[Method] = FIRST_CHOICES

    exported: ExportedModel
    chosen: Acts  # the first stage
    acts: pl.DataFrame  # what it wrote
    variants: Mapping[Variant, PatternSet]
    acts_per_part: int = ACTS_PER_PART

    def with_files(self, places: Mapping[str, Path]) -> Self:
        return changed(super().with_files(places), chosen=self.chosen.with_files(places))

    @property
    def identity(self) -> dict[str, Any]:
        """What the ACTs depend on, not the ACTs: so shards of machines that rank a token otherwise can be merged."""
        return {
            **self.chosen.identity,
            **{PATTERNS_KEY.format(variant): patterns.sha256 for variant, patterns in self.variants.items()},
            "ACTs per part": self.acts_per_part,
        }

    @property
    def seed(self) -> int:
        return self.chosen.seed

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            **model_metadata(self.exported),
            "pattern sets": {str(variant): patterns.to_json() for variant, patterns in self.variants.items()},
        }

    @property
    def parts(self) -> tuple[range, ...]:
        return part_ranges(len(self.acts), self.acts_per_part)

    @property
    def sizes(self) -> Sequence[int]:
        each = [(self.asked(variant), len(patterns.scored)) for variant, patterns in self.variants.items()]
        return [sum(int(own[part.start : part.stop].sum()) * n for own, n in each) for part in self.parts]

    def asked(self, variant: Variant) -> NDArray[np.bool_]:
        """Which ACTs can be written into the contexts of a variant, as each of its slots gets a text: bool [n_acts]."""
        slots = {slot for pattern in self.variants[variant].scored for slot in pattern.slots} & set(_TOKENS)
        found: NDArray[np.bool_] = np.logical_and.reduce([self._is_text[slot] for slot in (VERB, *slots)])
        return found

    @cached_property
    def _is_text(self) -> dict[str, NDArray[np.bool_]]:
        is_text = self.exported.tokenizer.is_text
        return {slot: np.array([is_text(i) for i in self.acts[name]], bool) for slot, name in _TOKENS.items()}

    @classmethod
    def held(cls, rows: pl.DataFrame, counts: Mapping[str, float]) -> int:  # noqa: ARG003
        return len(rows)

    @cached_property
    def patterns(self) -> tuple[ComposedPattern, ...]:
        found = []
        for variant, patterns in self.variants.items():
            asked = self.asked(variant)
            acts, numbers = self.acts.filter(asked), np.flatnonzero(asked)
            words = {slot: acts[name].unique(maintain_order=True) for slot, name in COLUMNS.items()}
            rows = {slot: acts[name].replace_strict(words[slot], np.arange(len(words[slot])), return_dtype=pl.Int64)
                    for slot, name in COLUMNS.items()}  # fmt: skip
            for pattern in patterns.scored if len(acts) else ():
                lists = {slot: words[slot].to_list() for slot in pattern.slots}
                own = {slot: rows[slot].to_numpy() for slot in (VERB, *pattern.slots)}
                made = composer(self.exported.tokenizer, pattern, lists, self.chosen.seed, sentences=own)
                found.append(ComposedPattern(variant, pattern, made, numbers, own))
        return tuple(found)

    def check(self, say: Callable[[str], None]) -> None:
        for variant in self.variants:
            n = int(self.asked(variant).sum())
            if not n:
                raise InputError(f"{variant}: no ACT is a text that a context can hold; choose other --ranks")
            if n < len(self.acts):
                say(f"{variant}: {len(self.acts) - n:,} of {len(self.acts):,} ACTs are not texts, and are not asked")
        say(f"{len(self.acts):,} ACTs, {counted(len(self.patterns), 'pattern')}, {counted(len(self.parts), 'part')}")
        for composed in self.patterns:
            longest = composed.composer.longest(composed.fillers)
            refuse_too_long(self.exported, longest, f"{composed.variant} {composed.pattern.name}")

    def workloads(self) -> list[Workload]:
        return [  # the patterns of a variant have one precision: their errors are alike
            Workload(str(variant), partial(self.sample, variant), len(patterns.scored) * int(self.asked(variant).sum()))
            for variant, patterns in self.variants.items()
        ]

    def sample(self, variant: Variant, n: int) -> EncodedSentences:
        """Random sentences of all patterns of a variant, for the calibration."""
        patterns = [composed for composed in self.patterns if composed.variant is variant]
        acts = patterns[0].acts
        drawn = np.random.default_rng(self.seed).permutation(len(patterns) * len(acts))[:n]
        pattern, act = np.divmod(np.sort(drawn), len(acts))
        buckets = []
        for number, composed in enumerate(patterns):
            (places,) = np.nonzero(pattern == number)
            buckets += [replace(own, rows=places[own.rows]) for own in composed.compose(act[places])]
        return EncodedSentences(buckets, self.acts[_TOKENS[VERB]].to_numpy()[acts[act]])

    def prepare(self, number: int) -> list[list[Bucket]]:
        part = self.parts[number]
        return [composed.compose(composed.of(part)) for composed in self.patterns]

    def decide(
        self,
        model: Deciders[LanguageModel, Decider],
        number: int,
        prepared: list[list[Bucket]] | None,
        advance: Advance,
    ) -> PartResult:
        """One row for each ACT and pattern; `precision` names the graph that gave rank and log-probabilities."""
        part = self.parts[number]
        frames = []
        tokens = {slot: self.acts[column].to_numpy() for slot, column in _TOKENS.items()}
        expected = [tokens[VERB][own.acts[own.of(part)]] for own in self.patterns]
        verbs = self.chosen.lexicon.mask_forms
        asked = prepared or self.prepare(number)

        def deciding(decider: Decider, buckets: list[Bucket], acts: NDArray[np.int32]) -> Steps[list[Decisions]]:
            groups: list[Asked] = [(own.ids, own.mask_position, acts[own.rows]) for own in buckets]
            return decider.deciding_each(groups, lambda n: advance(n, n))

        each = zip(self.patterns, asked, expected, strict=True)
        decided = finished(gathered(deciding(model.deciders[own.variant], groups, acts) for own, groups, acts in each))
        for composed, buckets, decisions in zip(self.patterns, asked, decided, strict=True):
            numbers = composed.acts[composed.of(part)]
            found = Decisions.empty(len(numbers))
            for bucket, own in zip(buckets, decisions, strict=True):
                found.put(bucket.rows, own)
            top1 = found.top1
            ids, where = np.unique(top1, return_inverse=True)
            texts = [self.exported.tokenizer.token_text(int(i)) for i in ids]
            named = [own[numbers] for slot, own in tokens.items() if slot in composed.fillers]
            frames.append(
                self.acts[numbers]
                .drop(*_TOKENS.values(), IS_TEXT)
                .with_columns(
                    condition=pl.lit(str(composed.variant)),
                    pattern=pl.lit(composed.pattern.name),
                    top1=pl.Series(texts, dtype=pl.String).gather(where),
                    repeated=pl.Series(top1 == tokens[VERB][numbers]),
                    repeated_any=pl.Series(np.any([top1 == act for act in named], axis=0)),
                    top1_is_verb=pl.Series([text in verbs for text in texts], dtype=pl.Boolean).gather(where),
                    expected_rank=pl.Series(found.expected_rank),
                    expected_logprob=pl.Series(found.expected_logprob),
                    top1_logprob=pl.Series(found.top1_logprob),
                    precision=pl.Series(PRECISIONS, dtype=pl.String).gather(found.precision),
                )
            )
        audited = take_audits(model.deciders)
        lost = self.acts[part.start : part.stop]
        counts = {
            _UNASKED.format(variant, rank): float(n)
            for variant in self.variants
            for rank, n in lost.filter(~self.asked(variant)[part.start : part.stop])["rank"].value_counts().iter_rows()
        }
        return PartResult(pl.concat(frames), {**audited.counts, **counts}, audited.bounds, audited.needed)

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        items = parts.rows.select(USED).collect(engine="streaming")
        return {ITEMS_FILE: parts.rows, SUMMARY_FILE: summarise(items, unasked(parts.counts))}


def unasked(counts: Mapping[str, float]) -> dict[tuple[str, int], int]:
    """How many ACTs of a (condition, rank) were not asked, by the counts of a run."""
    begin, _, _ = _UNASKED.partition("{")
    found = {name.removeprefix(begin).partition("@"): int(n) for name, n in counts.items() if name.startswith(begin)}
    return {(condition, int(rank)): n for (condition, _, rank), n in found.items()}
