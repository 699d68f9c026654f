"""The licence of a checkpoint, as its model card tells: the entry `license` at the head of README.md."""

import re
from pathlib import Path

import huggingface_hub
import yaml

from .checkpoint import Source
from .quiet import quiet

_CARD = "README.md"
_HEAD = re.compile(r"\A---\s*\n(.*?)\n---\s*$", re.DOTALL | re.MULTILINE)


def licence_of(source: Source) -> str | None:
    """The licence; None if the checkpoint has no model card, the card names none, or the hub does not answer."""
    try:
        card = Path(source.location) / _CARD if source.is_local else _hub_card(source)
        return licence_in(card.read_text("utf-8"))
    except (OSError, ValueError):  # the hub's errors are of one of the two kinds
        return None


def licence_in(card: str) -> str | None:
    """The licence that the head of a model card names; several are separated by commas."""
    head = _HEAD.search(card)
    try:
        content = yaml.safe_load(head[1]) if head else None
    except yaml.YAMLError:
        return None
    found = content.get("license") if isinstance(content, dict) else None
    if isinstance(found, list):
        return ", ".join(map(str, found)) or None
    return str(found) if found else None


def _hub_card(source: Source) -> Path:
    with quiet():
        return Path(huggingface_hub.hf_hub_download(source.location, _CARD, revision=source.revision))
