"""What is said of a classifier that `negengine nli train` made, from what export.json says of the training."""

from collections.abc import Mapping
from typing import Any

from ...requests.items import ORIGINAL
from ..finished_run import published

TRAINER = "transformers' Trainer"  # what trains; a reference has it as its data set
_SETTINGS = (
    "{epochs:d} epochs, batches of {batch_size:d}, learning rate {learning_rate:g}, weight decay {weight_decay:g}, at "
    "most {max_length:d} tokens, seed {seed:d}"
)


def table_8(training: Mapping[str, Any]) -> list[str]:
    """What section 6.2 of the paper quotes of Table 8, below a classifier that has learned new pairs."""
    ranges = published("nli").get(training.get("task", ""), {}).get("held_out")
    if training.get("negation") is None or ranges is None:
        return []
    with_new, without = (
        "-".join(f"{end:.1f}" for end in dict.fromkeys(ranges.get(learned, ()))) for learned in ("negation", ORIGINAL)
    )
    less = f", {without} % without them" if without else ""
    said = f"paper, Table 8, on all held-out pairs: {with_new} % with 70 % of the new pairs in the training{less}"
    return [f"{said} (lowest and highest of three models)"]


def training_told(training: Mapping[str, Any]) -> str:
    """How `negengine nli train` trained, as a sentence with a space after it; empty if export.json does not say it."""
    try:
        settings = _SETTINGS.format_map(training)
    except (KeyError, TypeError, ValueError):
        return ""
    if (patience := training.get("patience")) is not None:
        settings += f", the best epoch on dev with a patience of {patience}"
    learned = f"{training['limit']:,} pairs of the" if training.get("limit") else "the"
    added = ""
    if (fraction := training.get("negation")) is not None:
        added = f", with {100 * fraction:.0f} % of the new pairs; the other new pairs are the test"
    return (
        f"We fine-tuned {training['model']} on {learned} original training split of {training['task']}{added} "
        f"({TRAINER}; {settings}). "
    )
