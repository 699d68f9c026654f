"""From the items of the diagnostics to the rows of summary.parquet; values are fractions.

    dataset       condition                                split                       metric
    CPRAG-102     original                                 all, H, L                   every one
                  truncated, shuffled, shuffled-truncated  all, H, L                   accuracy@k, outside:accuracy
                  shuffled, shuffled-truncated             all, H, L                   sd:accuracy@k
                  shuffled, shuffled-truncated             draw-1, draw-2 …            accuracy@k, outside:accuracy
    ROLE-88       original                                 all                         every one
                  original                                 cloze-1 to cloze-4          accuracy@k, outside:accuracy
                  -Obj, -Sub, -ObjSub                      all, cloze-1 to cloze-4     accuracy@k, outside:accuracy
    NEG-136-SIMP  original                                 all, affirmative            every one
                  original                                 negative                    sensitivity, outside:sensitivity
    NEG-136-NAT   as SIMP, and splits licensed, unlicensed, affirmative-licensed …

`outside:` is the share of items with a word that is not one token of the model. H and L are the highly and the less
constraining contexts. The bins go from cloze-1, the contexts in which fewest people gave the expected word, to cloze-4.
Negative contexts do not have an expected word. A shuffled value is the mean over draws; `sd:` is the standard deviation
between the draws (divided by their number, as upstream). `original vs …` and `affirmative vs negative` are the paired
tests. For shuffles they use the first draw, so that each item has one outcome. Clusters are the rows of a file: the
draws of one context, the two polarities of one sentence. In ROLE-88 they are the pairs of contexts with the same words.
"""

import polars as pl

from ..items import ALL, ORIGINAL, by_split
from ..summary import Contrast, Row, contrasts, frame, means, with_holm
from .files import CPRAG, LICENSING, NAT, ROLE, SIMP
from .items import CPRAG_PERTURBED, POLARITIES, ROLE_PERTURBED, TRUNCATED
from .judged import ACCURACIES, BEYOND_THRESHOLD, METRICS, SENSITIVITY

OUTSIDE_ACCURACY, OUTSIDE_SENSITIVITY = "outside:accuracy", "outside:sensitivity"
SPREAD = "sd:"
_FIRST_DRAW = "draw-1"


def summarise(items: pl.DataFrame) -> pl.DataFrame:
    """The summary of a run's items."""
    counted = items.with_columns(
        (pl.col("outside_expected") != "").alias(OUTSIDE_ACCURACY),
        (pl.col("outside_compared") != "").alias(OUTSIDE_SENSITIVITY),
    )
    # Only the contexts of ROLE-88 are themselves the same in two conditions; elsewhere it is the row of the file.
    same = pl.when(pl.col("dataset") == ROLE).then("item").otherwise("cluster")
    rows = [
        *means(counted, (*METRICS, OUTSIDE_ACCURACY, OUTSIDE_SENSITIVITY)),
        *_spreads(items),
        *contrasts(items.with_columns(item=same), _contrasts()),
    ]
    return with_holm(frame(rows))


def _spreads(items: pl.DataFrame) -> list[Row]:
    """The standard deviations between the accuracies of several draws."""
    keys = ("dataset", "condition", "splits")
    drawn = by_split(items.filter(pl.col("draw").is_not_null())).filter(~pl.col("splits").str.starts_with("draw-"))
    accuracies = drawn.group_by(*keys, "draw", maintain_order=True).agg(pl.col(*ACCURACIES).mean())
    spread = accuracies.group_by(*keys, maintain_order=True).agg(pl.col(*ACCURACIES).std(ddof=0), n=pl.len())
    return [
        Row(row["dataset"], row["condition"], row["splits"], f"{SPREAD}{metric}", row[metric], None, None, row["n"])
        for row in spread.filter(pl.col("n") > 1).iter_rows(named=True)
        for metric in ACCURACIES
    ]


def _contrasts() -> list[Contrast]:
    cprag = [(TRUNCATED, ALL), *((condition, _FIRST_DRAW) for condition in CPRAG_PERTURBED if condition != TRUNCATED)]
    role = [(condition, ALL) for condition in ROLE_PERTURBED]
    perturbed = [
        Contrast(dataset, metric, (ORIGINAL, ALL), perturbation)
        for dataset, perturbations in ((CPRAG, cprag), (ROLE, role))
        for perturbation in perturbations
        for metric in ACCURACIES
    ]
    affirmative, negative = POLARITIES
    polarities = [
        Contrast(dataset, metric, (ORIGINAL, f"{affirmative}{kind}"), (ORIGINAL, f"{negative}{kind}"))
        for dataset, kinds in ((SIMP, ("",)), (NAT, ("", *(f"-{kind}" for kind in LICENSING.values()))))
        for kind in kinds
        for metric in (SENSITIVITY, BEYOND_THRESHOLD)
    ]
    return [*perturbed, *polarities]
