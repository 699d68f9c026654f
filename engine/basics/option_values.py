"""Whether a value that was read from a file, such as TOML or JSON, is one that an option takes."""

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from .errors import InputError, did_you_mean
from .option import OptionField


def fault(field: OptionField, value: Any) -> str:
    """What is given and what is needed; empty for a value of the right kind."""
    if value is None and types.NoneType in get_args(field.type):
        return ""
    words = [str(member.value) for member in field.choices or ()]
    bounds = msgspec.Meta(ge=field.option.minimum, le=field.option.maximum)
    kinds = dict(_kinds(field.type, words, bounds))
    try:
        msgspec.convert(value, _union(kinds))
    except msgspec.ValidationError:
        unknown = [one for one in (value if isinstance(value, list) else [value]) if one not in words]
        given = unknown[0] if words and unknown else value
        near = did_you_mean(given, words) if isinstance(given, str) else ""
        return f"{str(given)[:60]!r}; {near}{' or '.join(kinds.values())} is needed"
    return ""


def _union(kinds: Mapping[Any, str]) -> Any:
    return Union[tuple(kinds)] if kinds else Any  # noqa: UP007 - a tuple that is known at run time


def _kinds(hint: Any, words: Sequence[str], bounds: msgspec.Meta) -> Iterator[tuple[Any, str]]:
    """The types of TOML that an argument takes, as msgspec has them → in words; none for others, such as a frame."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in {Union, types.UnionType}:
        for one in inner:
            if one is not str or Path not in inner:
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
        yield Annotated[str, msgspec.Meta(min_length=1 if hint is Path else 0)], "a text"
    elif hint in {int, float}:
        least = "" if bounds.ge is None else f" of at least {bounds.ge}"
        most = "" if bounds.le is None else f" and at most {bounds.le}"
        yield Annotated[hint, bounds], f"a{' whole' if hint is int else ''} number{least}{most}"
    elif hint is bool:
        yield bool, "true or false"


def refuse_faults(
    what: str, fields: Mapping[str, OptionField], given: Mapping[str, Any], where: Callable[[str | None], str]
) -> None:
    """Refuse unknown, missing and wrong settings; `where` gives the file and line of one, or of the table (None)."""
    for key, value in given.items():
        if key not in fields:
            near, listed = did_you_mean(key, fields), ", ".join(fields) or "none"
            its = f"{near}Its" if near else "its"
            raise InputError(f"{where(key)}: {what} has no setting {key!r}; {its} settings are {listed}")
        if wrong := fault(fields[key], value):
            raise InputError(f"{where(key)}: {key} is {wrong}")
    for key, field in fields.items():
        if field.required and key not in given:
            raise InputError(f"{where(None)}: {what} needs a setting {key!r}")
