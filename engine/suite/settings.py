"""The settings of a probe in a suite: arguments of the library's functions, checked before anything runs.

Names and kinds of values come from the function's signature. Words to choose from, and smallest and largest numbers,
come from the options of the command with the same name.
"""

import inspect
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..errors import InputError, did_you_mean
from ..library.registry import find_command, library_function, load, probes

_OPENED_ELSEWHERE = {"device", "precision", "batch_tokens", "threads", "model", "run"}


def functions() -> list[str]:
    """The names of all functions that make a run."""
    return [name for probe in probes() for name in probe.functions]


def chain(function: str) -> list[str]:
    """The functions that a run needs, in their order: a function that goes on from a run needs the one before it.

    Args:
        function: A name of `functions`.
    """
    (names,) = ([*probe.functions] for probe in probes() if function in probe.functions)
    place = names.index(function)
    while place and goes_on(names[place]):
        place -= 1
    return names[place : names.index(function) + 1]


def goes_on(function: str) -> bool:
    """Whether a function goes on from a run, as `score` does."""
    return "run" in inspect.signature(library_function(function)).parameters


def check_settings(function: str, settings: Mapping[str, Any], where: Callable[[str | None], str]) -> None:
    """Refuse settings that a function does not take.

    Args:
        function: Its name; the settings may belong to any function of its `chain`.
        settings: Name → value, as TOML has them.
        where: The file and line of a setting; of the table, for None.

    Raises:
        InputError: A name is unknown, a value is of another kind, or a setting is missing.
    """
    known: dict[str, tuple[inspect.Parameter, Any, Any]] = {}
    for name in chain(function):
        own, hints, options = library_function(name), _hints(name), _options(name)
        for key, parameter in inspect.signature(own).parameters.items():
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD and key not in _OPENED_ELSEWHERE:
                known[key] = (parameter, hints.get(key, Any), options.get(key))
    for key, value in settings.items():
        if key not in known:
            near = did_you_mean(key, known)
            listed = ", ".join(known) or "none"
            raise InputError(f"{where(key)}: {function} has no setting {key!r}; {near}Its settings are {listed}")
        _, hint, option = known[key]
        if not _accepts(value, hint):
            raise InputError(f"{where(key)}: {key} is {str(value)[:60]!r}; {_described(hint)} is needed")
        _check_option(key, value, option, where(key))
    for key, (parameter, _, _) in known.items():
        if parameter.default is inspect.Parameter.empty and key not in settings:
            raise InputError(f"{where(None)}: {function} needs a setting {key!r}")


def settings_of(function: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that a function of a chain takes itself."""
    parameters = inspect.signature(library_function(function)).parameters
    return {key: value for key, value in settings.items() if key in parameters}


def _hints(function: str) -> dict[str, Any]:
    return get_type_hints(library_function(function))


def _options(function: str) -> dict[str, Any]:
    """The annotation of each option of the command of this name."""
    if (command := find_command(function)) is None:
        return {}
    return {key: own.annotation for key, own in inspect.signature(load(command.function)).parameters.items()}


def _accepts(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:  # `Any` among others stands for values that no file has, such as frames
        return any(_accepts(value, one) for one in arguments if one is not Any)
    if origin is Literal:
        return value in arguments
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, dict) and all(_accepts(one, arguments[1]) for one in value.values())
    if isinstance(origin, type) and issubclass(origin, Collection):
        return isinstance(value, list) and all(_accepts(one, arguments[0]) for one in value)
    if hint is bool or isinstance(value, bool):
        return hint in {bool, Any} and isinstance(value, bool)
    if isinstance(hint, type) and issubclass(hint, str | Path):
        return isinstance(value, str) and bool(value)
    if hint is float:
        return isinstance(value, int | float)
    return isinstance(value, hint) if isinstance(hint, type) else hint is Any


def _described(hint: Any) -> str:
    """The kinds of values that a hint stands for, in words."""
    return " or ".join(dict.fromkeys(_words(hint))) or "another value"


def _words(hint: Any) -> Iterator[str]:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        for one in arguments:
            yield from _words(one)
    elif origin is Literal:
        yield f"one of {', '.join(map(str, arguments))}"
    elif isinstance(origin, type) and issubclass(origin, Mapping):
        yield "a table"
    elif isinstance(origin, type) and issubclass(origin, Collection):
        yield f"a list ({_described(arguments[0])})"
    elif hint is bool:
        yield "true or false"
    elif hint is int:
        yield "a whole number"
    elif hint is float:
        yield "a number"
    elif isinstance(hint, type) and issubclass(hint, str | Path):
        yield "a text"


def _check_option(key: str, value: Any, option: Any, where: str) -> None:
    """Words to choose from, and bounds of numbers."""
    if option is None:
        return
    kinds = [one for one in _flat(option) if isinstance(one, type) and issubclass(one, Enum)]
    words = [str(member.value) for kind in kinds for member in kind]
    for one in value if isinstance(value, list) else [value]:
        if words and isinstance(one, str) and one not in words:
            near = did_you_mean(one, words)
            raise InputError(f"{where}: {key} is {one[:60]!r}; {near}{'Give' if near else 'give'} {', '.join(words)}")
    for own in getattr(option, "__metadata__", ()):
        least, most = getattr(own, "min", None), getattr(own, "max", None)
        if isinstance(value, int | float) and not isinstance(value, bool):
            if least is not None and value < least:
                raise InputError(f"{where}: {key} is {value}; give at least {least}")
            if most is not None and value > most:
                raise InputError(f"{where}: {key} is {value}; give at most {most}")


def _flat(annotation: Any) -> Sequence[Any]:
    inner = get_args(annotation)
    return [annotation, *(one for own in inner for one in _flat(own))] if inner else [annotation]
