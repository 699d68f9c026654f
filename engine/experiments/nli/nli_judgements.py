"""The stage of `nli`, which judges pairs of texts, and its summary: fractions, as in section 6.1 of the paper.

Three new pairs are made from one original pair, so over all new pairs the original pairs are the clusters. Intervals:
accuracy Wilson's, over all new pairs `proportion_interval`; drop (of two accuracies) both of these combined, as the
original dev set is another sample; relative_drop that of a ratio of two proportions. p is McNemar's exact test.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ...basics.paths import without_home
from ...inference.classifier import Classifier, EncodedPairs, PairClassifier, encode_pairs
from ...inference.exported import PRECISIONS, ExportedModel
from ...inference.mixed import LABELS, Method, take_audits
from ...inference.precision import Workload
from ...requests.items import ALL, ITEMS_FILE, ORIGINAL, SUMMARY_FILE, model_identity
from ...requests.summary import DIFFERENCE, VERSUS, Row, difference_rows, frame, with_holm
from ...runs.masked_stages import Deciders, MixedStage
from ...runs.stage import Advance, Files, FinishedParts, PartResult, part_ranges
from ...statistics import LIBRARIES
from ...statistics.clusters import ClusteredMean, clustered_mean, effective_sample_size, proportion_interval
from ...statistics.differences import combined, paired_difference
from ...statistics.intervals import Ends, proportion, relative_drop_interval
from ..cues.cue_words import has_cue
from .nli_pairs import KINDS, NEW, SOURCES, Label, Pair, PairSet, coarsen, common_scheme, unused_sentence

WITH_CUE = "negation"
USED = ("dataset", "condition", "item", "split", "negation", "gold", "expected", "correct", "truncated")
"""The columns of the items that `summarise` uses."""
ITEMS = {
    "dataset": pl.String,
    "condition": pl.String,
    "item": pl.Int64,  # its number in the file
    "id": pl.String,  # see `Pair`
    "split": pl.String,  # which side was negated
    "negation": pl.Boolean,  # whether text or hypothesis has a cue
    "gold": pl.String,
    "predicted": pl.String,
    "probability": pl.Float64,  # of the predicted label
    "expected": pl.String,  # the gold label in the scheme that is scored
    "answer": pl.String,  # the predicted label in this scheme
    "correct": pl.Boolean,
    "truncated": pl.Boolean,
    "precision": pl.String,  # of the graph that gave the probability
    "premise": pl.String,  # before a truncation
    "hypothesis": pl.String,
}
PAPER_LENGTH = 128  # tokens of a pair at most, appendix B
PAIRS_PER_PART = 1024
DECIDED_AS = "pairs"  # the name under which the precision of all labels is chosen and measured
_ORIGINAL_PAIR = pl.col("item") // len(KINDS)


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items."""
    rows: list[Row] = []
    for source in items["dataset"].unique(maintain_order=True):
        judged, made = (items.filter(dataset=source, condition=condition) for condition in (ORIGINAL, NEW))
        original = {ALL: judged, WITH_CUE: judged.filter("negation")}
        new = {kind: made.filter(split=kind) for kind in KINDS} | {ALL: made}
        original, new = ({name: own for name, own in each.items() if len(own)} for each in (original, new))
        for condition, splits in ((ORIGINAL, original), (NEW, new)):
            for split, part in splits.items():
                rows += _rates(source, condition, split, part)
        for reference, suffix in ((ALL, ""), (WITH_CUE, "_from_negation")):
            if reference in original:
                for split, part in new.items():
                    rows += _drops(source, split, original[reference], part, suffix)
        if ALL in original:
            share = proportion(int(judged["negation"].sum()), len(judged))
            rows.append(Row(source, ORIGINAL, ALL, "negation_share", *share, len(judged)))
        for one, other in combinations([kind for kind in KINDS if kind in new], 2):
            first, second = (new[kind].select("correct", pair=_ORIGINAL_PAIR) for kind in (one, other))
            both = first.join(second, on="pair", suffix="_other")
            if not both.is_empty():
                found = paired_difference(both["correct"].to_numpy(), both["correct_other"].to_numpy())
                key = (source, NEW, f"{one}{VERSUS}{other}")
                rows += difference_rows(key, f"{DIFFERENCE}:accuracy", "accuracy", found)
    return with_holm(frame(rows))


def _rates(source: str, condition: str, split: str, judged: pl.DataFrame) -> Iterator[Row]:
    key, n = (source, condition, split), len(judged)
    accuracy, clustered = _accuracy(judged, in_clusters=condition == NEW and split == ALL)
    clusters, effect = (clustered.clusters, clustered.design_effect) if clustered else (None, None)
    yield Row(*key, "accuracy", *accuracy, n, clusters, effect)
    yield Row(*key, "majority", judged["expected"].value_counts()["count"].to_numpy().max() / n, None, None, n)
    for label in SOURCES[source]:
        count = int((judged["gold"] == str(label)).sum())
        yield Row(*key, f"label_share:{label}", count / n, None, None, n)
    yield Row(*key, "truncated", int(judged["truncated"].sum()) / n, None, None, n)


def _accuracy(judged: pl.DataFrame, *, in_clusters: bool) -> tuple[tuple[float, *Ends], ClusteredMean | None]:
    """With its interval; its clusters are the original pairs."""
    if not in_clusters:
        return proportion(int(judged["correct"].sum()), len(judged)), None
    counts = judged.group_by(_ORIGINAL_PAIR, maintain_order=True).agg(pl.col("correct").sum(), pl.len())
    right, n = (counts[name].to_numpy().astype(np.int64) for name in ("correct", "len"))
    found = clustered_mean(right, n)
    return (found.value, *proportion_interval(found)), found


