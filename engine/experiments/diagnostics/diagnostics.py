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

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import polars as pl

from ...basics.atomic import sha256
from ...basics.numerals import percent
from ...inference.audit import audit_sentences, audit_summary
from ...inference.exported import ExportedModel
from ...requests.contrast import Contrast
from ...requests.items import ALL, ORIGINAL, OWN, WHY, by_split
from ...requests.metrics import of_item, role
from ...requests.summary import Cell, Row
from ...requests.word import SEVERAL, Word
from ...views import Column, Section, Table
from ..data_sets.sources import find
from ..experiment import DATA_FOLDER, SEED, Option
from ..requested import Requested, RequestedRun
from ..view import BESIDE, Chart, Values, View, differences
from .contexts import (
    BINS,
    COMPARED,
    CONSTRAINTS,
    CPRAG,
    CPRAG_PERTURBED,
    DATASETS,
    DRAW,
    LICENSING,
    NAT,
    POLARITIES,
    ROLE,
    ROLE_PERTURBED,
    SIMP,
    TRUNCATED,
    Dataset,
    Rows,
    read_diagnostics,
    requests_of,
)

CUTS = (1, 5)
THRESHOLD = 0.01
SENSITIVITY, BEYOND_THRESHOLD = "sensitivity", f"sensitivity>{THRESHOLD}"
ACCURACIES = tuple(f"accuracy@{k}" for k in CUTS)
OUTSIDE_ACCURACY, OUTSIDE_SENSITIVITY = "outside:accuracy", "outside:sensitivity"
SPREAD = "sd:"
TOP = max(CUTS)
GOOD, *BAD = COMPARED
AFFIRMATIVE, NEGATIVE = POLARITIES
CELLS = ("dataset", "condition", "split")
_NAMES = [Column("data", "dataset"), Column("condition", "condition"), Column("group", "split"), Column("n", "n")]
_OUTSIDE = "outside: items with a word that is not one token of the model; it counts as wrong"
DIFFERENCES = differences("by sign flips of clusters")
_WHOLE = (pl.col("split") == ALL) & pl.col("dataset").is_in([CPRAG, ROLE])
_DENIED = (pl.col("split") == NEGATIVE) & (pl.col("metric") == SENSITIVITY)


