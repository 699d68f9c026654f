"""The pattern sets of `gh22`, each with affirmative and negative patterns in pairs."""

import re
from enum import StrEnum
from pathlib import Path

from ...basics.errors import InputError
from ...text.pattern import SLOTS, VERB, PatternSet
from ...text.pattern_files import load_patterns


class Variant(StrEnum):
    """A set of patterns; the value is the condition in items and summary."""

    ORIGINAL = "original"
    """Table 2 of the paper."""
    CONNECTIVE = "connective"
    """A connective begins the target (Table 1)."""
    COORDINATED = "coordinated"
    """The context has three verbs (footnote 2)."""


ACT_SLOTS = (VERB, "ACT1", "ACT2")


_BUNDLED = {
    Variant.ORIGINAL: "gh22",
    Variant.CONNECTIVE: "gh22-connective",
    Variant.COORDINATED: "gh22-coordinated",
}


def load_variant(variant: Variant, path: Path | None = None) -> PatternSet:
    """The patterns of a variant: the bundled ones, or those of another TOML file.

    Raises:
        InputError: As for `load_patterns`; or the name of a scored pattern does not end in P or N; or its partner of
            the other polarity is missing.
    """
    source = path or _BUNDLED[variant]
    patterns = load_patterns(source, (*SLOTS, *ACT_SLOTS))
    names = {pattern.name for pattern in patterns.scored}
    for name in sorted(names):
        if not re.fullmatch(r".+[PN]", name) or name[:-1] + {"P": "N", "N": "P"}[name[-1]] not in names:
            raise InputError(
                f"{source}: pattern {name!r}: patterns come in pairs whose names end in P and N, such as 1P and 1N"
            )
    return patterns