def _drops(source: str, split: str, original: pl.DataFrame, new: pl.DataFrame, suffix: str) -> Iterator[Row]:
    before, _ = _accuracy(original, in_clusters=False)
    after, clustered = _accuracy(new, in_clusters=split == ALL)
    key, clusters = (source, NEW, split), clustered.clusters if clustered else None
    yield Row(*key, f"drop{suffix}", before[0] - after[0], *combined(before, after), len(new), clusters)
    if before[0] > 0:
        ends: Ends = (None, None)
        if clustered is None or clustered.clusters > 1:
            n = effective_sample_size(clustered) if clustered else float(len(new))
            ends = relative_drop_interval(after[0] * n, n, int(original["correct"].sum()), len(original))
        yield Row(*key, f"relative_drop{suffix}", 1 - after[0] / before[0], *ends, len(new), clusters)


@dataclass(frozen=True, eq=False)
class Judgements(MixedStage[PairClassifier, Classifier, EncodedPairs]):
    """A classifier and the pairs that it judges. A part holds pairs of one set; too long pairs are truncated."""

    name: ClassVar[str] = "nli"
    rows_file: ClassVar[str | None] = ITEMS_FILE
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    method: ClassVar[Method] = LABELS

    exported: ExportedModel
    head: tuple[Label, ...]  # of each logit
    sets: tuple[PairSet, ...]
    max_length: int  # tokens of a pair
    pairs_per_part: int = PAIRS_PER_PART

    @property
    def identity(self) -> dict[str, Any]:
        return {
            **model_identity(self.exported),
            "labels": [str(label) for label in self.head],
            "max length": self.max_length,
            **{f"{pairs.source} {pairs.condition} sha256": pairs.sha256 for pairs in self.sets},
            "pairs per part": self.pairs_per_part,
        }

    @property
    def metadata(self) -> dict[str, Any]:
        return {
            "family": self.exported.family,
            "training": self.exported.info.get("training"),
            "model folder": without_home(self.exported.folder.resolve()),
            "unused": {pairs.source: dict(pairs.unused) for pairs in self.sets if pairs.unused},
        }

    @property
    def parts(self) -> tuple[tuple[PairSet, tuple[Pair, ...]], ...]:
        return tuple(
            (pairs, pairs.pairs[part.start : part.stop])
            for pairs in self.sets
            for part in part_ranges(len(pairs.pairs), self.pairs_per_part)
        )

    @property
    def sizes(self) -> Sequence[int]:
        return [len(pairs) for _, pairs in self.parts]

    @property
    def unit(self) -> str:
        return "pairs"

    @classmethod
    def held(cls, rows: pl.DataFrame, counts: Mapping[str, float]) -> int:  # noqa: ARG003
        return len(rows)

    def check(self, say: Callable[[str], None]) -> None:
        say(f"the logits of {self.exported.name} are {', '.join(self.head)}")
        for pairs in self.sets:
            if pairs.unused:
                say(f"{pairs.source} {pairs.condition}: {unused_sentence(pairs.unused)}")
        for number in range(len(self.parts)):
            self.prepare(number)

    @property
    def seed(self) -> int:
        return 0

    def workloads(self) -> list[Workload]:
        return [Workload(DECIDED_AS, self.sample, sum(self.sizes))]

    def sample(self, n: int) -> EncodedPairs:
        pairs = [pair for own in self.sets for pair in own.pairs]
        rows = np.sort(np.random.default_rng(self.seed).permutation(len(pairs))[:n])
        return self._encoded([pairs[row] for row in rows])

    def prepare(self, number: int) -> EncodedPairs:
        return self._encoded(self.parts[number][1])

    def _encoded(self, pairs: Sequence[Pair]) -> EncodedPairs:
        texts, locations = [(pair.text, pair.hypothesis) for pair in pairs], [pair.location for pair in pairs]
        return encode_pairs(self.exported, texts, locations, self.max_length)

    def decide(
        self, model: Deciders[PairClassifier, Classifier], number: int, prepared: EncodedPairs | None, advance: Advance
    ) -> PartResult:
        of, pairs = self.parts[number]
        encoded = prepared or self.prepare(number)
        found = model.deciders[DECIDED_AS].classify(encoded, lambda n: advance(n, n))
        logits = found.logits.astype(np.float64)
        scheme = common_scheme(self.head, of.labels)
        predicted = [self.head[i] for i in found.label]
        expected = [str(coarsen(pair.gold, scheme)) for pair in pairs]
        answer = [str(coarsen(label, scheme)) for label in predicted]
        rows = pl.DataFrame(
            {
                "dataset": [of.source] * len(pairs),
                "condition": [of.condition] * len(pairs),
                "item": [pair.item for pair in pairs],
                "id": [pair.id for pair in pairs],
                "split": [pair.kind for pair in pairs],
                "negation": [has_cue(pair.text) or has_cue(pair.hypothesis) for pair in pairs],
                "gold": [str(pair.gold) for pair in pairs],
                "predicted": [str(label) for label in predicted],
                "probability": 1 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1),
                "expected": expected,
                "answer": answer,
                "correct": [a == b for a, b in zip(expected, answer, strict=True)],
                "truncated": encoded.truncated,
                "precision": [PRECISIONS[i] for i in found.precision],
                "premise": [pair.text for pair in pairs],
                "hypothesis": [pair.hypothesis for pair in pairs],
            },
            schema=ITEMS,
        )
        audited = take_audits(model.deciders)
        return PartResult(rows, audited.counts, audited.bounds, audited.needed)

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        return {ITEMS_FILE: parts.rows, SUMMARY_FILE: summarise(parts.rows.select(USED).collect(engine="streaming"))}
