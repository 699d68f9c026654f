"""What a user chooses among. Quick to import, as `--help` shows it."""

from enum import StrEnum

BLIMP = "blimp"
"""The data set that a user names in the place of a file."""


class Method(StrEnum):
    """How a masked language model scores a sentence; see `queries`."""

    ORIGINAL = "original"
    WITHIN_WORD = "within-word-l2r"
