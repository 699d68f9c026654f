"""The pattern sets of `gh22`, each with affirmative and negative patterns in pairs, whose names end in P and N."""

from enum import StrEnum

from ...text.pattern import SLOTS, VERB, PatternSet
from ...text.pattern_files import load_patterns

ACT_SLOTS = (VERB, "ACT1", "ACT2")


class Variant(StrEnum):
    """A set of patterns; the value is the condition in items and summary."""

    ORIGINAL = "original"  # Table 2 of the paper
    CONNECTIVE = "connective"  # a connective begins the target (Table 1)
    COORDINATED = "coordinated"  # the context has three verbs (footnote 2)


def load_variant(variant: Variant) -> PatternSet:
    """The bundled patterns of a variant."""
    return load_patterns("gh22" if variant is Variant.ORIGINAL else f"gh22-{variant}", (*SLOTS, *ACT_SLOTS))
