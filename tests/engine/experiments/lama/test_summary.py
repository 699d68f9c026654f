"""The summary of items whose figures can be checked by hand."""

import polars as pl
import pytest
from negengine.engine.experiments.items import joined
from negengine.engine.experiments.lama.lama import Lama


def test_means_and_contrasts_of_hand_made_items():
    """A has overlaps 1 1 0, B has 0: ½ over facts, (⅔ + 0) / 2 = ⅓ over relations.

    Precision: 1 in all four, misprimed 0 in all four. The facts are of two relations, so p = 2 / 2²; of three tests,
    one for each k, which are all alike here, so Holm's smallest is 3 · ½, which is 1 at most.
    """
    base = {"dataset": "TREx", "condition": "original"}
    rows = [
        base
        | {"item": str(i), "splits": joined(["all", relation]), "cluster": relation, "spearman": 1.0, "overlap@1": same}
        for i, (relation, same) in enumerate([("A", True), ("A", True), ("A", False), ("B", False)])
    ]
    primed = [row | {"condition": "misprimed-low", "spearman": None, "overlap@1": None} for row in rows]
    items = pl.DataFrame(
        [row | {f"precision@{k}": row["condition"] == "original" for k in (1, 5, 10)} for row in rows + primed]
    )
    rows = Lama.summarise(items).to_dicts()
    summary = {(row["condition"], row["split"], row["metric"]): row["value"] for row in rows}
    assert summary["original", "all", "overlap@1"] == 0.5
    assert summary["original", "all", "overlap@1-by-relation"] == pytest.approx(1 / 3)
    assert summary["original", "A", "overlap@1"] == pytest.approx(2 / 3)
    assert summary["original", "all", "precision@1"] == 1
    assert summary["misprimed-low", "all", "precision@10"] == 0
    assert summary["original vs misprimed-low", "all", "difference:precision@1"] == 1
    assert summary["original vs misprimed-low", "all", "p:precision@1"] == pytest.approx(1 / 2)
    assert summary["original vs misprimed-low", "all", "p_holm:precision@1"] == 1
    assert ("misprimed-low", "all", "spearman") not in summary
