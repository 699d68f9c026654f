"""The program and its groups of commands: how they say what commands there are, and how one is used."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

if TYPE_CHECKING:
    from typer import _click

F = TypeVar("F", bound=Callable[..., Any])
_NO_LIMIT = 1000
_SEVERAL = re.compile(r"<list\[(.*)\]>")


class Command(TyperCommand):
    """A command whose usage names each argument once: `negengine bench [OPTIONS] [WHAT] [MODEL...]`.

    `MODEL` must be given. `[MODEL]` is optional. `MODEL...` stands for one name or several. A name that has brackets or
    dots already is shown as it is.
    """

    def collect_usage_pieces(self, ctx: "_click.Context") -> list[str]:
        arguments = [own for own in self.get_params(ctx) if isinstance(own, TyperArgument)]
        return [self.options_metavar or "", *map(_usage, arguments)]

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

    def list_commands(self, ctx: "_click.Context") -> list[str]:  # noqa: ARG002 - part of the interface
        return list(self.commands)  # their names; Typer's own also builds each command

    def summary(self, ctx: "_click.Context", name: str) -> str:
        """The first sentence of a command's help."""
        command = self.get_command(ctx, name)
        return command.get_short_help_str(_NO_LIMIT) if command else ""


class CommandsByName(Mapping[str, "_click.Command"]):
    """Commands that are imported and built when they are asked for.

    To build all of them would take a tenth of the time of a short command.
    """

    def __init__(self, names: Callable[[], Iterable[str]], find: "Callable[[str], _click.Command | None]") -> None:
        self._names = names
        self._find = find
        self._found: dict[str, _click.Command | None] = {}

    def __getitem__(self, name: str) -> "_click.Command":
        if name not in self._found:
            self._found[name] = self._find(name)
        if (found := self._found[name]) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(list(self._names()))


class Program(typer.Typer):
    """Typer's program, with `Commands` and `Command`, without markup."""

    def __init__(self, *, cls: type[Commands] = Commands, **options: Any) -> None:
        super().__init__(cls=cls, rich_markup_mode=None, **options)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **options: Any
    ) -> Callable[[F], F]:
        return super().command(name, cls=cls, **options)


def _usage(argument: TyperArgument) -> str:
    name = argument.display_name_raw
    if argument.nargs != 1 and "..." not in name:
        name += "..."
    return name if argument.required or name.startswith("[") else f"[{name}]"
