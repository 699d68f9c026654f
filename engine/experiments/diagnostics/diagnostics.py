"""What does a model predict where people's predictions are known? Ettinger (2020), `negengine diagnostics`.

Metrics, as in upstream's code:

    accuracy@k        one of the k most probable tokens, of the whole vocabulary, is an expected word
    sensitivity       the good completion is more probable than each bad one
    sensitivity>0.01  by more than 0.01
    outside:…         the share of items with a word that is not one token of the model; it counts as wrong
    sd:…              of a shuffled value, the mean over draws: the standard deviation between draws (ddof 0)

Splits: H and L are the highly and the less constraining contexts; in cloze-1 fewest people gave the expected word.
Paired tests of shuffles use the first draw. Clusters are rows of a file; in ROLE-88 pairs with the same words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
import polars as pl

from ...inference.audit import audit_sentences, audit_summary
from ...inference.free_text import MASK
from ...library.again import Draw, Sample
from ...library.recount import Recount, holds
from ...library.sentences import CORRECT
from ...requests.items import ALL, ITEM_SCHEMA, ORIGINAL, SEPARATOR, by_split, joined, top_schema
from ...requests.summary import Contrast, Row, contrasts, frame, means, with_holm
from ...views import Column, Section, Table
from ..ask import Answers, Asked, Question
from ..data_sets.sources import find
from ..experiment import DATA_FOLDER, SEED, Option
from ..finished_run import AskedRun, descending, item_once
from ..finished_run import means as recounted_means
from ..view import BESIDE, Chart, Values, View, differences
from .contexts import (
    BINS,
    CONSTRAINTS,
    CPRAG,
    CPRAG_PERTURBED,
    DATASETS,
    LICENSING,
    NAT,
    POLARITIES,
    ROLE,
    ROLE_PERTURBED,
    SIMP,
    TRUNCATED,
    Dataset,
    Item,
    Rows,
    build_items,
    read_diagnostics,
)

CUTS = (1, 5)
THRESHOLD = 0.01
SENSITIVITY, BEYOND_THRESHOLD = "sensitivity", f"sensitivity>{THRESHOLD}"
ACCURACIES = tuple(f"accuracy@{k}" for k in CUTS)
METRICS = (*ACCURACIES, SENSITIVITY, BEYOND_THRESHOLD)
OUTSIDE_ACCURACY, OUTSIDE_SENSITIVITY = "outside:accuracy", "outside:sensitivity"
SPREAD = "sd:"
TOP = max(CUTS)
COMPARED = ("good", "bad", "bad2")
SCHEMA: Mapping[str, Any] = {
    **ITEM_SCHEMA,
    "draw": pl.Int32,
    **dict.fromkeys(METRICS, pl.Boolean),
    "query": pl.String,
    "expected": pl.String,
    "rank": pl.Int32,
    **top_schema(TOP, what="probability"),
    **{f"{one}{what}": kind for one in COMPARED for what, kind in (("", pl.String), ("_probability", pl.Float32))},
    "outside_expected": pl.String,
    "outside_compared": pl.String,
}
TOPS = [name for name in top_schema(TOP, what="probability") if "_" in name]
AFFIRMATIVE, NEGATIVE = POLARITIES
KEYS = ("dataset", "condition", "split")
_NAMES = [Column("data", "dataset"), Column("condition", "condition"), Column("split", "split"), Column("n", "n")]
_OUTSIDE = "outside: items with a word that is not one token of the model; it counts as wrong"
DIFFERENCES = differences("by sign flips of clusters")
_WHOLE = (pl.col("split") == ALL) & pl.col("dataset").is_in([CPRAG, ROLE])
_DENIED = (pl.col("split") == NEGATIVE) & (pl.col("metric") == SENSITIVITY)


def _keys(*rows: tuple[str, str, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=KEYS, orient="row")


ACCURACY = View(
    "Expected word among the first k: {model} (%)",
    KEYS,
    [
        *_NAMES,
        *(Values(f"@{k}", f"accuracy@{k}", spread=f"{SPREAD}accuracy@{k}", paper=BESIDE) for k in CUTS),
        Values("outside", OUTSIDE_ACCURACY),
    ],
    rows=_keys(
        *((CPRAG, condition, ALL) for condition in (ORIGINAL, *CPRAG_PERTURBED)),
        *((CPRAG, ORIGINAL, split) for split in CONSTRAINTS),
        *((ROLE, condition, ALL) for condition in (ORIGINAL, *ROLE_PERTURBED)),
        *((ROLE, ORIGINAL, split) for split in BINS),
        *((dataset, ORIGINAL, AFFIRMATIVE) for dataset in (SIMP, NAT)),
    ),
    section="dataset",
    notes=[f"±: standard deviation between the shuffles; {_OUTSIDE}"],
)
PREFERENCE = View(
    "Good completion more probable than the bad: {model} (%)",
    KEYS,
    [
        *_NAMES,
        Values("preferred", SENSITIVITY, interval=True, paper=BESIDE),
        Values(f"> {THRESHOLD}", BEYOND_THRESHOLD, paper=BESIDE),
        Values("outside", OUTSIDE_SENSITIVITY),
    ],
    rows=_keys(
        *((CPRAG, ORIGINAL, split) for split in (ALL, *CONSTRAINTS)),
        (ROLE, ORIGINAL, ALL),
        *((dataset, ORIGINAL, polarity) for dataset in (SIMP, NAT) for polarity in POLARITIES),
        *((NAT, ORIGINAL, f"{polarity}-{kind}") for kind in LICENSING.values() for polarity in POLARITIES),
    ),
    section="dataset",
    notes=[f"> {THRESHOLD}: preferred by more than that; {_OUTSIDE}"],
)
MAIN = View(
    "Diagnostics: {model} (%)",
    ("dataset",),
    [
        Column("data set", "dataset"),
        *(Values(f"@{k}", f"accuracy@{k}") for k in CUTS),
        Values("preferred", SENSITIVITY, interval=True),
        Values("negated", NEGATIVE, interval=True),
    ],
    where=(pl.col("condition") == ORIGINAL) & (_WHOLE | pl.col("split").is_in(POLARITIES)),
    also={"metric": pl.when(_DENIED).then(pl.lit(NEGATIVE)).otherwise("metric")},
    notes=[
        "@k: the expected word is among the first k, in affirmative contexts",
        "preferred: the good completion is more probable than the bad; negated: the same in negated contexts",
        "-v shows all tables",
    ],
)


CHARTS = [Chart("sensitivity", SENSITIVITY, "good completion preferred (%)", rows=PREFERENCE.rows, domain=(0, 100))]
CHARTS += [Chart(f"accuracy-{k}", f"accuracy@{k}", f"accuracy@{k} (%)", rows=ACCURACY.rows, domain=(0, 100))
           for k in CUTS]  # fmt: skip


@dataclass(frozen=True, eq=False)
class DiagnosticsRun(AskedRun):
    """A finished run: `items` has one row for each context, its perturbed copies, or a pair of contexts."""

    stage: ClassVar[str] = "diagnostics"
    clusters: ClassVar[str] = "contexts"
    metrics: ClassVar[Sequence[str]] = METRICS
    condition_keys: ClassVar[Sequence[str]] = ("data sha256", "draws", "seed")

    def tables(self) -> list[Table]:
        return [view.table(self) for view in (ACCURACY, PREFERENCE, DIFFERENCES, MAIN)]

    def main_tables(self) -> list[Table]:
        return [MAIN.table(self)]

    def methods(self, test: str) -> str:
        return (
            f"We ran the diagnostics of {test}. Accuracy of the expected word among the five most probable tokens, "
            f"with 95 % intervals: {self.told(ORIGINAL, ALL, 'accuracy@5')}. Share of items in which the good "
            f"completion is more probable than the bad one: {self.told(ORIGINAL, ALL, SENSITIVITY)}."
        )

    def remarks(self) -> list[str]:
        columns = [self.items.select("dataset", word=name) for name in ("outside_expected", "outside_compared")]
        words = pl.concat(columns).with_columns(pl.col("word").str.split(SEPARATOR)).explode("word")
        found = words.filter(pl.col("word") != "").unique().sort("word").group_by("dataset").agg("word")
        known = dict(found.iter_rows())
        return [
            f"{dataset}: words that are not one token of the model: {len(known[dataset])} "
            f"({', '.join(known[dataset][:8])}{', …' if len(known[dataset]) > 8 else ''})"
            for dataset in DATASETS
            if dataset in known
        ] + audit_sentences(audit_summary(self.record.counts))

    def sentence_rows(self) -> pl.LazyFrame:
        """One text for each item; for a pair of contexts (ROLE-88) the context that the word fits.

        An item fails if none of its expected words is the first choice; without such words, if the word that fits is
        not the more probable one.
        """
        accuracy, cut = ACCURACIES[0], pl.col("query").str.split(MASK)
        fits = pl.col("good").str.strip_prefix(cut.list.first()).str.strip_suffix(cut.list.last())
        own = ("dataset", "splits", "cluster", "draw", *ACCURACIES[1:], SENSITIVITY, BEYOND_THRESHOLD)
        compared = (f"{one}{what}" for one in COMPARED for what in ("", "_probability"))
        return self.texts(
            self.items.lazy(),
            expected=pl.coalesce("expected", fits),
            **{CORRECT: pl.col(accuracy)},
            failed=~pl.coalesce(accuracy, SENSITIVITY),
            logprob=pl.when(pl.coalesce("expected", fits) == fits).then(_logarithm("good_probability")),
            answer_logprob=_logarithm("top1_probability"),
            **{name: name for name in (*own, *compared, *list(top_schema(TOP, what="probability"))[2:])},
        )

    def again(self, draw: Draw) -> Iterator[Sample]:
        rows = draw.rows(self.sentence_rows())
        yield Sample("items", [draw.question(row, row["expected"].split(SEPARATOR)) for row in rows])

    def recounts(self) -> Iterator[Recount]:
        items = self.items
        yield item_once(items)
        for k in CUTS:
            within = (pl.col("rank") <= k).fill_null(value=False) == pl.col(f"accuracy@{k}")
            yield holds(f"an expected word is among the first {k} where its rank says so", items, within)
        yield from descending(items, TOPS)
        probabilities = [*TOPS, *(f"{one}_probability" for one in COMPARED)]
        within = pl.all_horizontal(pl.col(name).is_between(0, 1).fill_null(value=True) for name in probabilities)
        yield holds("probabilities are between 0 and 1", items, within)
        given = [(pl.col(one), pl.col(f"{one}_probability")) for one in COMPARED]
        missing = pl.any_horizontal(one.is_not_null() & own.is_null() for one, own in given)  # a word is not one token
        (_, good), *bad = given
        for metric, threshold in ((SENSITIVITY, 0.0), (BEYOND_THRESHOLD, THRESHOLD)):
            smallest = pl.min_horizontal(good - own for _, own in bad) - threshold
            # Probabilities are compared in fp64, and stored in fp32.
            clear = pl.when(~missing & (smallest.abs() > 1e-6)).then(pl.col(metric) == (smallest > 0))
            follows = pl.when(missing).then(~pl.col(metric)).otherwise(clear)
            yield holds(f"{metric} follows from the probabilities", items, follows)
        yield recounted_means(self.summary, items, METRICS)


@dataclass(frozen=True, eq=False)
class Diagnostics(Asked[Item]):
    """Compare a model's predictions with people's predictions (Ettinger 2020)."""

    name = "diagnostics"
    title = "Diagnostics of Ettinger (2020)"
    asks = (
        "Sentences of experiments with people end with a missing word. Does the model prefer the word that "
        "fits, also after a negation?"
    )
    references = "negengine.engine.experiments.diagnostics:references.toml"
    example = "negengine diagnostics mini --dataset ROLE-88"
    results = DiagnosticsRun
    metrics = METRICS
    top = TOP
    items_per_part = 128

    data: Annotated[str | Path | None, DATA_FOLDER] = None
    dataset: Annotated[
        str | Sequence[str], Option("Data set to run (default: all); may be repeated.", kind=list[Dataset])
    ] = ()
    draws: Annotated[int, Option("Number of shuffles of each context.", metavar="N", minimum=1, maximum=1_000)] = 3
    seed: Annotated[int, SEED] = 0

    @cached_property
    def read(self) -> Rows:
        path = find("lm-diagnostics", None if self.data is None else Path(self.data))
        return read_diagnostics(path, list(self.dataset))

    @cached_property
    def items(self) -> Sequence[Item]:
        return build_items(self.read, draws=self.draws, seed=self.seed)

    @property
    def identity(self) -> dict[str, Any]:
        return {"data sha256": self.read.sha256, "draws": self.draws, "seed": self.seed}

    def questions(self, item: Item) -> list[Question]:
        return [Question((one.text,), (one.word,)) for one in item.completions]

    def rows(self, items: Sequence[Item], answers: Answers) -> pl.DataFrame:
        return pl.DataFrame([_row(item, answers) for item in items], schema=SCHEMA)

    @classmethod
    def summarise(cls, items: pl.DataFrame) -> pl.DataFrame:
        counted = items.with_columns(
            (pl.col("outside_expected") != "").alias(OUTSIDE_ACCURACY),
            (pl.col("outside_compared") != "").alias(OUTSIDE_SENSITIVITY),
        )
        keys = ("dataset", "condition", "splits")
        drawn = by_split(items.filter(pl.col("draw").is_not_null())).filter(~pl.col("splits").str.starts_with("draw-"))
        accuracies = drawn.group_by(*keys, "draw", maintain_order=True).agg(pl.col(*ACCURACIES).mean())
        spread = accuracies.group_by(*keys, maintain_order=True).agg(pl.col(*ACCURACIES).std(ddof=0), n=pl.len())
        spreads = [
            Row(dataset, condition, split, f"{SPREAD}{metric}", value, None, None, n)
            for dataset, condition, split, *values, n in spread.filter(pl.col("n") > 1).iter_rows()
            for metric, value in zip(ACCURACIES, values, strict=True)
        ]
        shuffled = [(one, "draw-1") for one in CPRAG_PERTURBED if one != TRUNCATED]
        perturbed = {CPRAG: [(TRUNCATED, ALL), *shuffled], ROLE: [(one, ALL) for one in ROLE_PERTURBED]}
        wanted = [
            Contrast(dataset, metric, (ORIGINAL, ALL), perturbation)
            for dataset, perturbations in perturbed.items()
            for perturbation in perturbations
            for metric in ACCURACIES
        ]
        wanted += [
            Contrast(dataset, metric, (ORIGINAL, f"{AFFIRMATIVE}{kind}"), (ORIGINAL, f"{NEGATIVE}{kind}"))
            for dataset, kinds in ((SIMP, ("",)), (NAT, ("", *(f"-{kind}" for kind in LICENSING.values()))))
            for kind in kinds
            for metric in (SENSITIVITY, BEYOND_THRESHOLD)
        ]
        # Only the contexts of ROLE-88 are themselves the same in two conditions; elsewhere it is the row of the file.
        same = pl.when(pl.col("dataset") == ROLE).then("item").otherwise("cluster")
        whole = means(counted, (*METRICS, OUTSIDE_ACCURACY, OUTSIDE_SENSITIVITY))
        return with_holm(frame([*whole, *spreads, *contrasts(items.with_columns(item=same), wanted)]))

    @staticmethod
    def sections(run: DiagnosticsRun) -> list[Section]:
        accuracy, _, tests, main = run.tables()
        preferred, *accuracies = (chart.figure(run) for chart in CHARTS)
        among = "How often is the expected word among the first?"
        said = [
            f"{row['dataset']}: the true completion is preferred in {100 * row[SENSITIVITY]:.1f} % of the affirmative "
            f"contexts and in {100 * row[NEGATIVE]:.1f} % of the negative ones"
            + (": the model mostly ignores “not”." if row[NEGATIVE] < 0.5 <= row[SENSITIVITY] else ".")
            for row in main.frame.drop_nulls(NEGATIVE).iter_rows(named=True)
        ]
        return [
            Section("Does the model prefer the good completion?", said, [preferred]),
            Section(among, figures=accuracies, tables=[accuracy], notes=run.remarks()),
            Section("What changes between two conditions?", tables=[tests]),
        ]


def _row(item: Item, answers: Answers) -> dict[str, Any]:
    def outside(words: Sequence[str], ranks: Sequence[int]) -> str:
        return joined(dict.fromkeys(word for word, rank in zip(words, ranks, strict=True) if not rank))

    known = {one: answers.of_word(answers.rows[one.text,], one.word) for one in item.completions}
    first = item.completions[0].text
    row: dict[str, Any] = {
        "dataset": item.dataset,
        "condition": item.condition,
        "item": item.item,
        "splits": joined(item.splits),
        "cluster": item.cluster,
        "draw": item.draw,
        "query": first,
    }
    for name, value in answers.tops(answers.rows[first,]).items():
        row[name.replace("logprob", "probability")] = value if isinstance(value, str) else float(np.exp(value))
    if item.expected:
        words, ranks = [one.word for one in item.expected], [known[one][0] for one in item.expected]
        rank = min((rank for rank in ranks if rank), default=None)
        row |= {f"accuracy@{k}": rank is not None and rank <= k for k in CUTS}
        row |= {"expected": joined(words), "rank": rank, "outside_expected": outside(words, ranks)}
    if item.compared:
        # Not a number for a word that is not one token: comparisons with it are false, differences with it too.
        good, *bad = chances = [float(np.exp(known[one][1])) for one in item.compared]
        row[SENSITIVITY] = all(good > chance for chance in bad)
        row[BEYOND_THRESHOLD] = all(good - chance > THRESHOLD for chance in bad)
        row["outside_compared"] = outside([one.word for one in item.compared], [known[one][0] for one in item.compared])
        for name, one, chance in zip(COMPARED, item.compared, chances, strict=False):
            row |= {name: one.sentence, f"{name}_probability": None if np.isnan(chance) else chance}
    return row


def _logarithm(probability: str) -> pl.Expr:
    """The natural logarithm; null where the probability is too small to be recorded."""
    return pl.when(pl.col(probability) > 0).then(pl.col(probability).log())
