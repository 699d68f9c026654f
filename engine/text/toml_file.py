"""A TOML file with the lines of its keys, so that every error names file and line."""

import re
import tomllib
from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from ..basics.errors import InputError
from .text_lines import read_text

_MOST_PARSED = 500  # of the lines that may end a value of several lines
_CLOSES = re.compile("[]}]|\"{3}|'{3}")
_MOST = 2**19  # bytes: tens of times the largest of ours; `tomllib` takes up to 500 bytes for one
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class TomlFile:
    """A TOML file whose tables at the top are arrays, such as `[[pattern]]`, or plain ones, such as `[slots]`."""

    path: Path
    lines: tuple[str, ...]
    document: dict[str, Any]

    @classmethod
    def read(cls, path: Path, hint: str = "") -> "TomlFile":
        text = read_text(path, hint, _MOST)
        try:
            return cls(path, tuple(text.split("\n")), tomllib.loads(text))
        except RecursionError:
            raise InputError(f"{path}: not valid TOML: nested too deeply") from None
        except ValueError as error:  # TOMLDecodeError, or a number with thousands of digits
            # Python 3.11 tells the line in the message alone, and none where the file ends too early.
            line = int(found[1]) if (found := re.search(r"at line (\d+)", str(error))) else text.count("\n")
            raise InputError(f"{path}:{line}: not valid TOML: {error}") from error

    def refuse_unknown(self, known: tuple[str, ...], said: str) -> None:
        if unknown := next((key for key in self.document if key not in known), None):
            raise InputError(f"{self.line(unknown)}: unknown key {unknown!r}; known are {said}")

    def tables(self, name: str) -> list[dict[str, Any]]:
        """The tables of an array; none if the file lacks it. InputError if it is something else."""
        found = self.document.get(name, [])
        if not isinstance(found, list) or not all(isinstance(table, dict) for table in found):
            raise InputError(f"{self.line(name)}: {name} must be tables [[{name}]]")
        return found

    def convert(self, name: str, kind: type[Kind]) -> list[Kind]:
        """The tables of an array as values; InputError if a key is missing, unknown, or of another kind."""
        return self._converted(self.tables(name), list[kind], [name])  # type: ignore[valid-type]

    def whole(self, kind: type[Kind]) -> Kind:
        """The whole file as a value; errors as for `convert`."""
        return self._converted(self.document, kind, [])

    def _converted(self, value: Any, kind: type[Kind], place: list[str | int]) -> Kind:
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise self._refusal(str(error), value, kind, place) from None

    def _refusal(self, error: str, value: Any, kind: Any, place: list[str | int]) -> InputError:
        """What msgspec says is wrong in a value, with the line and the name of the key."""
        said, _, path = error.partition(" - at `$")
        path, inside, _ = path.partition("[...]")  # a key of the user's own, which msgspec does not name
        for name, number in re.findall(r"\.(\w+)|\[(\d+)\]", path):
            place.append(name or int(number))
            value = value[place[-1]]
            types = {own.name: own.type for own in msgspec.structs.fields(kind)} if name else {}
            kind = types.get(name) or next(iter(get_args(kind)), None)
        *tables, key = [step for step in place if isinstance(step, str)] or [""]
        is_own = place[-1:] == [key] and not inside
        if found := re.search(r"unknown field `(\w+)`", said):
            place.append(found[1])
            what = f"unknown key {found[1]!r}; known are {', '.join(kind.__struct_fields__)}"
        elif found := re.search(r"missing required field `(\w+)`", said):
            needed = ", ".join(own.name for own in msgspec.structs.fields(kind) if own.required)
            what = f"this {f'[[{key}]]' if key else 'file'} has no {found[1]!r}; it needs {needed}"
        elif said.startswith("Invalid enum value") and isinstance(value, str):
            what = f"unknown {key} {value!r}; known are {', '.join(kind)}"
        elif said.startswith(("Expected `str`,", "Expected `str | null`,")) and is_own:
            what = f"{key} is {value!r}; it must be a string"
        elif said == "Expected `str` of length >= 1" and is_own:
            what = f"{key} is empty; give a text, or remove the line"
        elif said.startswith("Expected `array") and is_own:
            what = f"{key} is {value!r}; it must be a list, such as [{value!r}]"
        elif said.startswith("Expected `object`") and is_own:
            what = f"{key} is {value!r}; it must be a table [{key}]"
        else:
            what = f"{' '.join([*(f'[[{own}]]' for own in tables), key])}: {said.removeprefix('Object ')}"
        return InputError(f"{self.line(*place)}: {what}")

    def line(self, *place: str | int | None) -> str:
        """File and line on which a place begins, by its keys and numbers: `"pattern", 2, "name"`; None is left out.

        A place that the file lacks has the line of the table that it would be in, or else the first line.
        """
        steps = [step for step in place if step is not None]
        while steps and not _has(self.document, steps):
            steps.pop()

        def is_there(end: int) -> bool:
            return _has(tomllib.loads("\n".join(self.lines[:end])), steps)

        number = bisect_left(self._ends, True, key=is_there) if steps else 0
        return f"{self.path}:{[0, *self._ends][number] + 1}"

    @cached_property
    def _ends(self) -> list[int]:
        """The number of lines up to the end of each statement: it alone is a document, and a part of it is not."""
        ends, begin, tried = list[int](), 0, 0
        for number, line in enumerate(self.lines, 1):
            if number - begin > 1 and (tried > _MOST_PARSED or not _CLOSES.search(line)):
                continue
            tried += 1
            with suppress(ValueError):
                tomllib.loads("\n".join(self.lines[begin:number]))
                ends.append(number)
                begin, tried = number, 0
        return [*ends, len(self.lines)]


def _has(value: Any, place: Sequence[str | int]) -> bool:
    try:
        for step in place:
            value = value[step]
    except (LookupError, TypeError):
        return False
    return True
