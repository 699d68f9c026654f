"""`negengine nli`: natural language inference with negation (Hossain et al. 2020), section 6.1, Tables 5 and 7.

Every pair of the benchmark with negation, and of the original dev sets where the user has them, gets the label of an
exported classifier. Reported are accuracies by type of pair, beside the accuracy of always giving the most frequent
label, and the drop from the original dev set.

Rows of summary.parquet, values as fractions:

    condition  split                               metric
    new        Tneg-H, T-Hneg, Tneg-Hneg, all      accuracy, majority, label_share:LABEL, truncated,
                                                   drop, relative_drop                    (from original, all)
                                                   drop_from_negation, relative_drop_from_negation
    new        Tneg-H vs T-Hneg …                  difference:accuracy, mcnemar_p:accuracy, mcnemar_p_holm:accuracy
    original   all, negation                       accuracy, majority, label_share:LABEL, truncated
    original   all                                 negation_share                         (Table 1)

drop is the difference of two accuracies, relative_drop that difference over the original accuracy, as in section 6.1.
Intervals: accuracy Wilson's, over all new pairs that of `rates` with the three pairs made from one as a cluster; drop
Welch's t, relative_drop that of a ratio of two proportions, difference Student's t. p-values are adjusted after Holm
over the whole summary. Where head or data set knows two labels only, accuracy and majority are two-way (`nli_labels`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from ...errors import InputError
from ...inference.classifier import PairClassifier, encode_pairs, labels
from ...inference.exported import ExportedModel
from ...statistics import CONFIDENCE, cluster_interval, mcnemar, paired_difference, proportion, relative_drop_interval
from ..run import model_identity
from ..run import run as run_probe
from ..summary import ALL, DIFFERENCE, ORIGINAL, P_VALUE, VERSUS, Row, frame, with_holm
from .cues import has_cue
from .labels import Label, coarsen, common_scheme, map_head
from .pairs import KINDS, NEW, SOURCES, Pair, PairSet, read_benchmark, read_original

STAGE = "nli"
PAPER_LENGTH = 128  # tokens of a pair at most, appendix B
WITH_CUE = "negation"
_PAIRS_PER_PART = 1024


@dataclass(frozen=True)
class Evaluation:
    """A classifier and the pairs it is to judge.

    Attributes:
        exported: the classifier.
        head: the label that each of its logits stands for.
        sets: the pairs.
        max_length: most tokens of a pair.
    """

    exported: ExportedModel
    head: tuple[Label, ...]
    sets: tuple[PairSet, ...]
    max_length: int

    @property
    def parts(self) -> tuple[tuple[PairSet, tuple[Pair, ...]], ...]:
        """Pairs of one set each, in order."""
        return tuple(
            (pairs, pairs.pairs[start : start + _PAIRS_PER_PART])
            for pairs in self.sets
            for start in range(0, len(pairs.pairs), _PAIRS_PER_PART)
        )

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same for two runs to give the same items."""
        return {
            **model_identity(self.exported),
            "labels": [str(label) for label in self.head],
            "max length": self.max_length,
            **{f"{pairs.source} {pairs.condition} sha256": pairs.sha256 for pairs in self.sets},
        }


def read_sets(
    benchmark: Path | None, originals: Mapping[str, Path], sources: Sequence[str] = tuple(SOURCES)
) -> tuple[PairSet, ...]:
    """Read the pairs of some sources, original sets before those with negation.

    Args:
        benchmark: the folder with RTE.txt, SNLI.txt and MNLI.txt.
        originals: source → its original dev set.
        sources: which of the benchmark's files to read.

    Raises:
        InputError: a source is unknown, a file is missing or bad, or there is nothing to read.
    """
    for source in (*sources, *originals):
        if source not in SOURCES:
            raise InputError(f"unknown source {source!r}; known are {', '.join(SOURCES)}")
    sets = [read_original(originals[source], source) for source in SOURCES if source in originals]
    if benchmark is not None:
        sets += [read_benchmark(benchmark / f"{source}.txt", source) for source in SOURCES if source in sources]
    if not sets:
        raise InputError("nothing to judge: give --data or --original")
    return tuple(sets)


