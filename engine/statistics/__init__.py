"""Intervals, paired tests and corrections over the items of a probe; the numbers come from SciPy."""

from .clusters import cluster_interval, effective_sample_size
from .corrections import holm
from .intervals import CONFIDENCE, grouped_mean, mean, proportion, relative_drop_interval
from .paired import mcnemar, paired_difference, wilcoxon

__all__ = [
    "CONFIDENCE",
    "cluster_interval",
    "effective_sample_size",
    "grouped_mean",
    "holm",
    "mcnemar",
    "mean",
    "paired_difference",
    "proportion",
    "relative_drop_interval",
    "wilcoxon",
]
