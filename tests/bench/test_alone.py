"""What is measured without other programs: exports, intervals, the least work."""

import numpy as np
import pytest
from negengine.bench import export, run
from negengine.bench.ceiling import least_flops
from simulated_intervals import coverage, markdown


@pytest.mark.everything
def test_the_costs_of_an_export_are_measured_beside_plain_optimum(tmp_path):
    found = export.measure(["bert-base-shape"], folder=tmp_path)
    assert [cost["system"] for cost in found["export"]] == list(export.SYSTEMS) == ["negengine", "Optimum"]
    for cost in found["export"]:
        assert min(cost["seconds"], cost["cpu_seconds"]) > 0
        assert 1e8 < cost["peak_bytes"] < 1e11  # bytes, on every system
        assert cost["disk_bytes"] > 13_000 * 32 * 4  # the word embeddings at least
    assert export.table(found).frame.height == 2


def test_coverage_counts_the_intervals_that_hold_the_truth():
    ends = iter([(0.0, 1.0), (0.2, 0.4), (0.5, 0.5), (0.6, 0.9)])
    assert coverage(4, lambda _: (0.5, [next(ends), (0, 1)]), seed=0) == [50, 100]


def test_the_tables_are_the_same_for_the_same_seed():
    text = markdown(2, seed=1, pairs=(6,))
    assert text == markdown(2, seed=1, pairs=(6,))
    assert sum(line.startswith("**") for line in text.splitlines()) == 13
    cells = [float(cell) for line in text.splitlines() if line.startswith("| 6 ") for cell in line.split("|")[2:-1]]
    assert set(cells) <= {0.0, 50.0, 100.0}
    assert np.mean(cells) > 50


def test_the_least_work_is_that_of_a_calculation_by_hand_and_of_the_exported_graph(mini):
    """One layer is the last one: L = 3, H = 2, I = 5, V = 7.

    K and V 2·3·4 = 24, query and output 2·4 = 8, feed-forward 2·2·5 = 20, attention of one row 2·3·2 = 12; head 4 + 14.
    With E = 1: widening 3·1·2 products, head 2·1 and 1·7.
    """
    one = least_flops(3, 1, 2, 5, 7)
    assert one == least_flops(3, 1, 2, 5, 7, embedding=2) == 2 * (24 + 8 + 20 + 12) + 2 * (4 + 14)
    assert least_flops(3, 2, 2, 5, 7) == one + 2 * (4 * 3 * 4 + 2 * 3 * 2 * 5 + 2 * 9 * 2)
    assert least_flops(3, 1, 2, 5, 7, embedding=1) == one + 2 * (6 + 2 + 7 - 4 - 14)
    flops = mini.info["flops"]
    assert flops["hoisted"] == pytest.approx(run.least(mini, flops["length"]), rel=1e-3)