def plan(
    exported: ExportedModel, sets: Sequence[PairSet], *, names: str | None = None, max_length: int | None = None
) -> Evaluation:
    """Lay out an evaluation.

    Args:
        exported: a model that was exported for text-classification.
        sets: from `read_sets`.
        names: the labels in the order of the logits, if the head's own names do not tell.
        max_length: most tokens of a pair; by default the paper's 128, or what the model takes if that is less.

    Raises:
        InputError: the head's labels cannot be mapped.
    """
    head = map_head(labels(exported), exported.name, names)
    longest = min(PAPER_LENGTH, exported.max_length) if max_length is None else max_length
    return Evaluation(exported, head, tuple(sets), longest)


def run(
    evaluation: Evaluation, classifier: PairClassifier, folder: Path, *, session: Mapping[str, Any] | None = None
) -> pl.DataFrame:
    """Judge all pairs, or resume that, and write items.parquet and summary.parquet.

    Returns:
        The summary: dataset, condition, split, metric, value, low, high, n.
    """
    parts = evaluation.parts

    def score(number: int) -> pl.DataFrame:
        return judge(evaluation, classifier, *parts[number])

    return run_probe(
        folder,
        STAGE,
        evaluation.identity,
        [len(pairs) for _, pairs in parts],
        score,
        summarise,
        about=_about(evaluation),
        session=session,
    )


def _about(evaluation: Evaluation) -> dict[str, Any]:
    return {
        "model": evaluation.exported.name,
        "family": evaluation.exported.family,
        "model folder": str(evaluation.exported.folder.resolve()),
        "left out for want of a gold label": {
            f"{pairs.source} {pairs.condition}": pairs.skipped for pairs in evaluation.sets if pairs.skipped
        },
    }


def judge(evaluation: Evaluation, classifier: PairClassifier, pairs: PairSet, share: Sequence[Pair]) -> pl.DataFrame:
    """The items of some pairs of a set.

    Returns:
        One row a pair: dataset, condition, item, split, negation (a cue in text or hypothesis), gold, predicted,
        probability (of the predicted label, of all of the head's), expected and answer (gold and predicted label in
        the scheme that they are scored by), correct, truncated.
    """
    places = [pair.place for pair in share]
    encoded = encode_pairs(
        evaluation.exported, [(pair.text, pair.hypothesis) for pair in share], places, evaluation.max_length
    )
    logits = classifier.classify(encoded).astype(np.float64)
    best = logits.argmax(axis=1)
    probability = 1 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1)
    scheme = common_scheme(evaluation.head, pairs.labels)
    predicted = [evaluation.head[i] for i in best]
    expected = [coarsen(pair.gold, scheme) for pair in share]
    answer = [coarsen(label, scheme) for label in predicted]
    return pl.DataFrame(
        {
            "dataset": [pairs.source] * len(share),
            "condition": [pairs.condition] * len(share),
            "item": [pair.item for pair in share],
            "split": [pair.kind for pair in share],
            "negation": [has_cue(pair.text) or has_cue(pair.hypothesis) for pair in share],
            "gold": [str(pair.gold) for pair in share],
            "predicted": [str(label) for label in predicted],
            "probability": probability,
            "expected": [str(label) for label in expected],
            "answer": [str(label) for label in answer],
            "correct": [a == b for a, b in zip(expected, answer, strict=True)],
            "truncated": encoded.truncated,
        },
        schema=_ITEMS,
    )


