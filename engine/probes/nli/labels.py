"""The labels of natural language inference: their names, and how two-way and three-way labels meet.

Heads call their labels what they like. A head is used only if its names say which label is which; nothing is guessed
from the order. Where a head or a data set knows two labels only, both sides are scored two-way: neutral and
contradiction are both "not entailment", in the gold label and in the prediction, after the three-way decision (as for
HANS, McCoy et al. 2019, section 4).
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


THREE_WAY = (Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL)  # in the order of the paper's Table 5
TWO_WAY = (Label.ENTAILMENT, Label.NOT_ENTAILMENT)

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
    """The label that a name means, or None if it means none."""
    return _LABEL_OF.get(re.sub(r"[\s_-]+", "", name).casefold())


def map_head(names: Sequence[str], model: str, given: str | None = None) -> tuple[Label, ...]:
    """Which label each logit of a head stands for.

    Args:
        names: the head's own names, in the order of its logits.
        model: what to call the model in a message.
        given: the labels in the order of the logits, separated by commas, if the head's names do not tell.

    Raises:
        InputError: the names are not those of a two-way or three-way head, or what was given does not fit.
    """
    if given is not None:
        words = [word.strip() for word in given.split(",")]
        if len(words) != len(names):
            raise InputError(f"--labels {given}: {len(words)} labels, the head of {model} has {len(names)}")
        mapped = [parse_label(word) for word in words]
        if (found := _scheme(mapped)) is None:
            raise InputError(f"--labels {given}: give {_expected()}, each once, in the order of the head")
        return found
    if (found := _scheme([parse_label(name) for name in names])) is None:
        raise InputError(
            f"{model}: its labels are {', '.join(map(repr, names))}, needed are {_expected()}; if the head has them "
            "under these names, give --labels with the right ones in the same order"
        )
    return found


def _scheme(labels: Sequence[Label | None]) -> tuple[Label, ...] | None:
    """The labels themselves, if they are those of a two-way or three-way head."""
    known = tuple(label for label in labels if label is not None)
    fits = len(known) == len(labels) and sorted(known) in (sorted(THREE_WAY), sorted(TWO_WAY))
    return known if fits else None


def _expected() -> str:
    return f"{', '.join(THREE_WAY)}, or {' and '.join(TWO_WAY)}"


def common_scheme(head: Sequence[Label], gold: Sequence[Label]) -> tuple[Label, ...]:
    """The labels that both a head and a data set can be scored by."""
    return TWO_WAY if len(head) == 2 or len(gold) == 2 else THREE_WAY


def coarsen(label: Label, scheme: Sequence[Label]) -> Label:
    """A label in a scheme: in the two-way one, neutral and contradiction are not entailment."""
    return label if label in scheme else Label.NOT_ENTAILMENT
