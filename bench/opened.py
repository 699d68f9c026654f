"""A stage whose model is open already, so that only its own time is measured."""

from dataclasses import fields
from typing import Any, TypeVar

from ..engine.runs.stage import Stage

S = TypeVar("S", bound=Stage[Any, Any])


def with_open_model(stage: S, model: Any) -> S:
    """The same stage, which answers `open` with a model that it is given."""
    kind = type(stage)
    opened = type(kind.__name__, (kind,), {"open": lambda _self, _options: model, "__doc__": kind.__doc__})
    made: S = opened(**{field.name: getattr(stage, field.name) for field in fields(stage)})  # type: ignore[arg-type]
    return made
