"""Corrections of p-values for the number of tests."""

import numpy as np
from numpy.typing import NDArray


def holm(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """p-values adjusted for their number (Holm 1979, Scandinavian Journal of Statistics 6, 65-70).

    In ascending order the i-th of m is multiplied by m - i + 1; none may be below the one before, nor above 1.
    SciPy does not have this correction.

    Args:
        p: float64 [m].

    Returns:
        float64 [m], in the order given.
    """
    order = np.argsort(p, kind="stable")
    factors = len(p) - np.arange(len(p))
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return adjusted
