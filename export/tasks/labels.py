"""The labels of a classifier, as its configuration names them."""

from ...engine.errors import InputError
from ..checkpoint import Checkpoint


def label_names(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The names of a classifier's labels, in the order of its logits.

    Raises:
        InputError: fewer than two labels, several labels at once, or names that do not fit the head.
    """
    config, name = checkpoint.config, checkpoint.name
    known = {int(index): str(label) for index, label in config.id2label.items()}
    if config.num_labels < 2:
        raise InputError(f"{name} has {config.num_labels} label: it gives a score, a classifier has two or more labels")
    if config.problem_type == "multi_label_classification":
        raise InputError(f"{name} gives several labels at once (problem_type {config.problem_type}): one is needed")
    if sorted(known) != list(range(config.num_labels)):
        raise InputError(f"{name}: config.json names the labels {sorted(known)}, its head has {config.num_labels}")
    return tuple(known[index] for index in range(config.num_labels))
