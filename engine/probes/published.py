"""The other papers' own figures, to stand beside ours where the model is one of theirs."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent
NEGATED_LAMA, WHAT_BERT_IS_NOT = "lama", "diagnostics"


@cache
def published(paper: str) -> dict[str, Any]:
    """The content of a paper's file; its head says what is in it."""
    return tomllib.loads((_FOLDER / paper / "published.toml").read_text("utf-8"))


def column(paper: str, model: str) -> str | None:
    """The paper's name for a model, by its hub id or bare name; None if it did not test it."""
    return next((key for key, names in published(paper)["hub"].items() if model in names), None)


def trex_group(corpus: str, relation: str) -> tuple[str, ...]:
    """1-1, N-1 or N-M for a relation of T-REx; nothing for any other."""
    groups = published(NEGATED_LAMA)["trex"].items() if corpus == "TREx" else ()
    return tuple(group for group, relations in groups if relation in relations)
