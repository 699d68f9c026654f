"""How a classifier was trained, in a sentence for a paper; export.json has it where `negengine nli train` did it."""

from collections.abc import Mapping
from typing import Any

TRAINER = "transformers' Trainer"
"""What trains; a reference has it as its data set."""

_NEEDED = {
    "model": str,
    "task": str,
    "epochs": int,
    "batch_size": int,
    "learning_rate": float,
    "weight_decay": float,
    "max_length": int,
    "seed": int,
}


def training_told(training: Mapping[str, Any] | None) -> str:
    """What was trained how, as a sentence with a space after it; empty if that is not known.

    Args:
        training: What export.json says of it.
    """
    if not isinstance(training, Mapping) or not _NEEDED.items() <= {k: type(v) for k, v in training.items()}.items():
        return ""
    settings = (
        f"{training['epochs']} epochs, batches of {training['batch_size']}, learning rate "
        f"{training['learning_rate']:g}, weight decay {training['weight_decay']:g}, at most {training['max_length']} "
        f"tokens, seed {training['seed']}"
    )
    learned = f"{training['limit']:,} pairs of the" if type(training.get("limit")) is int else "the"
    fraction = training.get("negation")
    added = ""
    if isinstance(fraction, float):
        added = f", with {100 * fraction:.0f} % of the new pairs; the other new pairs are the test"
    return (
        f"We fine-tuned {training['model']} on {learned} original training split of {training['task']}{added} "
        f"({TRAINER}; {settings}). "
    )
