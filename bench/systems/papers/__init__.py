"""Systems that do what the papers of `negengine lama`, `diagnostics`, `gh22` and `nli` do.

For each paper: its own program, as its authors wrote it (with the model class of today's transformers); a batched loop
in PyTorch, which computes the same; our engine, as a finished run with all its files; and the models alone, on ids that
are there already. So what a model costs and what everything around it costs are told apart.
"""

from .. import LOOP, OURS, ROW

__all__ = ["ALONE", "INT8_ALONE", "LOOP", "LOOP_ALONE", "OURS", "OURS_ALONE", "PAPER", "ROW"]

PAPER = "the paper's program"
LOOP_ALONE, OURS_ALONE, INT8_ALONE = "PyTorch, model alone", "ours, model alone", "ours, int8 model alone"
ALONE = (LOOP_ALONE, OURS_ALONE)
"""Systems that answer with the first choice at each mask, and not with the paper's results."""