_ITEMS = {
    "dataset": pl.String,
    "condition": pl.String,
    "item": pl.Int64,
    "split": pl.String,
    "negation": pl.Boolean,
    "gold": pl.String,
    "predicted": pl.String,
    "probability": pl.Float64,
    "expected": pl.String,
    "answer": pl.String,
    "correct": pl.Boolean,
    "truncated": pl.Boolean,
}


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items; the module says which rows it has."""
    rows: list[Row] = []
    for source in items["dataset"].unique(maintain_order=True):
        own = items.filter(pl.col("dataset") == source)
        original = _splits(own, ORIGINAL)
        new = _splits(own, NEW)
        for condition, splits in ((ORIGINAL, original), (NEW, new)):
            for split, part in splits.items():
                rows += _rates(source, condition, split, part)
        for reference, suffix in ((ALL, ""), (WITH_CUE, "_from_negation")):
            if reference in original:
                for split, part in new.items():
                    rows += _drops(source, split, original[reference], part, suffix)
        if ALL in original:
            cues = original[ALL]["negation"]
            rows.append((source, ORIGINAL, ALL, "negation_share", *proportion(int(cues.sum()), len(cues)), len(cues)))
        rows += _comparisons(source, new)
    return with_holm(frame(rows))


def _splits(own: pl.DataFrame, condition: str) -> dict[str, pl.DataFrame]:
    """The splits of a condition that hold any items."""
    judged = own.filter(pl.col("condition") == condition)
    if condition == NEW:
        splits = {kind: judged.filter(pl.col("split") == kind) for kind in KINDS} | {ALL: judged}
    else:
        splits = {ALL: judged, WITH_CUE: judged.filter("negation")}
    return {split: part for split, part in splits.items() if not part.is_empty()}


def _rates(source: str, condition: str, split: str, judged: pl.DataFrame) -> Iterator[Row]:
    n = len(judged)
    value, low, high = proportion(int(judged["correct"].sum()), n)
    if condition == NEW and split == ALL:  # three new pairs share their sentences: they are no independent draws
        clusters = judged.group_by(pl.col("item") // 3, maintain_order=True).agg(pl.col("correct").sum(), pl.len())
        low, high = cluster_interval(
            clusters["correct"].to_numpy().astype(np.int64), clusters["len"].to_numpy().astype(np.int64)
        )
    yield source, condition, split, "accuracy", value, low, high, n
    yield source, condition, split, "majority", _largest(judged["expected"]) / n, None, None, n
    for label in SOURCES[source]:
        count = int((judged["gold"] == label).sum())
        yield source, condition, split, f"label_share:{label}", count / n, None, None, n
    yield source, condition, split, "truncated", int(judged["truncated"].sum()) / n, None, None, n


def _largest(labels_: pl.Series) -> int:
    return int(labels_.value_counts()["count"].max())  # type: ignore[arg-type]


def _drops(source: str, split: str, original: pl.DataFrame, new: pl.DataFrame, suffix: str) -> Iterator[Row]:
    before, after = (_outcomes(judged, split if judged is new else "") for judged in (original, new))
    first, second = float(before.mean()), float(after.mean())
    low = high = None
    if min(len(before), len(after)) > 1 and max(np.ptp(before), np.ptp(after)) > 0:
        interval = stats.ttest_ind(before, after, equal_var=False).confidence_interval(CONFIDENCE)
        low, high = float(interval.low), float(interval.high)
    yield source, NEW, split, f"drop{suffix}", first - second, low, high, len(new)
    if first > 0:
        counts = [int(new["correct"].sum()), len(new), int(original["correct"].sum()), len(original)]
        low, high = relative_drop_interval(*counts)
        yield source, NEW, split, f"relative_drop{suffix}", 1 - second / first, low, high, len(new)


def _outcomes(judged: pl.DataFrame, split: str) -> NDArray[np.float64]:
    """1 for each right pair, 0 for each wrong one; of all new pairs, the mean of each triple if all are whole."""
    if split == ALL:
        triples = judged.group_by(pl.col("item") // 3, maintain_order=True).agg(pl.col("correct").mean(), pl.len())
        if (triples["len"] == len(KINDS)).all():
            return triples["correct"].to_numpy()
    return judged["correct"].cast(pl.Float64).to_numpy()


def _comparisons(source: str, new: Mapping[str, pl.DataFrame]) -> Iterator[Row]:
    """The types of new pairs against each other, on the original pairs that they share."""
    for one, other in combinations([kind for kind in KINDS if kind in new], 2):
        both = _by_pair(new[one]).join(_by_pair(new[other]), on="pair", suffix="_other")
        if not both.is_empty():
            first, second = both["correct"].to_numpy(), both["correct_other"].to_numpy()
            split = f"{one}{VERSUS}{other}"
            yield source, NEW, split, f"{DIFFERENCE}:accuracy", *paired_difference(first, second), len(both)
            yield source, NEW, split, f"{P_VALUE}:accuracy", mcnemar(first, second), None, None, len(both)


def _by_pair(judged: pl.DataFrame) -> pl.DataFrame:
    return judged.select(pair=pl.col("item") // 3, correct="correct")
