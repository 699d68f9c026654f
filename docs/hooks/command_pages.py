"""One page for each command, from its help."""

import re
from typing import Any

from lists import table
from negengine.engine.cli.main import app
from negengine.engine.cli.program import all_commands


def commands() -> dict[str, Any]:
    """Name → command; those of groups have the group's name before."""
    return dict(all_commands(app))


def paths() -> dict[str, str]:
    """Name → path of its page."""
    return {name: f"commands/{name.replace(' ', '-')}.md" for name in commands()}


def overview() -> str:
    """A table with a line for each command."""
    rows = ([f"[{name}]({path})", _first_line(commands()[name])] for name, path in paths().items())
    return table(["command", "what it does"], rows)


def page(name: str) -> str:
    """The page of a command: what it does, its usage, arguments, options, and an example."""
    command = commands()[name]
    context = command.make_context(f"negengine {name}", [], resilient_parsing=True)
    said, _, example = " ".join(command.help.split()).partition("Example: ")
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    lines = [f"# negengine {name}", "", said.strip(), "", "```text", usage, "```", ""]
    arguments, options = [], []
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and "--help" not in parameter.opts:
            (arguments if parameter.param_type_name == "argument" else options).append(record)
    for title, records in (("Argument", arguments), ("Option", options)):
        if records:
            rows = ([f"`{_plain(left)}`", _cell(right)] for left, right in records)
            lines += [f"## {title}s", "", table([title.lower(), "meaning"], rows), ""]
    if example:
        lines += ["## Example", "", "```sh", example.strip(), "```", ""]
    return "\n".join(lines)


def _first_line(command: Any) -> str:
    return _cell(command.help.strip().partition("\n\n")[0].replace("\n", " ")).removesuffix(".")


def _plain(text: str) -> str:
    """A name as code in a cell: on one line; bars in code do not end a cell. An argument's type says nothing more."""
    return re.sub(r"^([A-Z.]+) <[\w\[\]]+>$", r"\1", " ".join(text.split()))


def _cell(text: str) -> str:
    """A text as a cell of a table: on one line, bars escaped."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()
