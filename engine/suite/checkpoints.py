"""The models of a suite. The revisions of one model, or the checkpoints of one training run, are a series of steps."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ..errors import InputError
from ..files.names import is_model_name
from ..inference.exported import MODELS
from ..text.toml_file import TomlFile

TABLE = "model"
_STEP = re.compile(r"(?<![0-9.])([0-9]{1,15})([kKmM]?)(?![0-9A-Za-z]|\.[0-9])")
_COMMIT = re.compile(r"[0-9a-f]{12,40}")
_SCALE = {"": 1, "k": 1_000, "m": 1_000_000}
_MOST = 10_000

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]


@dataclass(frozen=True)
class SuiteModel:
    """One model of a suite: what a run is made with.

    Attributes:
        reference: An exported folder or its name, a checkpoint's folder, or a hub id, with `@REVISION` if one is meant.
        label: What tables call it; the name of its folders.
        series: The training run that it belongs to.
        step: The step of that training run; None for a model that is not one of several checkpoints.
        folder: Where its export is or goes; None for the usual folder.
        where: File and line.
    """

    reference: str
    label: str
    series: str
    step: int | None
    folder: Path | None
    where: str


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """A table `[[model]]`."""

    model: _Text
    label: _Text | None = None
    revisions: Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=_MOST)] | None = None
    checkpoints: Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=_MOST)] | None = None
    steps: Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=10**15)]], msgspec.Meta(min_length=1)] | None = None


def read_models(file: TomlFile) -> list[SuiteModel]:
    """The models of a suite file, in its order.

    Raises:
        InputError: A key is unknown or has another kind of value; a step is not known or given twice; two models have
            the same label.
    """
    found: list[SuiteModel] = []
    for number, entry in enumerate(file.convert(TABLE, _Entry)):
        found += _models(file, number, entry)
    if not found:
        raise InputError(f'{file.line(TABLE)}: no model; each is a table [[model]] with a line such as model = "mini"')
    _refuse_twice(found)
    return found


def step_of(text: str) -> int | None:
    """The step that a revision or a folder names: 20000 for `seed-0-step_20k`; None if it names none."""
    if _COMMIT.fullmatch(text):
        return None
    numbers = _STEP.findall(text.rstrip("/").rpartition("/")[2])
    return int(numbers[-1][0]) * _SCALE[numbers[-1][1].lower()] if numbers else None


def _models(file: TomlFile, number: int, entry: _Entry) -> list[SuiteModel]:
    def line(key: str) -> str:
        return file.line_of(TABLE, number, key)

    if entry.revisions is not None and entry.checkpoints is not None:
        raise InputError(f"{line('checkpoints')}: give revisions of the hub or checkpoints of this machine, not both")
    if entry.label is not None and not is_model_name(entry.label):
        raise InputError(f"{line('label')}: {entry.label!r} is not a name for a model: it names folders")
    series = entry.label or entry.model
    if entry.checkpoints is not None and not is_model_name(series):
        raise InputError(f"{line('model')}: {series!r} is not a name for a training run: it names folders")
    key = "revisions" if entry.revisions is not None else "checkpoints"
    names = entry.revisions if entry.revisions is not None else entry.checkpoints
    if names is None:
        if entry.steps is not None:
            raise InputError(f"{line('steps')}: steps are for a model with revisions or checkpoints")
        return [_alone(entry, line("model"))]
    if entry.revisions is not None and "@" in entry.model:
        raise InputError(f"{line('model')}: {entry.model!r} names a revision already; give the name alone")
    steps = _steps(entry.steps, names, line("steps" if entry.steps is not None else key))
    models = []
    for name, step in zip(names, steps, strict=True):
        short = name.rstrip("/").rpartition("/")[2] if entry.checkpoints is not None else name.replace("/", "-")
        label = f"{series}@{short}"
        if not is_model_name(label):
            raise InputError(f"{line(key)}: {name!r} cannot be a part of the name of a folder")
        folder = MODELS / label if entry.checkpoints is not None else None
        reference = name if entry.checkpoints is not None else f"{entry.model}@{name}"
        models.append(SuiteModel(reference, label, series, step, folder, line(key)))
    return models


def _alone(entry: _Entry, where: str) -> SuiteModel:
    """A model that the file names without a list; with a revision, it may be one of several checkpoints."""
    name, at, revision = entry.model.rstrip("/").rpartition("@")
    last = entry.model.rstrip("/").rpartition("/")[2]
    is_path = entry.model.startswith((".", "/", "~")) or entry.model.count("/") > 1
    label = entry.label or (last if is_path else entry.model.rstrip("/"))
    if not is_model_name(label):
        raise InputError(f"{where}: {entry.model!r} does not say how to name its folders: give a label")
    step = step_of(revision) if at else None
    return SuiteModel(entry.model, label, name if at and step is not None else label, step, None, where)


def _steps(given: Sequence[int] | None, names: Sequence[str], where: str) -> list[int]:
    if given is not None and len(given) != len(names):
        raise InputError(f"{where}: {len(given)} steps for {len(names)} checkpoints; give one for each")
    found = []
    for number, name in enumerate(names):
        step = given[number] if given is not None else step_of(name)
        if step is None:
            raise InputError(f"{where}: {name!r} does not name a step, as step1000 does: give steps = [...], too")
        if step in found:
            raise InputError(f"{where}: {name!r} is a second checkpoint of step {step}; give each step once")
        found.append(step)
    return found


def _refuse_twice(models: Sequence[SuiteModel]) -> None:
    first: dict[str, SuiteModel] = {}
    for model in models:
        earlier = first.setdefault(model.label.casefold(), model)
        if earlier is not model:
            raise InputError(
                f"{model.where}: the model {model.label!r} is also in {earlier.where}; give each once, or a label"
            )
