"""Commands with subcommands: `negengine nli MODEL` runs a classifier, and `negengine nli train MODEL` trains one.

Such a command is an ordinary command with its own arguments. If the first argument is the name of a subcommand, the
subcommand gets all arguments after it. An argument that happens to have the name of a subcommand is written as a path:
`./train`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import typer

from .program import Command, Program

if TYPE_CHECKING:
    from typer import _click


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
                [(f"{self.name} {name}", found.get_short_help_str(1000)) for name, found in self.commands.items()]
            )


def as_command(name: str, made: Any, kind: type[Command] = Command) -> "_click.Command":
    """A function, or a `typer.Typer` with several, as a command."""
    app = Program(add_completion=False)
    app.callback()(_nothing)  # so that a single command keeps its name
    if isinstance(made, typer.Typer):
        app.add_typer(made, name=name)
    else:
        app.command(name, cls=kind)(made)
    found: _click.Command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    return found


def with_subcommands(functions: Mapping[str, Callable[..., Any]]) -> type[Command]:
    """The class of a command with these subcommands; the class of all commands if there are none."""
    if not functions:
        return Command
    return type("Command", (CommandWithSubcommands,), {"functions": functions})


def all_commands(program: Any) -> "Iterator[tuple[str, _click.Command]]":
    """All commands of a program that do something, with their names: `select`, `data list`, `nli`, `nli train`."""
    for name, command in program.commands.items():
        inner = getattr(command, "commands", {})
        if not inner or isinstance(command, CommandWithSubcommands):
            yield name, command
        yield from ((f"{name} {own}", found) for own, found in inner.items())


def _nothing() -> None:
    """Do nothing before a subcommand."""
