"""Commands, made from their options: how they read a command line, and how they say what they are.

A first argument that is the name of a subcommand, as in `nli train`, takes all after it; else it is written `./train`.
"""

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, ClassVar

import click
from click.shell_completion import CompletionItem

from ..basics.errors import InputError
from ..basics.option import Option, OptionField, options_of_function

_MODELS = "The folder where exported models have their names (default: the variable NEGENGINE_MODELS, else models)."
_QUIET = "Print only results and errors."
_LOG = "Add all messages to this file, each line with the time (default: only on stderr)."


def apply_common(
    *,
    models_folder: Annotated[Path | None, Option(_MODELS, "DIR", flags=("--models",))] = None,
    quiet: Annotated[bool, Option(_QUIET, flags=("--quiet", "-q"))] = False,
    log: Annotated[Path | None, Option(_LOG, "FILE")] = None,
) -> None:
    """Have this process, and those that it starts, do as these options say."""
    from ..runs.stderr import Messages

    if models_folder is not None:
        os.environ["NEGENGINE_MODELS"] = str(models_folder.absolute())
    Messages.quiet = quiet
    Messages.log = None
    if log is not None:
        try:
            Messages.log = log.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"--log {log}: {error.strerror}; give a file in a folder that can be written") from None


COMMON = options_of_function(apply_common)
"""The options of every command."""


class Command(click.Command):
    """A command that calls a function with its options by name, and may have subcommands.

    What the command of this process was given is kept, so that a run can record it.
    """

    path: ClassVar[str] = "negengine"
    given: ClassVar[dict[str, list[str]]] = {}  # name of a parameter → its words; arguments first

    def __init__(
        self,
        function: Callable[..., None],
        fields: Iterable[OptionField],
        *,
        told: str,
        inner: "Mapping[str, Command] | None" = None,
    ) -> None:
        self.fields, self.inner = {field.name: field for field in fields}, inner or {}
        told = inspect.cleandoc(told)
        params = [_parameter(field) for field in self.fields.values()]
        params += [_parameter(field) for field in COMMON.values()]
        super().__init__(None, callback=function, params=params, help=told, short_help=told.partition("\n")[0])

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and (found := self.inner.get(args[0])) is not None:
            return found.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values, _, order = self.make_parser(ctx).parse_args(list(args))
        Command.path, Command.given = ctx.command_path, {}
        for own in sorted(order, key=lambda own: not isinstance(own, click.Argument)):
            value = values.get(own.name or "")
            several = value if isinstance(value, list | tuple) else [value]
            if isinstance(own, click.Argument):
                words = [word for word in several if isinstance(word, str)]
            elif isinstance(value, bool):
                words = [(own.opts if value else own.secondary_opts)[0]]
            else:
                words = [word for one in several for word in (own.opts[0], str(one))]
            Command.given[own.name or ""] = words
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function; an option that was not given has its default."""
        apply_common(**{name: ctx.params.pop(name) for name in COMMON})
        for name, field in self.fields.items():
            value = ctx.params[name]
            ctx.params[name] = field.from_command(None if value == () else value)
        return super().invoke(ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        named = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        own = [param.get_help_record(ctx) for param in named if param.name not in COMMON]
        shared = [param.get_help_record(ctx) for param in named if param.name in COMMON]
        for title, records in (("Options", own), ("Options of every command", shared)):
            if rows := [row for row in records if row is not None]:
                with formatter.section(title):
                    formatter.write_dl(rows)
        if self.inner:
            with formatter.section("Subcommands"):
                path = ctx.command_path.partition(" ")[2]
                formatter.write_dl([(f"{path} {name}", found.short_help or "") for name, found in self.inner.items()])


class _OneOf(click.Choice[Any]):
    """The members of an enum by their values."""

    def normalize_choice(self, choice: Any, ctx: click.Context | None) -> str:
        return super().normalize_choice(choice.value if isinstance(choice, Enum) else choice, ctx)


class _Name(click.Path):
    """A path as it was written, which a shell completes; what stands there is looked at by those that read it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:  # noqa: ARG002
        return Path(value)  # click's own way fails for a name with a NUL


def _parameter(field: OptionField) -> click.Parameter:
    own, (inner, several) = field.option, field.command_type
    kind: Any = inner
    if issubclass(inner, Enum):
        kind = _OneOf(inner)
    elif issubclass(inner, Path):
        kind = _Name()
    elif inner in {int, float} and (own.minimum, own.maximum) != (None, None):
        kind = (click.IntRange if inner is int else click.FloatRange)(own.minimum, own.maximum)
    complete = own.complete
    told: dict[str, Any] = {"type": kind, "help": own.help, "required": field.required}
    if complete is not None:
        told["shell_complete"] = lambda _, __, begun: [CompletionItem(one) for one in complete(begun)]
    if not field.required:
        default = field.shown_default
        told["default"] = default.value if isinstance(default, Enum) else default
    if field.is_argument:
        name = own.metavar or field.name.upper()
        told["metavar"] = name if field.required or name.startswith("[") else f"[{name}]"
        if told.get("default") is not None:
            told["help"] += f"  [default: {told['default']}]"
        return click.Argument([field.name], nargs=-1 if several else 1, **told)
    flags = own.flags or [field.flag]
    if inner is bool:
        return click.Option([field.name, *flags], is_flag=True, **told)
    return click.Option([field.name, *flags], metavar=own.metavar, multiple=several, show_default=True, **told)


def command(function: Callable[..., None]) -> Command:
    """A function whose parameters are options as a command."""
    return Command(function, options_of_function(function).values(), told=function.__doc__ or "")


def all_commands(program: click.Group) -> Iterator[tuple[str, Command]]:
    """All commands of a program that do something, with their names: `select`, `data list`, `nli`, `nli train`."""
    context = click.Context(program)
    for name in program.list_commands(context):
        found = program.get_command(context, name)
        if isinstance(found, Command):
            yield name, found
            yield from ((f"{name} {own}", inner) for own, inner in found.inner.items())
        elif isinstance(found, click.Group):
            yield from ((f"{name} {own}", inner) for own, inner in all_commands(found))
