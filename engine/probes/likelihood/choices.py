"""What a user chooses among. Quick to import, as `--help` shows it."""

from enum import StrEnum


class Method(StrEnum):
    """How a masked language model scores a sentence; see `queries`."""

    ORIGINAL = "original"
    WITHIN_WORD = "within-word-l2r"
