"""The figures of the other papers, shown next to ours where the model is one of theirs."""

from pathlib import Path
from typing import Any

from ..views.published import published_name, read_published

_FOLDER = Path(__file__).parent
NEGATED_LAMA, WHAT_BERT_IS_NOT, SELF_CONTAINED_NEGATION, NLI_NEGATION = "lama", "diagnostics", "gh22", "nli"


def published(paper: str) -> dict[str, Any]:
    """The content of a paper's file, by the folder of its probe, such as `lama`; its head says what is in it."""
    return read_published(_FOLDER / paper)


def column(paper: str, model: str) -> str | None:
    """The paper's name for a model, by its hub id or bare name; None if it did not test it."""
    return published_name(_FOLDER / paper, model)


def trex_group(corpus: str, relation: str) -> tuple[str, ...]:
    """1-1, N-1 or N-M for a relation of T-REx; nothing for any other."""
    groups = published(NEGATED_LAMA)["trex"].items() if corpus == "TREx" else ()
    return tuple(group for group, relations in groups if relation in relations)
