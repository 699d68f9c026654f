"""A suite file: models, probes and their settings, in TOML (docs/suites.md); every error names file and line."""

import hashlib
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from ...basics.apart import one_file
from ...basics.errors import InputError, did_you_mean
from ...basics.option import Opening, options_of
from ...basics.option_values import refuse_faults
from ...basics.paths import is_file_name, is_model_name
from ...experiments.registry import experiment, experiments
from ...inference.checkpoint_steps import MOST_STEPS, named_step, told
from ...inference.exported import models_folder
from ...text.toml_file import TomlFile

_MODELS, _PROBES = "model", "probe"
_MOST_MEMBERS = 100_000
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
_Texts = Annotated[list[_Text], msgspec.Meta(min_length=1, max_length=10_000)]
Named = TypeVar("Named", "SuiteModel", "SuiteProbe")


@dataclass(frozen=True)
class SuiteModel:
    """One model of a suite: what a run is made with."""

    reference: str  # an exported folder or its name, a checkpoint's folder, or a hub id, perhaps with `@REVISION`
    label: str  # in tables, and in the names of its folders
    series: str  # the training run that it belongs to
    step: int | None  # of that training run; None for a model that is not one of several checkpoints
    folder: Path | None  # where its export is or goes; None for the usual folder
    where: str  # file and line
    allow_pickle: bool = False  # whether its export may read pickled weights, which can run code


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    model: _Text
    label: _Text | None = None
    allow_pickle: bool = False
    revisions: _Texts | None = None
    checkpoints: _Texts | None = None
    steps: Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=MOST_STEPS)]], msgspec.Meta(min_length=1)] | None = None


@dataclass(frozen=True)
class SuiteProbe:
    """A probe with one value for each of its settings."""

    label: str  # in tables, and in the name of its folder
    function: str
    settings: Mapping[str, Any]
    models: Sequence[str] | None  # the labels of the models that it is for; None for all
    where: str  # file and line


@dataclass(frozen=True)
class SuiteFile:
    """What a suite file says; `probes` has one for each combination of varied settings, `notes` what to know of it."""

    path: Path
    name: str
    opening: Opening
    models: Sequence[SuiteModel]
    probes: Sequence[SuiteProbe]
    sha256: str
    notes: Sequence[str] = ()
    keep_exports: bool = True  # whether models that the suite exports stay when their runs are done

    @classmethod
    def read(cls, path: Path) -> "SuiteFile":
        file = TomlFile.read(path, "give a TOML file with the models and the experiments of a suite")
        known = "name, keep_exports, [run], [[model]] and [[probe]]"
        file.refuse_unknown(("name", "keep_exports", "run", _MODELS, _PROBES), known)
        name = file.document.get("name", path.stem)
        if not isinstance(name, str) or not name.strip() or len(name) > 200:
            raise InputError(f"{file.line('name')}: name is {str(name)[:60]!r}; give a text of at most 200 characters")
        if not isinstance(keep_exports := file.document.get("keep_exports", True), bool):
            raise InputError(f"{file.line('keep_exports')}: keep_exports is {keep_exports!r}; give true or false")
        models, notes = _read_models(file)
        probes = _probes(file, models)
        if len(models) * len(probes) > _MOST_MEMBERS:
            raise InputError(f"{path}: {len(models) * len(probes):,} runs; a suite has at most {_MOST_MEMBERS:,}")
        table = file.document.get("run", {})
        if not isinstance(table, dict):
            raise InputError(f"{file.line('run')}: run is a table: write [run]")
        refuse_faults("[run]", options_of(Opening), table, lambda key: file.line("run", key))
        digest = hashlib.sha256("\n".join(file.lines).encode()).hexdigest()
        return cls(path, name, Opening(**table), models, probes, digest, notes, keep_exports)


def _probes(file: TomlFile, models: Sequence[SuiteModel]) -> list[SuiteProbe]:
    found: list[SuiteProbe] = []
    for number, table in enumerate(file.tables(_PROBES)):
        found += _variants(file, number, table, models)
    if not found:
        such = f'probe = "{next(iter(experiments()))}"'
        raise InputError(f"{file.line(_PROBES)}: no probe; each is a table [[probe]] with a line such as {such}")
    for probe, earlier in _twice(found):
        raise InputError(f"{probe.where}: {probe.label!r} is also in {earlier.where}; give each probe a name")
    return found


