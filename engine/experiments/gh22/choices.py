"""The choices of the command `gh22`. Quick to import."""

from enum import StrEnum


class Variant(StrEnum):
    """A set of patterns; the value is the condition in items and summary."""

    ORIGINAL = "original"
    """Table 2 of the paper."""
    CONNECTIVE = "connective"
    """A connective begins the target (Table 1)."""
    COORDINATED = "coordinated"
    """The context has three verbs (footnote 2)."""
