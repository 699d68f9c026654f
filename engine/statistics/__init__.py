"""Intervals, paired tests and corrections over the items of a probe; the numbers come from SciPy."""

from .clusters import (
    ClusteredMean,
    cluster_interval,
    cluster_sums,
    clustered_mean,
    crossed_mean,
    effective_sample_size,
    grouped_mean,
    proportion_interval,
    student_interval,
)
from .differences import Difference, Unpaired, combined, crossed_interval, paired_difference, unpaired_difference
from .intervals import CONFIDENCE, Estimate, exact_proportion_interval, mean, proportion, relative_drop_interval
from .p_values import SMALLEST_P, holm, sign_flips, smallest_p
from .power import clusters_needed, detectable, expected_design_effect, normal_quantiles

__all__ = [
    "CONFIDENCE",
    "LIBRARIES",
    "SMALLEST_P",
    "ClusteredMean",
    "Difference",
    "Estimate",
    "Unpaired",
    "cluster_interval",
    "cluster_sums",
    "clustered_mean",
    "clusters_needed",
    "combined",
    "crossed_interval",
    "crossed_mean",
    "detectable",
    "effective_sample_size",
    "exact_proportion_interval",
    "expected_design_effect",
    "grouped_mean",
    "holm",
    "mean",
    "normal_quantiles",
    "paired_difference",
    "proportion",
    "proportion_interval",
    "relative_drop_interval",
    "sign_flips",
    "smallest_p",
    "student_interval",
    "unpaired_difference",
]

LIBRARIES = ("scipy.special",)
"""What these functions import when they are called first: it takes longer than all else that they do."""
