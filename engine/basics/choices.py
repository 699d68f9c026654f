"""What a user chooses among, for the commands and the library alike. Quick to import, as `--help` shows it."""

from enum import StrEnum
from pathlib import Path
from pkgutil import iter_modules


class Task(StrEnum):
    """What a model is exported for."""

    FILL_MASK = "fill-mask"
    TEXT_GENERATION = "text-generation"
    TEXT_CLASSIFICATION = "text-classification"
    TOKEN_CLASSIFICATION = "token-classification"  # noqa: S105 - not a password


LANGUAGE_MODELS = (Task.FILL_MASK, Task.TEXT_GENERATION)
"""The tasks of models that predict a token in a sentence."""


class Precision(StrEnum):
    """How a run decides."""

    AUTO = "auto"
    """Mixed if it is faster in a large run, by the processor's instruction sets and the calibration; else fp32."""
    FP32 = "fp32"
    """The reference model alone."""
    MIXED = "mixed"
    """A low-precision model where the margin is wide, the reference model where it is narrow."""


TABLE = "table"
"""The output format of a terminal; the others are files in `engine/views/` too."""


def output_formats() -> list[str]:
    """What `--format` takes: NAME for each file `engine/views/to_NAME.py`."""
    folder = str(Path(__file__).parents[1] / "views")
    return sorted(name.removeprefix("to_") for _, name, _ in iter_modules([folder]) if name.startswith("to_"))


class Coreference(StrEnum):
    """Whom the target sentence is about (section 4 of the paper)."""

    PRONOUN = "pronoun"
    """The pronoun of the name's gender: the base test."""
    SAME_NAME = "same-name"
    """The name of the context again: co-reference is forced."""
    SAME_GENDER = "same-gender"
    """Another name of the same gender: co-reference is ruled out."""
    OTHER_GENDER = "other-gender"
    """A name of the other gender: co-reference is ruled out."""


class TargetMethod(StrEnum):
    """How a word of several tokens gets its log-probability."""

    LEFT_TO_RIGHT = "left-to-right"
    """One mask a token, filled from left to right with the word's own tokens (Kauf and Ivanova 2023)."""
    ALL_MASKS = "all-masks"
    """One mask a token, and all of them stay masks."""
    WHOLE_WORD = "whole-word"
    """From left to right, renormalised over the tokens that can stand there (Pimentel and Meister 2024)."""


class VerbConvention(StrEnum):
    """The rule for verbs that a model can predict."""

    IN_CONTEXT = "in-context"
    """Verbs that are exactly one token at the mask of the sentence."""
    BARE = "bare"
    """Those of them that are also one token alone."""
    WHOLE_WORDS = "whole-words"
    """Those of `in-context`, and apart from them the verbs of several tokens."""
