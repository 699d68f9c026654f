"""The second stage: is the ACT of the context repeated at the mask of the target, in both polarities?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ...basics.printable import counted
from ...inference.batches import Steps, finished, gathered
from ...inference.exported import PRECISIONS, ExportedModel, refuse_too_long
from ...inference.mixed import FIRST_CHOICES, Method, take_audits
from ...inference.model import Asked, Decider, Decisions, LanguageModel
from ...inference.precision import Workload
from ...runs.masked_stages import Deciders, MixedStage
from ...runs.record import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult, changed, part_ranges
from ...statistics import LIBRARIES
from ...text.composition import Composer, composer
from ...text.pattern import NAME, PROFESSION, PRONOUN, VERB, Pattern, PatternSet, column
from ...text.token_ids import Bucket, EncodedSentences
from ..items import ITEMS_FILE, SUMMARY_FILE
from ..summary import DIFFERENCE, Contrast, contrasts, frame, means, with_holm
from .acts import Acts
from .gh22_patterns import ACT_SLOTS, Variant

ACTS_PER_PART = 1024
DATASET = "GH22"
PATTERNS_KEY = "{} patterns sha256"  # of a variant's patterns in the identity
SPLIT = pl.format("{}@{}", "pattern", "rank")
USED = ("condition", "rank", "pattern", "pair", "repeated", "repeated_any", "top1_is_verb", "act_is_verb")
"""The columns of the items that `summarise` uses."""
_TOKENS = {slot: f"{slot.lower()}_id" for slot in ACT_SLOTS}
_COLUMNS = {slot: column(slot) for slot in (NAME, PROFESSION, PRONOUN)} | {slot: slot.lower() for slot in ACT_SLOTS}


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items, by condition and rank; values are fractions.

    The drop is the rate of 1P − that of 1N (section 2.4), with McNemar's exact test; pairs are the sampling units.
    `ungrammatical`: a low rate can also come from ungrammatical predictions (section 2.1).
    """
    common: Mapping[str, Any] = {"dataset": pl.lit(DATASET), "item": "pair", "cluster": pl.lit(None, pl.String)}
    metrics: Mapping[str, Any] = {
        "repetition_rate": "repeated",
        "repetition_rate:any": pl.when(condition=str(Variant.COORDINATED)).then("repeated_any"),
        "ungrammatical": ~pl.col("top1_is_verb"),
    }
    sentences = items.select("condition", "rank", "pattern", splits=SPLIT, **common, **metrics)
    acts = items.filter(condition=str(Variant.ORIGINAL), pattern=items["pattern"][0]).select(
        "condition", **common, splits=pl.format("ACT@{}", "rank"), act_not_a_verb=~pl.col("act_is_verb")
    )
    pairs = sentences.filter(pl.col("pattern").str.ends_with("P")).unique(("condition", "splits"), maintain_order=True)
    drops = [
        Contrast(DATASET, "repetition_rate", (condition, f"{name}@{rank}"), (condition, f"{name[:-1]}N@{rank}"))
        for condition, name, rank in pairs.select("condition", "pattern", "rank").iter_rows()
    ]
    found = frame([*means(sentences, [*metrics]), *contrasts(sentences, drops), *means(acts, ["act_not_a_verb"])])
    # `1P@50 vs 1N@50` is called `1@50`, and its difference the drop.
    drop = {f"{DIFFERENCE}:repetition_rate": "drop"}
    named = found.with_columns(pl.col("split").str.replace("P@.*(@.*)", "$1"), pl.col("metric").replace(drop))
    conditions = items["condition"].unique(maintain_order=True)
    order = pl.col("condition").cast(pl.Enum(conditions)), pl.col("split").str.extract("@(.*)").cast(pl.Int64)
    return with_holm(named.sort(order, maintain_order=True))


