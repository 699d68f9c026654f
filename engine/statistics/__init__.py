"""Intervals and paired tests that allow for clusters, corrections, power; the quantiles come from SciPy."""

LIBRARIES = ("scipy.special",)
"""What these functions import when they are called first: it takes longer than all else that they do."""
