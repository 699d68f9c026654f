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


LANGUAGE_MODELS = (Task.FILL_MASK, Task.TEXT_GENERATION)  # they predict a token in a sentence


class Precision(StrEnum):
    """How a run decides."""

    AUTO = "auto"  # mixed if it is faster in a large run, by the instruction sets and the calibration; else fp32
    FP32 = "fp32"  # the reference model alone
    MIXED = "mixed"  # a low-precision model where the margin is wide, the reference model where it is narrow


TABLE = "table"  # the output format of a terminal


_ENGINE = Path(__file__).parents[1]


def output_formats() -> list[str]:
    """What `--format` takes: NAME for each file `engine/views/to_NAME.py`."""
    names = (name for _, name, _ in iter_modules([str(_ENGINE / "views")]))
    return sorted(name.removeprefix("to_") for name in names if name.startswith("to_"))


def devices_help() -> str:
    """What `--device` takes: auto, and NAME for each file `engine/inference/devices/NAME.py`."""
    names = sorted(name for _, name, _ in iter_modules([str(_ENGINE / "inference" / "devices")]))
    return f"auto, {', '.join(names)}; of several devices, KIND:INDEX names one, such as cuda:1"


class Coreference(StrEnum):
    """Whom the target sentence is about (section 4 of the paper)."""

    PRONOUN = "pronoun"  # of the name's gender: the base test
    SAME_NAME = "same-name"  # the name of the context again: co-reference is forced
    SAME_GENDER = "same-gender"  # another name of the same gender: co-reference is ruled out
    OTHER_GENDER = "other-gender"  # a name of the other gender: co-reference is ruled out


class TargetMethod(StrEnum):
    """How a word of several tokens gets its log-probability."""

    # One mask a token, filled from left to right with the word's own tokens (Kauf and Ivanova 2023).
    LEFT_TO_RIGHT = "left-to-right"
    ALL_MASKS = "all-masks"  # one mask a token, and all of them stay masks
    # From left to right, renormalised over the tokens that can stand there (Pimentel and Meister 2024).
    WHOLE_WORD = "whole-word"


class VerbConvention(StrEnum):
    """The rule for verbs that a model can predict."""

    IN_CONTEXT = "in-context"  # exactly one token at the mask of the sentence
    BARE = "bare"  # those of them that are also one token alone
    SEVERAL_TOKENS = "several-tokens"  # those of several tokens, each of which can be asked for
