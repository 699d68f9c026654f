"""The stage of `nli`: a classifier judges every pair, of the benchmark with negation and of the original dev sets.

A part holds pairs of one set. Pairs that are longer than the model or the paper allows are truncated, and counted. The
precision is chosen for all sets together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ...files.paths import without_home
from ...inference.classifier import Classifier, EncodedPairs, PairClassifier, encode_pairs
from ...inference.exported import PRECISIONS, ExportedModel
from ...inference.mixed import LABELS, Method, take_audits
from ...inference.precision import Workload
from ...runs.masked_stages import Deciders, MixedStage
from ...runs.stage import Advance, Files, FinishedParts, PartResult, part_ranges
from ...statistics import LIBRARIES
from ..cues.word_list import has_cue
from ..items import ITEMS_FILE, SUMMARY_FILE, model_identity
from .labels import Label, coarsen, common_scheme
from .pairs import Pair, PairSet
from .summary import ITEMS, USED, summarise

PAPER_LENGTH = 128  # tokens of a pair at most, appendix B
PAIRS_PER_PART = 1024
DECIDED_AS = "pairs"  # the name under which the precision of all labels is chosen and measured


@dataclass(frozen=True, eq=False)
class Judgements(MixedStage[PairClassifier, Classifier, EncodedPairs]):
    """A classifier and the pairs that it judges.

    Attributes:
        exported: The classifier.
        head: The label that each of its logits stands for.
        sets: The pairs.
        max_length: Largest number of tokens in a pair.
        pairs_per_part: Size of a part.
    """

    name: ClassVar[str] = "nli"
    rows_file: ClassVar[str | None] = ITEMS_FILE
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES
    method: ClassVar[Method] = LABELS

    exported: ExportedModel
    head: tuple[Label, ...]
    sets: tuple[PairSet, ...]
    max_length: int
    pairs_per_part: int

    @classmethod
    def plan(
        cls,
        exported: ExportedModel,
        head: Sequence[Label],
        sets: Sequence[PairSet],
        *,
        max_length: int | None = None,
        pairs_per_part: int = PAIRS_PER_PART,
    ) -> "Judgements":
        """Plan an evaluation; the model itself is not needed yet.

        Args:
            exported: A model that was exported for text-classification.
            head: The label that each logit stands for, from `map_head`.
            sets: From `read_sets`.
            max_length: Largest number of tokens in a pair; by default the paper's 128, or what the model takes if that
                is less.
            pairs_per_part: Size of a part.

        Raises:
            InputError: The model does not take `max_length` tokens, or they are too few for any pair.
        """
        longest = min(PAPER_LENGTH, exported.max_length) if max_length is None else max_length
        encode_pairs(exported, [], max_length=longest)
        return cls(exported, tuple(head), tuple(sets), longest, pairs_per_part)

    @property
    def identity(self) -> dict[str, Any]:
        """What the items depend on."""
        return {
            **model_identity(self.exported),
            "labels": [str(label) for label in self.head],
            "max length": self.max_length,
            **{f"{pairs.source} {pairs.condition} sha256": pairs.sha256 for pairs in self.sets},
            "pairs per part": self.pairs_per_part,
        }

    @property
    def metadata(self) -> dict[str, Any]:
        """What the tables and readers need."""
        return {
            "family": self.exported.family,
            "training": self.exported.info.get("training"),
            "model folder": without_home(self.exported.folder.resolve()),
            "without a gold label": {
                f"{pairs.source} {pairs.condition}": pairs.skipped for pairs in self.sets if pairs.skipped
            },
        }

    @property
    def parts(self) -> tuple[tuple[PairSet, tuple[Pair, ...]], ...]:
        """All parts: pairs of one set each, in order."""
        return tuple(
            (pairs, pairs.pairs[part.start : part.stop])
            for pairs in self.sets
            for part in part_ranges(len(pairs.pairs), self.pairs_per_part)
        )

    @property
    def sizes(self) -> Sequence[int]:
        """See `Stage`."""
        return [len(pairs) for _, pairs in self.parts]

    @property
    def unit(self) -> str:
        """See `Stage`."""
        return "pairs"

    def check(self, say: Callable[[str], None]) -> None:
        """See `Stage`."""
        say(f"the logits of {self.exported.name} are {', '.join(self.head)}")
        for number in range(len(self.parts)):
            self.prepare(number)

    @property
    def seed(self) -> int:
        """See `MixedStage`."""
        return 0

    def workloads(self) -> list[Workload]:
        """See `MixedStage`."""
        return [Workload(DECIDED_AS, self.sample, sum(self.sizes))]

    def sample(self, n: int) -> EncodedPairs:
        """Random pairs of all sets, for the calibration."""
        pairs = [pair for own in self.sets for pair in own.pairs]
        rows = np.sort(np.random.default_rng(self.seed).permutation(len(pairs))[:n])
        return self._encoded([pairs[row] for row in rows])

    def prepare(self, number: int) -> EncodedPairs:
        """The pairs of a part as token ids.

        Raises:
            InputError: A pair holds the padding token.
        """
        return self._encoded(self.parts[number][1])

    def _encoded(self, pairs: Sequence[Pair]) -> EncodedPairs:
        texts, locations = [(pair.text, pair.hypothesis) for pair in pairs], [pair.location for pair in pairs]
        return encode_pairs(self.exported, texts, locations, self.max_length)

    def decide(
        self, model: Deciders[PairClassifier, Classifier], number: int, prepared: EncodedPairs | None, advance: Advance
    ) -> PartResult:
        """See `Stage`.

        Returns:
            One row for each pair: dataset, condition, item (its number in the file), id (see `Pair`), split (which side
            was negated), negation (whether text or hypothesis has a cue), gold, predicted, probability (of the
            predicted label), expected and answer (gold and predicted label in the scheme that they are scored by),
            correct, truncated, precision (of the graph that gave the row's probability), premise and hypothesis (the
            texts, before a truncation).
        """
        of, pairs = self.parts[number]
        encoded = prepared or self.prepare(number)
        found = model.deciders[DECIDED_AS].classify(encoded, lambda n: advance(n, n))
        logits = found.logits.astype(np.float64)
        scheme = common_scheme(self.head, of.labels)
        predicted = [self.head[i] for i in found.label]
        expected = [coarsen(pair.gold, scheme) for pair in pairs]
        answer = [coarsen(label, scheme) for label in predicted]
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
                "expected": [str(label) for label in expected],
                "answer": [str(label) for label in answer],
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
        """items.parquet and summary.parquet."""
        return {ITEMS_FILE: parts.rows, SUMMARY_FILE: summarise(parts.rows.select(USED).collect(engine="streaming"))}
