"""Figures that papers print, shown next to ours: a file `published.toml` in each probe's folder.

The head of each file says what is in it. Its table `hub` has the paper's name for each model that the paper tested, and
the names of that model on the Hugging Face hub.
"""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

FILE = "published.toml"


@cache
def read_published(folder: Path) -> dict[str, Any]:
    """The content of the file of a folder."""
    return tomllib.loads((folder / FILE).read_text("utf-8"))


def published_name(folder: Path, model: str) -> str | None:
    """The paper's name for a model; None if the paper did not test it."""
    return next((name for name, hub in read_published(folder)["hub"].items() if model in hub), None)


def fraction(percent: float) -> float:
    """A figure that is printed in percent, as a fraction: 44.2 gives 0.442."""
    return round(percent / 100, 6)