def _keys(*rows: tuple[str, str, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=CELLS, orient="row")


ACCURACY = View(
    "Expected word among the first k: {model}",
    CELLS,
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
    "Good completion more probable than the bad: {model}",
    CELLS,
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
    "Diagnostics: {model}",
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


CHARTS = [Chart("sensitivity", SENSITIVITY, "good completion preferred", rows=PREFERENCE.rows, domain=(0, 100))]
CHARTS += [Chart(f"accuracy-{k}", f"accuracy@{k}", f"accuracy@{k}", rows=ACCURACY.rows, domain=(0, 100))
           for k in CUTS]  # fmt: skip


EXPECTED, OUTSIDE, IS_COMPARED = pl.col("is_expected"), pl.col("tokens").is_null(), pl.col("role").is_not_null()


def accuracy(k: int) -> pl.Expr:
    """Whether an expected word is among the first k; one that is outside is not."""
    return of_item(pl.when(EXPECTED.any()).then((EXPECTED & (pl.col("rank") <= k)).any()))


def preferred(by: float = 0.0) -> pl.Expr:
    """Whether the good completion is more probable than each other one, by more than `by`; one outside never is."""
    good, bad = (role("logprob", *names).exp() for names in ((GOOD,), BAD))
    ahead = good.first() > bad.max() if not by else good.first() - bad.max() > by
    known = ~(OUTSIDE & IS_COMPARED).any()
    return of_item(pl.when(IS_COMPARED.any()).then((ahead & known).fill_null(value=False)))


def outside(asked: pl.Expr) -> pl.Expr:
    """Whether a word that is asked for is not one token of the model."""
    return of_item(pl.when(asked.any()).then((asked & OUTSIDE).any()))


@dataclass(frozen=True, eq=False)
class DiagnosticsRun(RequestedRun):
    """A finished run."""

    def tables(self) -> list[Table]:
        return [view.table(self) for view in (ACCURACY, PREFERENCE, DIFFERENCES, MAIN)]

    def main_tables(self) -> list[Table]:
        return [MAIN.table(self)]

    def methods(self, test: str) -> str:
        return (
            f"We ran the diagnostics of {test}. Accuracy of the expected word among the five most probable tokens: "
            f"{self.told(ORIGINAL, ALL, 'accuracy@5')}. Share of items in which the good "
            f"completion is more probable than the bad one: {self.told(ORIGINAL, ALL, SENSITIVITY)}."
        )

    def remarks(self) -> list[str]:
        words = self.items.filter(pl.col(WHY) == SEVERAL).select("dataset", "word").unique().sort("word")
        known = dict(words.group_by("dataset", maintain_order=True).agg("word").iter_rows())
        return [
            f"{dataset}: words that are not one token of the model: {len(known[dataset])} "
            f"({', '.join(known[dataset][:8])}{', …' if len(known[dataset]) > 8 else ''})"
            for dataset in DATASETS
            if dataset in known
        ] + audit_sentences(audit_summary(self.record.counts))


@dataclass(frozen=True, eq=False)
class Diagnostics(Requested):
    """Compare a model's predictions with people's predictions (Ettinger 2020)."""

    name = "diagnostics"
    title = "Diagnostics of Ettinger (2020)"
    asks = (
        "Sentences of experiments with people end with a missing word. Does the model prefer the word that "
        "fits, also after a negation?"
    )
    references = "negengine.engine.experiments.diagnostics:references.toml"
    example = "negengine diagnostics mini --dataset ROLE-88"
    clusters = "contexts"
    requests_per_part = 256
    results = DiagnosticsRun
    reads = "read"
    together = ()  # a word that is not one token counts as wrong
    metrics: ClassVar[Mapping[str, pl.Expr]] = {
        **{f"accuracy@{k}": accuracy(k) for k in CUTS},
        SENSITIVITY: preferred(),
        BEYOND_THRESHOLD: preferred(THRESHOLD),
        OUTSIDE_ACCURACY: outside(EXPECTED),
        OUTSIDE_SENSITIVITY: outside(IS_COMPARED),
    }
    compared = (*ACCURACIES, SENSITIVITY, BEYOND_THRESHOLD)
    also_read = ("draw",)
    # An item fails if none of its expected words is the first choice; without such words, if the word that fits is not
    # the more probable one.
    shown: ClassVar[Mapping[str, pl.Expr]] = {
        "correct": pl.when(EXPECTED).then("first"),
        "failed": ~pl.coalesce(ACCURACIES[0], SENSITIVITY),
    }

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

    @property
    def identity(self) -> dict[str, Any]:
        return {"data sha256": sha256(json.dumps(self.read).encode()), "draws": self.draws, "seed": self.seed}

    def kind(self, exported: ExportedModel) -> Word:  # noqa: ARG002 - part of the interface
        return Word(top=TOP)

    def requests(self, exported: ExportedModel) -> pl.DataFrame:  # noqa: ARG002 - part of the interface
        return requests_of(self.read, draws=self.draws, seed=self.seed)

    @classmethod
    def contrasts(cls, rows: pl.DataFrame) -> Iterator[Contrast]:  # noqa: ARG003 - part of the interface
        shuffled = [Cell(CPRAG, one, "draw-1", DRAW) for one in CPRAG_PERTURBED if one != TRUNCATED]
        for side in (Cell(CPRAG, TRUNCATED), *shuffled, *(Cell(ROLE, one) for one in ROLE_PERTURBED)):
            yield from (Contrast(metric, Cell(side.dataset, ORIGINAL), side) for metric in ACCURACIES)
        for dataset, kinds in ((SIMP, ("",)), (NAT, ("", *(f"-{kind}" for kind in LICENSING.values())))):
            for kind in kinds:
                one, other = (Cell(dataset, ORIGINAL, f"{polarity}{kind}", OWN) for polarity in POLARITIES)
                yield from (Contrast(metric, one, other) for metric in (SENSITIVITY, BEYOND_THRESHOLD))

    @classmethod
    def further(cls, rows: pl.DataFrame) -> Iterator[Row]:
        """Standard deviations between shuffles."""
        keys, metrics = Cell._fields, pl.col(*ACCURACIES)
        drawn = by_split(rows.drop_nulls("draw")).filter(pl.col("column").ne_missing(DRAW))
        means = drawn.group_by(*keys, "draw", maintain_order=True).agg(metrics.mean())
        spread = means.group_by(*keys, maintain_order=True).agg(metrics.std(ddof=0), n=pl.len())
        for dataset, condition, split, column, *values, n in spread.filter(pl.col("n") > 1).iter_rows():
            for metric, value in zip(ACCURACIES, values, strict=True):
                yield Row.of(Cell(dataset, condition, split, column), f"{SPREAD}{metric}", value, None, None, n)

    @classmethod
    def sections(cls, run: RequestedRun) -> list[Section]:
        accuracy, _, tests, main = run.tables()
        preferred, *accuracies = (chart.figure(run) for chart in CHARTS)
        among = "How often is the expected word among the first?"
        said = [
            f"{row['dataset']}: the true completion is preferred in {percent(row[SENSITIVITY])} % of "
            f"{row[f'{SENSITIVITY}_n']:,} affirmative contexts and in {percent(row[NEGATIVE])} % of "
            f"{row[f'{NEGATIVE}_n']:,} negative ones"
            + (": the model mostly ignores “not”." if row[NEGATIVE] < 0.5 <= row[SENSITIVITY] else ".")
            for row in main.frame.drop_nulls(NEGATIVE).iter_rows(named=True)
        ]
        return [
            Section("Does the model prefer the good completion?", said, [preferred]),
            Section(among, figures=accuracies, tables=[accuracy], notes=run.remarks()),
            Section("What changes between two conditions?", tables=[tests]),
        ]
