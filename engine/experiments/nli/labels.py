"""The labels of natural language inference: their names, and how two-way and three-way labels are compared.

The names of a classifier's labels are free. A classifier is used only if its names say which label is which; nothing is
guessed from the order. Where a classifier or a data set has two labels only, gold label and prediction are both scored
two-way: neutral and contradiction both become "not entailment", after the three-way decision (as for HANS, McCoy et al.
2019, section 4). Quick to import.
"""

import re
from collections.abc import Sequence
from enum import StrEnum

from ...errors import InputError


class Label(StrEnum):
    """A judgement about a hypothesis, given a text."""

    ENTAILMENT = "entailment"
    CONTRADICTION = "contradiction"
    NEUTRAL = "neutral"
    NOT_ENTAILMENT = "not_entailment"


class Source(StrEnum):
    """The data sets that pairs come from."""

    RTE = "RTE"
    SNLI = "SNLI"
    MNLI = "MNLI"


THREE_WAY = (Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL)  # in the order of the paper's Table 5
TWO_WAY = (Label.ENTAILMENT, Label.NOT_ENTAILMENT)
SOURCES = {str(Source.RTE): TWO_WAY, str(Source.SNLI): THREE_WAY, str(Source.MNLI): THREE_WAY}

# Compared without case, spaces, hyphens and underscores.
_SPELLINGS = {
    Label.ENTAILMENT: ("entailment", "entail", "entails", "entailed", "e"),
    Label.CONTRADICTION: ("contradiction", "contradict", "contradicts", "contradicted", "contradictory", "c"),
    Label.NEUTRAL: ("neutral", "neutrality", "unknown", "n"),
    Label.NOT_ENTAILMENT: (
        *("notentailment", "notentailed", "nonentailment", "nonentailed", "noentailment"),
        *("doesnotentail", "notentail", "notentails"),
    ),
}
_LABEL_OF = {spelling: label for label, spellings in _SPELLINGS.items() for spelling in spellings}


def parse_label(name: str) -> Label | None:
    """The label that a name stands for, or None if it does not stand for any."""
    return _LABEL_OF.get(re.sub(r"[\s_-]+", "", name).casefold())


def map_head(names: Sequence[str], model: str, given: str | None = None) -> tuple[Label, ...]:
    """Which label each logit of a classifier stands for.

    Args:
        names: The classifier's own names, in the order of its logits.
        model: The model's name, for messages.
        given: The labels in the order of the logits, separated by commas, if the classifier does not name them.

    Raises:
        InputError: The names are not those of two-way or three-way labels, or what was given does not fit.
    """
    if given is not None:
        words = [word.strip() for word in given.split(",")]
        if len(words) != len(names):
            raise InputError(f"--labels {given}: {len(words)} labels, but {model} has {len(names)}")
        mapped = [parse_label(word) for word in words]
        if (found := _scheme(mapped)) is None:
            raise InputError(f"--labels {given}: give {_expected()}, each once, in the order of the model's labels")
        return found
    if (found := _scheme([parse_label(name) for name in names])) is None:
        raise InputError(
            f"{model}: its labels are {', '.join(map(repr, names))}, but {_expected()} are needed; if they are other "
            "names for these, give --labels with the right names in the same order"
        )
    return found


def _scheme(labels: Sequence[Label | None]) -> tuple[Label, ...] | None:
    """The labels themselves, if they are all two-way or all three-way labels, each once."""
    known = tuple(label for label in labels if label is not None)
    fits = len(known) == len(labels) and sorted(known) in (sorted(THREE_WAY), sorted(TWO_WAY))
    return known if fits else None


def _expected() -> str:
    return f"{', '.join(THREE_WAY)} (or {' and '.join(TWO_WAY)})"


def common_scheme(head: Sequence[Label], gold: Sequence[Label]) -> tuple[Label, ...]:
    """The labels that a classifier and a data set can both be scored by."""
    return TWO_WAY if len(head) == 2 or len(gold) == 2 else THREE_WAY


def coarsen(label: Label, scheme: Sequence[Label]) -> Label:
    """A label in a scheme: in the two-way scheme, neutral and contradiction are not entailment."""
    return label if label in scheme else Label.NOT_ENTAILMENT
