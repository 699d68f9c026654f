"""The settings of an experiment in a suite: its options as TOML has them, checked before anything runs."""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from ...basics.errors import InputError, did_you_mean
from ...basics.option import Opening, OptionField, options_of
from ...library.registry import experiment


def chain(function: str) -> list[str]:
    """The functions that a run needs, in their order: a function that goes on from a run needs the one before it."""
    before = experiment(function).goes_on_from
    return [*(chain(before) if before else ()), function]


def settings_of(function: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that a function of a chain takes itself."""
    return {key: value for key, value in settings.items() if key in options_of(experiment(function))}


def check_settings(function: str, settings: Mapping[str, Any], where: Callable[[str | None], str]) -> None:
    """Raise InputError if a name is unknown, a value is of another kind, or a setting is missing, in the whole `chain`.

    `settings` has values as TOML has them; `where` gives the file and line of a setting, or of the table for None.
    """
    fields = {key: field for name in chain(function) for key, field in options_of(experiment(name)).items()}
    _check(function, fields, settings, where)


def check_opening(table: Mapping[str, Any], where: Callable[[str | None], str]) -> None:
    """As `check_settings`, for the table of a suite that says how models are opened."""
    _check("[run]", options_of(Opening), table, where)


def _check(
    what: str, fields: Mapping[str, OptionField], given: Mapping[str, Any], where: Callable[[str | None], str]
) -> None:
    known = {key: _setting(field) for key, field in fields.items()}
    for key, value in given.items():
        if key not in known:
            near = did_you_mean(key, known)
            listed = ", ".join(known) or "none"
            raise InputError(f"{where(key)}: {what} has no setting {key!r}; {near}Its settings are {listed}")
        if wrong := known[key].fault(value):
            raise InputError(f"{where(key)}: {key} is {wrong}")
    for key, setting in known.items():
        if setting.is_needed and key not in given:
            raise InputError(f"{where(None)}: {what} needs a setting {key!r}")


@dataclass(frozen=True)
class _Setting:
    kinds: Mapping[Any, str]  # what msgspec converts a value to → that in words
    words: Sequence[str]  # to choose from
    is_needed: bool

    def fault(self, value: Any) -> str:
        """What is given and what is needed; empty for a value of the right kind."""
        try:
            msgspec.convert(value, _union(self.kinds))
        except msgspec.ValidationError:
            unknown = [one for one in (value if isinstance(value, list) else [value]) if one not in self.words]
            given = unknown[0] if self.words and unknown else value
            near = did_you_mean(given, self.words) if isinstance(given, str) else ""
            return f"{str(given)[:60]!r}; {near}{' or '.join(self.kinds.values())} is needed"
        return ""


def _setting(field: OptionField) -> _Setting:
    words = [str(member.value) for member in field.choices or ()]
    bounds = msgspec.Meta(ge=field.option.minimum, le=field.option.maximum)
    return _Setting(dict(_kinds(field.type, words, bounds)), words, field.required)


def _union(kinds: Mapping[Any, str]) -> Any:
    return Union[tuple(kinds)] if kinds else Any  # noqa: UP007 - a tuple that is known at run time


def _kinds(hint: Any, words: Sequence[str], bounds: msgspec.Meta) -> Iterator[tuple[Any, str]]:
    """The kinds of values that TOML has for an argument, each in words; none for others, such as a frame."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        for one in inner:
            yield from _kinds(one, words, bounds)
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield types.GenericAlias(dict, (str, _union(dict(_kinds(inner[1], words, bounds))))), "a table"
    elif isinstance(origin, type) and issubclass(origin, Sequence):
        items = dict(_kinds(inner[0], words, bounds))
        said = "a list of them" if words else f"a list ({' or '.join(items.values()) or 'any values'})"
        yield types.GenericAlias(list, _union(items)), said
    elif words and isinstance(hint, type) and issubclass(hint, str | Path):
        yield Literal[tuple(words)], f"one of {', '.join(words)}"
    elif hint in {str, Path}:
        yield Annotated[str, msgspec.Meta(min_length=1)], "a text"
    elif hint in {int, float}:
        least = "" if bounds.ge is None else f" of at least {bounds.ge}"
        most = "" if bounds.le is None else f" and at most {bounds.le}"
        yield Annotated[hint, bounds], f"a{' whole' if hint is int else ''} number{least}{most}"
    elif hint is bool:
        yield bool, "true or false"
