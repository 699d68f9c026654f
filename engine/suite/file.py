"""A suite file: models, probes and their settings, in TOML; every error names file and line.

name = "negation over training"

[run]                            # optional: how models are opened
device = "auto"

[[model]]
model = "roberta-base"

[[model]]
model = "lab/own"                # checkpoints of one training run
revisions = ["step1000", "step2000"]

[[probe]]
probe = "score"                  # a function of the library
pairs = 600                      # its arguments
vary = {coreference = ["pronoun", "same-name"]}
"""

import hashlib
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec

from ..choices import Precision
from ..errors import InputError, did_you_mean
from ..files.names import is_file_name
from ..text.toml_file import TomlFile
from .checkpoints import TABLE as MODELS
from .checkpoints import SuiteModel, read_models
from .settings import check_settings, functions

_PROBES = "probe"
_KEYS = ("name", "run", MODELS, _PROBES)
_OWN = ("probe", "name", "models", "vary")
_MOST_MEMBERS = 100_000
_UNUSUAL = re.compile(r"[^\w.+@-]+")

_Whole = Annotated[int, msgspec.Meta(ge=1, le=2**20)]


class Opening(msgspec.Struct, forbid_unknown_fields=True):
    """The table `[run]`: how all models are opened."""

    device: str = "auto"
    precision: Precision = Precision.AUTO
    batch_tokens: _Whole | None = None
    threads: _Whole | None = None


@dataclass(frozen=True)
class SuiteProbe:
    """A probe with one value for each of its settings.

    Attributes:
        label: What tables call it; the name of its folder.
        function: The function of the library.
        settings: Its arguments.
        models: The labels of the models that it is for; None for all.
        where: File and line.
    """

    label: str
    function: str
    settings: Mapping[str, Any]
    models: Sequence[str] | None
    where: str


@dataclass(frozen=True)
class SuiteFile:
    """What a suite file says.

    Attributes:
        path: The file.
        name: What a report calls the suite; the file's name by default.
        opening: How models are opened.
        models: In their order.
        probes: In their order, one for each combination of varied settings.
        sha256: Of the document.
    """

    path: Path
    name: str
    opening: Opening
    models: Sequence[SuiteModel]
    probes: Sequence[SuiteProbe]
    sha256: str

    @classmethod
    def read(cls, path: Path) -> "SuiteFile":
        """Read a suite file.

        Raises:
            InputError: It cannot be read, is not TOML, or says something that cannot be run.
        """
        file = TomlFile.read(path, "give a TOML file with the models and the probes of a suite")
        file.refuse_unknown(_KEYS, "name, [run], [[model]] and [[probe]]")
        name = file.document.get("name", path.stem)
        if not isinstance(name, str) or not name.strip() or len(name) > 200:
            raise InputError(f"{file.line('name')}: name is {str(name)[:60]!r}; give a text of at most 200 characters")
        models = read_models(file)
        probes = _probes(file, [model.label for model in models])
        if len(models) * len(probes) > _MOST_MEMBERS:
            raise InputError(f"{path}: {len(models) * len(probes):,} runs; a suite has at most {_MOST_MEMBERS:,}")
        digest = hashlib.sha256("\n".join(file.lines).encode()).hexdigest()
        return cls(path, name, _opening(file), models, probes, digest)


def _opening(file: TomlFile) -> Opening:
    table = file.document.get("run", {})
    try:
        return msgspec.convert(table, Opening)
    except msgspec.ValidationError as error:
        key = re.search(r"`\$\.(\w+)|unknown field `(\w+)`", str(error))
        word = (key[1] or key[2]) if key else ""
        raise InputError(
            f"{file.line_in('run', word)}: [run]: {str(error).replace(' - at `$', ' in `[run]')}"
        ) from None


def _probes(file: TomlFile, labels: Sequence[str]) -> list[SuiteProbe]:
    found: list[SuiteProbe] = []
    for number, table in enumerate(file.tables(_PROBES)):
        found += _variants(file, number, table, labels)
    if not found:
        raise InputError(
            f'{file.line(_PROBES)}: no probe; each is a table [[probe]] with a line such as probe = "{functions()[0]}"'
        )
    first: dict[str, SuiteProbe] = {}
    for probe in found:
        earlier = first.setdefault(probe.label.casefold(), probe)
        if earlier is not probe:
            raise InputError(f"{probe.where}: {probe.label!r} is also in {earlier.where}; give each probe a name")
    return found


def _variants(file: TomlFile, number: int, table: dict[str, Any], labels: Sequence[str]) -> list[SuiteProbe]:
    """The probes of a table `[[probe]]`."""

    def where(key: str | None) -> str:
        return file.line_of(_PROBES, number, key)

    function, known = table.get("probe"), functions()
    if function is None:
        raise InputError(f"{where(None)}: this [[probe]] does not name a probe; give one of {', '.join(known)}")
    if not isinstance(function, str) or function not in known:
        near = did_you_mean(str(function), known)
        raise InputError(f"{where('probe')}: probe is {str(function)[:60]!r}; {near}Give one of {', '.join(known)}")
    label = table.get("name", function)
    if not isinstance(label, str) or not is_file_name(label):
        raise InputError(f"{where('name')}: name is {str(label)[:60]!r}; it names a folder: give letters and digits")
    vary = _vary(table.get("vary", {}), lambda: where("vary"))
    settings = {key: value for key, value in table.items() if key not in _OWN}
    if twice := [key for key in vary if key in settings]:
        raise InputError(f"{where(twice[0])}: {twice[0]} is also in vary; give it once")
    found = []
    for values in itertools.product(*vary.values()):
        chosen = dict(zip(vary, values, strict=True))
        full = settings | chosen
        check_settings(function, full, lambda key: where("vary" if key in vary else key))
        name = "-".join([label, *(_plain(value) for value in values)])
        if not is_file_name(name):
            raise InputError(f"{where('vary')}: {name[:80]!r} cannot be the name of a folder; use shorter values")
        found.append(SuiteProbe(name, function, full, _models(table, labels, where), where("probe")))
    return found


def _vary(value: Any, where: Callable[[], str]) -> dict[str, list[Any]]:
    if not isinstance(value, dict) or not all(isinstance(own, list) and own for own in value.values()):
        raise InputError(f'{where()}: vary must be a table of lists, as in {{coreference = ["pronoun", "same-name"]}}')
    return value


def _models(table: dict[str, Any], labels: Sequence[str], where: Callable[[str | None], str]) -> Sequence[str] | None:
    """The models that a probe is restricted to: labels, or the name of a training run for all of its checkpoints."""
    wanted = table.get("models")
    if wanted is None:
        return None
    if not isinstance(wanted, list) or not wanted or not all(isinstance(one, str) for one in wanted):
        raise InputError(f"{where('models')}: models must be a list of names")
    found: list[str] = []
    for name in wanted:
        own = [label for label in labels if label == name or label.startswith(f"{name}@")]
        if not own:
            near = did_you_mean(name, labels)
            raise InputError(
                f"{where('models')}: no [[model]] is named {name[:60]!r}; {near}They are {_listed(labels)}"
            )
        found += own
    return tuple(dict.fromkeys(found))


def _plain(value: Any) -> str:
    """A value as a part of the name of a folder."""
    text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
    return _UNUSUAL.sub("-", text.lower() if isinstance(value, bool) else text).strip("-.") or "none"


def _listed(words: Sequence[str], most: int = 12) -> str:
    return ", ".join(words[:most]) + (", …" if len(words) > most else "")
