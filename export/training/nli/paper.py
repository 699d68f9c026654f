"""The paper's hyperparameters, by task and family of models; `settings.toml` says where they stand."""

import tomllib
from pathlib import Path
from typing import Any

from ....engine.errors import choice
from ....engine.experiments.nli.labels import Source

FAMILY = "bert"  # whose settings the families get that the paper does not have

_CONTENT: dict[str, Any] = tomllib.loads((Path(__file__).parent / "settings.toml").read_text("utf-8"))


def source_of(task: str) -> str:
    """The source of a task's pairs: `rte` stands for RTE.

    Raises:
        InputError: There is no such task.
    """
    return str(choice(Source, "--task", task.upper()))


def paper_settings(source: str, family: str) -> dict[str, Any]:
    """The hyperparameters by their names in `negengine.export.training.settings.Settings`, without the seed.

    Args:
        source: RTE, SNLI or MNLI.
        family: The model's architecture, such as `roberta`.
    """
    found = _CONTENT[source]
    plain = {name: value for name, value in found.items() if not isinstance(value, dict)}
    return {"max_length": _CONTENT["max_length"], **plain, **found.get(family, found.get(FAMILY, {}))}
