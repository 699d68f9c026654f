"""What commands print: results on stdout, everything else on stderr.

Names, texts and tokens are shown, never obeyed: control characters as escapes, markup as it is. A stdout with another
encoding than UTF-8 gets `?` for the characters that it does not have. A stdout that is full ends the command with one
line and status 2, a stdout whose reader has gone ends it quietly.
"""

import io
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from ..errors import InputError
from ..printable import json_safe, printable_lines

if TYPE_CHECKING:
    from ..tables.render import Format
    from ..tables.table import Table


def say(line: str) -> None:
    """A line for people, beside the results; never fails."""
    from ..runs.stderr import Stderr

    Stderr().write(printable_lines(line) + "\n")


def show(*items: Any, form: "Format | None" = None) -> None:
    """Print results.

    Args:
        items: tables, and texts of one or more lines; what rich can draw is drawn.
        form: how tables are written; for terminals by default. In other formats the result is the tables alone, and
            texts go to stderr.

    Raises:
        InputError: stdout takes nothing more, or is closed.
        SystemExit: the reader of stdout has gone; status 0.
    """
    from ..tables.render import Format
    from ..tables.table import Table

    if form in {None, Format.TABLE}:
        for item in items:
            _write(printable_lines(item) + "\n" if isinstance(item, str) else _drawn(item))
        return
    for text in (item for item in items if isinstance(item, str)):
        say(text)
    _show_formatted([item for item in items if isinstance(item, Table)], form)


def document(value: Any) -> None:
    """One JSON document as the result; errors as for `show`."""
    plain = not _encoding(sys.stdout).startswith("utf")  # then \u escapes, which lose nothing
    _write(json_safe(json.dumps(value, ensure_ascii=plain, indent=2)) + "\n")


def open_standard_streams() -> None:
    """Give a process that was started without stdin, stdout or stderr an empty one.

    Otherwise the first files that it opens get their numbers, and what a library says on stderr lands in them.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one


def _show_formatted(tables: "list[Table]", form: "Format | None") -> None:
    from ..tables.render import Format, render

    text = render(tables, form or Format.TABLE)
    _write(printable_lines(text) if _is_terminal(sys.stdout) else text)


class _Sheet(io.StringIO):
    """What rich draws for stdout: it asks a stream for its encoding, and whether it is a terminal."""

    encoding = property(lambda _: _encoding(sys.stdout))

    def isatty(self) -> bool:
        return _is_terminal(sys.stdout)


def _drawn(item: Any) -> str:
    """A table as the terminal shows it; 80 columns, or COLUMNS, where stdout is not a terminal."""
    from rich.console import Console

    from ..tables.render import to_rich
    from ..tables.table import Table

    sheet = _Sheet()
    width = None if sheet.isatty() or os.environ.get("COLUMNS", "").isdigit() else 80
    Console(file=sheet, width=width, force_jupyter=False).print(to_rich(item) if isinstance(item, Table) else item)
    return sheet.getvalue()


def _write(text: str) -> None:
    stream = sys.stdout
    if stream is None:
        raise InputError("cannot write the results: stdout is closed; send them to a terminal or a file")
    encoding = _encoding(stream)
    try:
        stream.write(text.encode(encoding, "replace").decode(encoding))
        stream.flush()
    except BrokenPipeError:
        _discard(stream)
        raise SystemExit(0) from None
    except (OSError, ValueError) as error:
        _refuse(stream, error)


def _refuse(stream: TextIO, error: Exception) -> NoReturn:
    _discard(stream)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    raise InputError(f"cannot write the results to stdout: {reason}; send them to another place") from None


def _discard(stream: TextIO) -> None:
    """Send what the stream still holds to nowhere: Python would try again at the end, and fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _encoding(stream: TextIO | None) -> str:
    return (getattr(stream, "encoding", None) or "utf-8").lower()


def _is_terminal(stream: TextIO | None) -> bool:
    with suppress(ValueError):  # closed
        return stream is not None and stream.isatty()
    return False
