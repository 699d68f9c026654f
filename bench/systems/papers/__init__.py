"""Systems that do what the papers of `lama`, `diagnostics`, `gh22` and `nli` do; `bench/papers.py` describes them."""

from .. import LOOP, OURS, ROW

__all__ = ["ALONE", "INT8_ALONE", "LOOP", "LOOP_ALONE", "OURS", "OURS_ALONE", "PAPER", "ROW"]

PAPER = "the paper's program"
LOOP_ALONE, OURS_ALONE, INT8_ALONE = "PyTorch, model alone", "ours, model alone", "ours, int8 model alone"
ALONE = (LOOP_ALONE, OURS_ALONE)
"""Systems that answer with the first choice at each mask, and not with the paper's results."""