@dataclass(frozen=True, eq=False)
class ComposedPattern:
    """One pattern of one variant over all ACTs."""

    variant: Variant
    pattern: Pattern
    composer: Composer
    fillers: dict[str, NDArray[np.int64]]  # slot → [n_acts], indices in the slot's distinct words

    def compose(self, rows: NDArray[np.int64] | slice) -> list[Bucket]:
        return list(self.composer.compose({slot: indices[rows] for slot, indices in self.fillers.items()}))


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
        each = sum(len(patterns.scored) for patterns in self.variants.values())
        return [len(part) * each for part in self.parts]

    @classmethod
    def held(cls, rows: pl.DataFrame, counts: Mapping[str, float]) -> int:  # noqa: ARG003
        return len(rows)

    @cached_property
    def patterns(self) -> tuple[ComposedPattern, ...]:
        words = {slot: self.acts[name].unique(maintain_order=True) for slot, name in _COLUMNS.items()}
        rows = {slot: self.acts[name].replace_strict(words[slot], np.arange(len(words[slot])), return_dtype=pl.Int64)
                for slot, name in _COLUMNS.items()}  # fmt: skip
        found = []
        for variant, patterns in self.variants.items():
            for pattern in patterns.scored:
                lists = {slot: words[slot].to_list() for slot in pattern.slots}
                own = {slot: rows[slot].to_numpy() for slot in (VERB, *pattern.slots)}
                made = composer(self.exported.tokenizer, pattern, lists, self.chosen.seed, sentences=own)
                found.append(ComposedPattern(variant, pattern, made, own))
        return tuple(found)

    def check(self, say: Callable[[str], None]) -> None:
        say(f"{len(self.acts):,} ACTs, {counted(len(self.patterns), 'pattern')}, {counted(len(self.parts), 'part')}")
        for composed in self.patterns:
            longest = composed.composer.longest(composed.fillers)
            refuse_too_long(self.exported, longest, f"{composed.variant} {composed.pattern.name}")

    def workloads(self) -> list[Workload]:
        return [  # the patterns of a variant have one precision: their errors are alike
            Workload(str(variant), partial(self.sample, variant), len(patterns.scored) * len(self.acts))
            for variant, patterns in self.variants.items()
        ]

    def sample(self, variant: Variant, n: int) -> EncodedSentences:
        """Random sentences of all patterns of a variant, for the calibration."""
        patterns = [composed for composed in self.patterns if composed.variant is variant]
        drawn = np.random.default_rng(self.seed).permutation(len(patterns) * len(self.acts))[:n]
        pattern, act = np.divmod(np.sort(drawn), len(self.acts))
        buckets = []
        for number, composed in enumerate(patterns):
            (places,) = np.nonzero(pattern == number)
            buckets += [replace(own, rows=places[own.rows]) for own in composed.compose(act[places])]
        return EncodedSentences(buckets, self.acts[_TOKENS[VERB]].to_numpy()[act])

    def prepare(self, number: int) -> list[list[Bucket]]:
        part = self.parts[number]
        return [composed.compose(slice(part.start, part.stop)) for composed in self.patterns]

    def decide(
        self,
        model: Deciders[LanguageModel, Decider],
        number: int,
        prepared: list[list[Bucket]] | None,
        advance: Advance,
    ) -> PartResult:
        """One row for each ACT and pattern; `precision` names the graph that gave rank and log-probabilities."""
        part = self.parts[number]
        acts, frames = self.acts[part.start : part.stop], []
        tokens = {slot: acts[column].to_numpy() for slot, column in _TOKENS.items()}
        verbs = self.chosen.lexicon.mask_forms
        asked = prepared or self.prepare(number)

        def deciding(decider: Decider, buckets: list[Bucket]) -> Steps[list[Decisions]]:
            groups: list[Asked] = [(own.ids, own.mask_position, tokens[VERB][own.rows]) for own in buckets]
            return decider.deciding_each(groups, lambda n: advance(n, n))

        each = zip(self.patterns, asked, strict=True)
        decided = finished(gathered(deciding(model.deciders[own.variant], buckets) for own, buckets in each))
        for composed, buckets, decisions in zip(self.patterns, asked, decided, strict=True):
            found = Decisions.empty(len(part))
            for bucket, own in zip(buckets, decisions, strict=True):
                found.put(bucket.rows, own)
            top1 = found.top1
            ids, where = np.unique(top1, return_inverse=True)
            texts = [self.exported.tokenizer.token_text(int(i)) for i in ids]
            named = [own for slot, own in tokens.items() if slot in composed.fillers]
            frames.append(
                acts.drop(_TOKENS.values()).with_columns(
                    condition=pl.lit(str(composed.variant)),
                    pattern=pl.lit(composed.pattern.name),
                    top1=pl.Series(texts, dtype=pl.String).gather(where),
                    repeated=pl.Series(top1 == tokens[VERB]),
                    repeated_any=pl.Series(np.any([top1 == act for act in named], axis=0)),
                    top1_is_verb=pl.Series([text in verbs for text in texts], dtype=pl.Boolean).gather(where),
                    expected_rank=pl.Series(found.expected_rank),
                    expected_logprob=pl.Series(found.expected_logprob),
                    top1_logprob=pl.Series(found.top1_logprob),
                    precision=pl.Series(PRECISIONS, dtype=pl.String).gather(found.precision),
                )
            )
        audited = take_audits(model.deciders)
        return PartResult(pl.concat(frames), audited.counts, audited.bounds, audited.needed)

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        return {ITEMS_FILE: parts.rows, SUMMARY_FILE: summarise(parts.rows.select(USED).collect(engine="streaming"))}
