"""Parameters of which `make test` takes a few and `make test-all` takes every one."""

from collections.abc import Iterable

import pytest


def few(values: Iterable, *kept) -> list:
    """All values as parameters; those that are not kept have the mark `everything`."""
    values = list(values)
    assert set(kept) <= set(values)
    marks = [() if value in kept else pytest.mark.everything for value in values]
    split = [value if isinstance(value, tuple) else (value,) for value in values]
    return [pytest.param(*value, marks=own) for value, own in zip(split, marks, strict=True)]
