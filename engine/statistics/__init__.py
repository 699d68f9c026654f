"""Intervals, paired tests and corrections over the items of an experiment; the quantiles come from SciPy."""

LIBRARIES = ("scipy.special",)
"""What these functions import when they are called first: it takes longer than all else that they do."""
