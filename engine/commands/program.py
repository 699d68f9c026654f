"""A list of commands whose lines are not cut."""

from typing import TYPE_CHECKING

from typer.core import TyperGroup

if TYPE_CHECKING:
    from typer import _click

_NO_LIMIT = 1000


class Commands(TyperGroup):
    """A group of commands; its help shows the whole first sentence of each, on several lines where it is long."""

    def format_commands(self, ctx: "_click.Context", formatter: "_click.HelpFormatter") -> None:
        """Write the section `Commands` of the help."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        rows = [(name, command.get_short_help_str(_NO_LIMIT)) for name, command in found.items() if command]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