def _variants(file: TomlFile, number: int, table: dict[str, Any], models: Sequence[SuiteModel]) -> list[SuiteProbe]:
    def where(key: str | None) -> str:
        return file.line(_PROBES, number, key)

    function, known = table.get("probe"), list(experiments())
    if function is None:
        raise InputError(f"{where(None)}: this [[probe]] does not name a probe; give one of {', '.join(known)}")
    if not isinstance(function, str) or function not in known:
        near = did_you_mean(str(function), known)
        raise InputError(f"{where('probe')}: probe is {str(function)[:60]!r}; {near}Give one of {', '.join(known)}")
    label = table.get("name", function)
    if not isinstance(label, str) or not is_file_name(label):
        raise InputError(f"{where('name')}: name is {str(label)[:60]!r}; it names a folder: give letters and digits")
    vary = table.get("vary", {})
    if not isinstance(vary, dict) or not all(isinstance(own, list) and own for own in vary.values()):
        such = '{coreference = ["pronoun", "same-name"]}'
        raise InputError(f"{where('vary')}: vary must be a table of lists, as in {such}")
    if (several := math.prod(map(len, vary.values()))) > _MOST_MEMBERS:  # counted before they are made
        raise InputError(f"{where('vary')}: {several:,} combinations; a suite has at most {_MOST_MEMBERS:,} runs")
    settings = {key: value for key, value in table.items() if key not in {"probe", "name", "models", "vary"}}
    if twice := [key for key in vary if key in settings]:
        raise InputError(f"{where(twice[0])}: {twice[0]} is also in vary; give it once")
    fields = {key: field for name in chain(function) for key, field in options_of(experiment(name)).items()}
    found = []
    folders: dict[str, str] = {}
    for values in itertools.product(*vary.values()):
        full = settings | dict(zip(vary, values, strict=True))
        refuse_faults(function, fields, full, lambda key: where("vary" if key in vary else key))
        plain = (re.sub(r"[^\w.+@-]+", "-", as_text(value)).strip("-.") or "none" for value in values)
        name = "-".join([label, *plain])
        if not is_file_name(name):
            raise InputError(f"{where('vary')}: {name[:80]!r} cannot be the name of a folder; use shorter values")
        varied = ", ".join(f"{key} {value!r}" for key, value in zip(vary, values, strict=True))
        if (earlier := folders.get(one_file(name))) is not None:
            hint = "give it once" if earlier == varied else "write a [[probe]] with a name of its own for each"
            raise InputError(f"{where('vary')}: {earlier} and {varied} have one folder, {name[:80]!r}; {hint}")
        folders[one_file(name)] = varied
        found.append(SuiteProbe(name, function, full, _models(table, models, where), where("probe")))
    return found


def _models(
    table: dict[str, Any], models: Sequence[SuiteModel], where: Callable[[str | None], str]
) -> Sequence[str] | None:
    """The models that a probe is restricted to: labels, or the name of a training run for all of its checkpoints."""
    wanted = table.get("models")
    if wanted is None:
        return None
    if not isinstance(wanted, list) or not wanted or not all(isinstance(one, str) for one in wanted):
        raise InputError(f"{where('models')}: models must be a list of names")
    found: list[str] = []
    for name in wanted:
        own = [model.label for model in models if name in {model.label, model.series}]
        if not own:
            labels = [model.label for model in models]
            near, listed = did_you_mean(name, labels), ", ".join([*labels[:12], *["…"] * (len(labels) > 12)])
            raise InputError(f"{where('models')}: no [[model]] is named {name[:60]!r}; {near}They are {listed}")
        found += own
    return tuple(dict.fromkeys(found))


def as_text(value: Any) -> str:
    """The value of a setting, in tables and in the name of a folder."""
    if isinstance(value, list):
        return "+".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read_models(file: TomlFile) -> tuple[list[SuiteModel], list[str]]:
    """The models, and what a person is told of their steps."""
    found: list[SuiteModel] = []
    notes: list[str] = []
    for number, entry in enumerate(file.convert(_MODELS, _Entry)):
        found += _checkpoints(file, number, entry)
        if entry.steps is None and (said := told(entry.revisions or entry.checkpoints or ())):
            notes.append(f"{found[-1].where}: {said}")
    if not found:
        raise InputError(
            f'{file.line(_MODELS)}: no model; each is a table [[model]] with a line such as model = "mini"'
        )
    for model, earlier in _twice(found):
        raise InputError(f"{model.where}: the model {model.label!r} is also in {earlier.where}; give each a label")
    return found, notes


