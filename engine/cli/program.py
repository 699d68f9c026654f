"""The program and its groups of commands: how they say what commands there are, and how one is used.

A first argument that is the name of a subcommand, as in `nli train`, takes all after it; else it is written `./train`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

if TYPE_CHECKING:
    from typer import _click

F = TypeVar("F", bound=Callable[..., Any])
_NO_LIMIT = 1000
_SEVERAL = re.compile(r"<list\[(.*)\]>")


class Command(TyperCommand):
    """A command whose usage names each argument once: `negengine bench [OPTIONS] [WHAT] [MODEL...]`.

    What the command of this process was given is kept, so that a run can record it.
    """

    path: ClassVar[str] = "negengine"
    given: ClassVar[dict[str, list[str]]] = {}  # name of a parameter → its words; arguments first

    def parse_args(self, ctx: "_click.Context", args: list[str]) -> list[str]:
        values, _, order = self.make_parser(ctx).parse_args(list(args))
        Command.path, Command.given = ctx.command_path, {}
        for own in sorted(order, key=lambda own: not isinstance(own, TyperArgument)):
            value = values.get(own.name or "")
            several = value if isinstance(value, list | tuple) else [value]
            if isinstance(own, TyperArgument):
                words = [word for word in several if isinstance(word, str)]
            elif isinstance(value, bool):
                words = [(own.opts if value else own.secondary_opts)[0]]
            else:
                words = [word for one in several for word in (own.opts[0], str(one))]
            Command.given[own.name or ""] = words
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: "_click.Context") -> list[str]:
        pieces = [self.options_metavar or ""]
        for own in self.get_params(ctx):
            if isinstance(own, TyperArgument):
                name = own.display_name_raw + ("..." if own.nargs != 1 and "..." not in own.display_name_raw else "")
                pieces.append(name if own.required or name.startswith("[") else f"[{name}]")
        return pieces

    def format_options(self, ctx: "_click.Context", formatter: "_click.HelpFormatter") -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for own in self.get_params(ctx):
            if (record := own.get_help_record(ctx)) is None:
                continue
            name, said = record
            if isinstance(own, TyperArgument):
                sections["Arguments"].append((own.display_name_raw, said))
            else:
                sections["Options"].append((_SEVERAL.sub(r"<\1>", name), said))
        for heading, rows in sections.items():
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)


class Commands(TyperGroup):
    """A group of commands; its help shows the whole first sentence of each, on several lines where it is long."""

    def format_commands(self, ctx: "_click.Context", formatter: "_click.HelpFormatter") -> None:
        rows = [(name, self.summary(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def list_commands(self, ctx: "_click.Context") -> list[str]:  # noqa: ARG002
        return list(self.commands)  # their names; Typer's own also builds each command

    def summary(self, ctx: "_click.Context", name: str) -> str:
        """The first sentence of a command's help."""
        command = self.get_command(ctx, name)
        return command.get_short_help_str(_NO_LIMIT) if command else ""


class Program(typer.Typer):
    """Typer's program, with `Commands` and `Command`, without markup."""

    def __init__(self, *, cls: type[Commands] = Commands, **options: Any) -> None:
        super().__init__(cls=cls, rich_markup_mode=None, **options)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **options: Any
    ) -> Callable[[F], F]:
        return super().command(name, cls=cls, **options)


class CommandWithSubcommands(Command):
    """A command that runs itself, unless its first argument names one of its subcommands."""

    functions: ClassVar[Mapping[str, Callable[..., Any]]] = {}

    @cached_property
    def commands(self) -> "dict[str, _click.Command]":
        return {name: as_command(name, function) for name, function in self.functions.items()}

    def make_context(
        self, info_name: str | None, args: list[str], parent: "_click.Context | None" = None, **extra: Any
    ) -> "_click.Context":
        if args and (found := self.commands.get(args[0])) is not None:
            return found.make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def format_options(self, ctx: "_click.Context", formatter: "_click.HelpFormatter") -> None:
        super().format_options(ctx, formatter)
        with formatter.section("Subcommands"):
            formatter.write_dl(
                [(f"{self.name} {name}", found.get_short_help_str(_NO_LIMIT)) for name, found in self.commands.items()]
            )


def as_command(name: str, made: Any, functions: Mapping[str, Callable[..., Any]] | None = None) -> "_click.Command":
    """A function, with its subcommands if it has any, or a `typer.Typer` with several, as a command."""
    app = Program(add_completion=False)
    app.callback()(lambda: None)  # so that a single command keeps its name
    if isinstance(made, typer.Typer):
        app.add_typer(made, name=name)
    else:
        kind = type("Command", (CommandWithSubcommands,), {"functions": functions}) if functions else Command
        app.command(name, cls=kind)(made)
    found: _click.Command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    return found


def all_commands(program: Any) -> "Iterator[tuple[str, _click.Command]]":
    """All commands of a program that do something, with their names: `select`, `data list`, `nli`, `nli train`."""
    for name, command in program.commands.items():
        inner = getattr(command, "commands", {})
        if not inner or isinstance(command, CommandWithSubcommands):
            yield name, command
        yield from ((f"{name} {own}", found) for own, found in inner.items())
