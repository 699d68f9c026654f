"""An option, written once for the command line, the library and suites: a field of a frozen dataclass."""

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypedDict, Union

from .choices import Precision, devices_help
from .errors import LARGEST, check_number, choice


@dataclass(frozen=True)
class Option:
    """How a person gives the value of a field: the annotation of a field holds one."""

    help: str  # a sentence for the command line and for the docstring
    metavar: str | None = None  # what stands for the value on the command line
    kind: Any = None  # the type on the command line, where it is another one than in Python: `list[Corpus]`
    is_file: bool = False  # whether the value names files or folders, whose digests are recorded
    words: Sequence[str] = ()  # what such a value can be instead, such as the name of a bundled file
    minimum: int | None = None
    maximum: int | None = None
    flags: Sequence[str] = ()  # of the command line, where there are others than --NAME
    shown: str | None = None  # the default on the command line, where a text stands for the value
    read: Callable[[Any], Any] | None = None  # from the text on the command line to the value
    complete: Callable[[str], list[str]] | None = None  # the values that begin so, for a shell that completes them


class Argument(Option):
    """A value that has no name on the command line, and may have a default."""


@dataclass(frozen=True)
class OptionField:
    """A field that a person gives."""

    name: str
    type: Any  # in Python
    option: Option
    default: Any  # `dataclasses.MISSING` if it must be given

    @property
    def flag(self) -> str:
        return self.option.flags[0] if self.option.flags else flag(self.name)

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    def default_or(self, missing: Any) -> Any:
        return missing if self.required else self.default

    def from_command(self, value: Any) -> Any:
        if value is None:
            return self.default_or(None)
        return value if self.option.read is None else self.option.read(value)

    @property
    def shown_default(self) -> Any:
        """None where the help says in words what it is."""
        if self.option.shown is not None:
            return self.option.shown
        return self.default if isinstance(self.default, str | int | float | Path) else None

    @property
    def is_argument(self) -> bool:
        """Whether it has no name on the command line: if it must be given and has no flag, or is for several words."""
        own = self.option
        several = re.search(r"[A-Z]\.\.\.", own.metavar or "") is not None
        return isinstance(own, Argument) or several or (self.required and not own.flags)

    @property
    def command_type(self) -> "tuple[Any, bool]":
        """The type of a value on the command line, and whether there can be several."""
        kind = self.option.kind or self.type
        first = next((one for one in typing.get_args(kind) if one is not type(None)), str)
        kind = first if typing.get_origin(kind) in {Union, types.UnionType} else kind
        several = typing.get_origin(kind) is list
        inner = typing.get_args(kind)[0] if several else kind
        return inner if isinstance(inner, type) else str, several

    @property
    def choices(self) -> "type[Enum] | None":
        """What the value, or each of several, is chosen from."""
        inner, _ = self.command_type
        return inner if issubclass(inner, Enum) else None

    def checked(self, value: Any) -> Any:
        """The value, or several of them, as members of `choices` if it has any; InputError if it is out of limits."""
        if (kind := self.choices) is not None and value is not None:
            if typing.get_origin(self.option.kind) is not list:
                return choice(kind, self.flag, str(value))
            several = [value] if isinstance(value, str) else value
            return tuple(dict.fromkeys(choice(kind, self.flag, str(one)) for one in several))
        if isinstance(value, int | float) and not isinstance(value, bool) and self.option.minimum is not None:
            check_number(self.flag, value, self.option.minimum, self.option.maximum or LARGEST)
        return value


def flag(name: str) -> str:
    """The option of an argument: `--cpus-per-worker` of `cpus_per_worker`."""
    return f"--{name.replace('_', '-')}"


def option_field(name: str, annotation: Any, default: Any = dataclasses.MISSING) -> OptionField:
    """The option of an annotation that has an `Option`; one without a default must be given."""
    return OptionField(name, annotation.__origin__, annotation.__metadata__[0], default)


def options_of_function(function: Callable[..., Any]) -> dict[str, OptionField]:
    """The options of a function by name: its parameters with an `Option`."""
    found = {}
    for own in inspect.signature(function).parameters.values():
        if isinstance(next(iter(getattr(own.annotation, "__metadata__", ())), None), Option):
            default = dataclasses.MISSING if own.default is own.empty else own.default
            found[own.name] = option_field(own.name, own.annotation, default)
    return found


@cache
def options_of(declared: Any) -> dict[str, OptionField]:
    """The options of a dataclass by name: the fields with an `Option`."""
    hints = typing.get_type_hints(declared, include_extras=True)
    found = {}
    for field in dataclasses.fields(declared):
        own = [one for one in getattr(hints[field.name], "__metadata__", ()) if isinstance(one, Option)]
        if own:
            found[field.name] = OptionField(field.name, hints[field.name].__origin__, own[0], field.default)
    return found


def check_options(made: Any) -> None:
    """Check each option of a frozen dataclass that has just been made, and put members in the place of their names."""
    kind: Any = type(made)
    for name, field in options_of(kind).items():
        object.__setattr__(made, name, field.checked(getattr(made, name)))


@dataclass(frozen=True)
class Opening:
    """How a model is opened: one value, handed on from the command line to the session."""

    device: Annotated[str, Option(f"{devices_help()}. Several share the work: cuda:0,cuda:1.", metavar="DEVICE")] = (
        "auto"
    )
    precision: Annotated[
        Precision, Option("mixed: a low-precision model where that is safe, else fp32; auto: the faster of the two.")
    ] = Precision.AUTO
    batch_tokens: Annotated[
        int | None,
        Option("Largest number of tokens in a batch (default: by the device).", metavar="N", minimum=16, maximum=2**20),
    ] = None
    threads: Annotated[
        int | None, Option("CPU threads (default: one for each core).", metavar="N", minimum=1, maximum=1_024)
    ] = None

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def is_exact(self) -> bool:
        """Whether the reference model alone may compute."""
        return self.precision is Precision.FP32

    @property
    def is_mixed(self) -> bool:
        """Whether a low-precision model is asked for, and not left to the program."""
        return self.precision is Precision.MIXED

    @property
    def session(self) -> "dict[str, Any]":
        """What a session takes besides its device."""
        return {"batch_tokens": self.batch_tokens, "threads": self.threads}


class OpeningOptions(TypedDict, total=False):
    """The fields of `Opening` as keyword arguments of functions that find a model.

    Attributes:
        device: `auto`, `cpu`, `cuda`, `cuda:1`, `webgpu`; several devices, separated by commas, share the work.
        precision: `auto`, `fp32` or `mixed` (a low-precision model where that is safe).
        batch_tokens: Largest number of tokens in a batch.
        threads: CPU threads.
    """

    device: str
    precision: str
    batch_tokens: int | None
    threads: int | None