def _checkpoints(file: TomlFile, number: int, entry: _Entry) -> list[SuiteModel]:
    def line(key: str) -> str:
        return file.line(_MODELS, number, key)

    is_local = entry.checkpoints is not None
    if entry.revisions is not None and is_local:
        raise InputError(f"{line('checkpoints')}: give revisions of the hub or checkpoints of this machine, not both")
    if entry.label is not None and not is_model_name(entry.label):
        raise InputError(f"{line('label')}: {entry.label!r} is not a name for a model: it names folders")
    series = entry.label or entry.model
    if is_local and not is_model_name(series):
        raise InputError(f"{line('model')}: {series!r} is not a name for a training run: it names folders")
    key, names = ("checkpoints", entry.checkpoints) if is_local else ("revisions", entry.revisions)
    if names is None:
        if entry.steps is not None:
            raise InputError(f"{line('steps')}: steps are for a model with revisions or checkpoints")
        return [_alone(entry, line("model"))]
    if not is_local and "@" in entry.model:
        raise InputError(f"{line('model')}: {entry.model!r} names a revision already; give the name alone")
    steps = _steps(entry.steps, names, line("steps" if entry.steps is not None else key))
    models = []
    for name, step in zip(names, steps, strict=True):
        label = f"{series}@{name.rstrip('/').rpartition('/')[2] if is_local else name.replace('/', '-')}"
        if not is_model_name(label):
            raise InputError(f"{line(key)}: {name!r} cannot be a part of the name of a folder")
        reference, folder = (name, models_folder() / label) if is_local else (f"{entry.model}@{name}", None)
        models.append(SuiteModel(reference, label, series, step, folder, line(key), entry.allow_pickle))
    return models


def _alone(entry: _Entry, where: str) -> SuiteModel:
    """A model that the file names without a list; with a revision, it may be one of several checkpoints."""
    model = entry.model.rstrip("/")
    name, at, revision = model.rpartition("@")
    is_path = entry.model.startswith((".", "/", "~")) or entry.model.count("/") > 1
    label = entry.label or (model.rpartition("/")[2] if is_path else model)
    if not is_model_name(label):
        raise InputError(f"{where}: {entry.model!r} does not say how to name its folders: give a label")
    step = named_step(revision).step if at else None
    return SuiteModel(entry.model, label, label if step is None else name, step, None, where, entry.allow_pickle)


def _steps(given: Sequence[int] | None, names: Sequence[str], where: str) -> list[int]:
    if given is not None and len(given) != len(names):
        raise InputError(f"{where}: {len(given)} steps for {len(names)} checkpoints; give one for each")
    found = []
    for number, name in enumerate(names):
        own = named_step(name)
        step = given[number] if given is not None else own.step
        if step is None:
            several = f"names {' and '.join(map(str, own.others))}" if own.others else "does not name a step"
            raise InputError(f"{where}: {name!r} {several}, not one step as step1000 does: give steps = [...], too")
        if step in found:
            raise InputError(f"{where}: {name!r} is a second checkpoint of step {step}; give each step once")
        found.append(step)
    return found


def _twice(named: Sequence[Named]) -> Iterator[tuple[Named, Named]]:
    """What has the label of an earlier one, with that one; folders may not tell upper and lower case apart."""
    first: dict[str, Named] = {}
    for one in named:
        earlier = first.setdefault(one_file(folder_name(one.label)), one)
        if earlier is not one:
            yield one, earlier


def folder_name(label: str) -> str:
    """A model's or a probe's label as the name of a folder."""
    return label.replace("/", "--")


def chain(function: str) -> list[str]:
    """The functions that a run needs, in their order: a function that goes on from a run needs the one before it."""
    before = experiment(function).goes_on_from
    return [*(chain(before) if before else ()), function]


def settings_of(function: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that a function of a chain takes itself."""
    return {key: value for key, value in settings.items() if key in options_of(experiment(function))}
