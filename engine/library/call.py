"""The call that made a run: which function of the library, with which arguments, on which model. JSON values.

    {"function": "select",
     "arguments": {"pairs": 60, "lexicon": {"path": "~/words"}, "patterns": {"path": "~/own.toml", "sha256": "…"}, …},
     "model": {"folder": "~/models/mini", "task": "fill-mask", "device": "cpu", "precision": "auto", …}}

`negengine reproduce` makes a run again from that. Run options are missing: they do not decide any number.
"""

import functools
import inspect
import re
import typing
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from ..basics.errors import InputError, did_you_mean, refuse_other_than_utf8
from ..basics.paths import with_home, without_home
from ..basics.reading import file_sha256, is_file
from .options import RunOptions

IN_MEMORY = "in memory"  # the key of an argument that no file holds, such as a frame; its value is its type
ELSEWHERE = frozenset({"model", "run", "device", "precision", "batch_tokens", "threads"})  # in `model`, or the folder


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which raises a TypeError with the nearest name for a keyword that it does not take.

    Python takes every keyword for `**options: Unpack[...]`: which names there are, its annotation alone says.
    """
    if hasattr(function, "takes"):
        return function
    takes: dict[str, Any] = {}
    for one in inspect.signature(function).parameters.values():
        is_open = one.kind is one.VAR_KEYWORD
        takes |= typing.get_args(one.annotation)[0].__annotations__ if is_open else {one.name: one.annotation}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse_other_than_utf8(*args, *kwargs.values())
        for name in kwargs:
            if name not in takes:
                near = did_you_mean(name, takes) or f"it takes {', '.join(takes)}"
                raise TypeError(f"{function.__name__}() does not take {name!r}: {near.strip()}")
        return function(*args, **kwargs)

    call.takes = {name: _is_switch(own) for name, own in takes.items()}  # type: ignore[attr-defined]
    return call


def _is_switch(annotation: Any) -> bool:
    return bool(getattr(annotation, "__forward_arg__", getattr(annotation, "__name__", annotation)) == "bool")


@functools.cache
def in_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the library whose errors name its arguments as Python writes them, and not as a command line."""
    checked = strict(function)
    return _named(checked, checked.takes, "True")  # type: ignore[attr-defined]


@functools.cache
def in_suite(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the library whose errors name what a suite's file says as it does; run options stay."""
    checked = strict(function)
    takes: Mapping[str, bool] = checked.takes  # type: ignore[attr-defined]
    settings = {name: own for name, own in takes.items() if name not in RunOptions.__annotations__}
    return _named(checked, settings | {"allow_pickle": True}, "true")


def _named(function: Callable[..., Any], takes: Mapping[str, bool], true: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except InputError as error:
            error.args = (_as_arguments(str(error.args[0]), takes, true),)
            raise

    return call


_VALUE = r"[A-Z][A-Z_=|]*\b|'[^']*'|-?\d[\d,.]*\b|[\w./=-]+(?=[:,;)]|$| --| or )"
_OPTION = re.compile(rf"(?<![\w-])--([a-z][\w-]*)(?: ({_VALUE}))?")


def _as_arguments(message: str, takes: Mapping[str, bool], true: str) -> str:
    """`--skip-bad` is `skip_bad=True`, `--group COLUMN` is `group=COLUMN`, `--by a` is `by='a'`; commands stay."""

    def written(found: re.Match[str]) -> str:
        name, value = found[1].replace("-", "_"), found[2]
        _, command, rest = message[: found.start()].rpartition("negengine ")
        if name not in takes or (command and not re.search(r"[`;:]", rest)):
            return found[0]
        if takes[name] or value in {None, "and", "or", "out"}:
            return f"{name}{f'={true}' * takes[name]}{f' {value}' if value else ''}"
        is_plain = re.fullmatch(r"[A-Z_=|]+|'.*'|-?[0-9,.]+", value)
        return f"{name}={value if is_plain else repr(value)}"

    short = re.sub(r"(?<![\w-])-o(?= |$)", "output", message) if "output" in takes else message
    return _OPTION.sub(written, short)


def recorded(
    function: Callable[..., Any],
    *,
    files: Collection[str] = (),
    words: Collection[str] = (),
    completed: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
) -> Callable[..., Any]:
    """A run function that records how it was called; its `recorded_arguments` says what it records of a call.

    `files` are its arguments that name files or folders: a path, several, or a dictionary of paths. `words` are what
    such an argument can be instead, such as the name of a bundled file, alone or before a colon. `completed` adds to
    the arguments what stands elsewhere, such as in a file beside a table.
    """
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    own = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD and one.name not in ELSEWHERE]

    def arguments_of(*args: Any, **kwargs: Any) -> dict[str, Any]:
        bound = signature.bind_partial(*args, **kwargs)
        bound.apply_defaults()
        given = completed(bound.arguments)
        return {name: _json(given[name], name in files, words) for name in own if name in given}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        made_by = {"function": function.__name__, "arguments": arguments_of(*args, **kwargs)}
        return function(*args, **{"call": made_by, **kwargs})

    call.recorded_arguments = arguments_of  # type: ignore[attr-defined]
    return call


def _json(value: Any, names_files: bool, words: Collection[str]) -> Any:
    if isinstance(value, Enum):
        return value.value
    if _holds_data(value):
        return {IN_MEMORY: type(value).__name__}
    if isinstance(value, Mapping):
        return {str(key): _json(one, names_files, words) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [_json(one, names_files, words) for one in value]
    if isinstance(value, Path) or (names_files and isinstance(value, str) and value.partition(":")[0] not in words):
        path = Path(value)
        found = {"path": without_home(path.absolute())}
        return found | {"sha256": file_sha256(path)} if is_file(path) else found
    return value


def _holds_data(value: Any) -> bool:
    """Whether it is a frame, a list of rows, or a dictionary of columns, and not one of paths."""
    if isinstance(value, Mapping):
        return any(not isinstance(one, str | Path | None) for one in value.values())
    if isinstance(value, list | tuple):
        return any(isinstance(one, Mapping) for one in value)
    return any(hasattr(value, name) for name in ("columns", "__arrow_c_stream__", "collect", "to_polars"))


def files_in(value: Any) -> list[dict[str, str]]:
    """The files and folders in a recorded argument: `path`, and `sha256` for a file."""
    if isinstance(value, list):
        return [found for one in value for found in files_in(one)]
    if isinstance(value, dict):
        return [value] if _is_file(value) else [found for inner in value.values() for found in files_in(inner)]
    return []


def as_given(value: Any) -> Any:
    """A recorded argument as the function takes it: files are paths again."""
    if isinstance(value, list):
        return [as_given(one) for one in value]
    if isinstance(value, dict):
        return str(with_home(value["path"])) if _is_file(value) else {key: as_given(one) for key, one in value.items()}
    return value


def _is_file(value: dict[str, Any]) -> bool:
    return "path" in value and set(value) <= {"path", "sha256"} and all(isinstance(own, str) for own in value.values())
