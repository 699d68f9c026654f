"""Printing: results on stdout, everything else on stderr. Names, texts and tokens never act on the terminal.

Control characters are printed as escapes, markup as plain text, and `?` for what the encoding of stdout lacks.
"""

import io
import json
import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..basics.choices import TABLE
from ..basics.errors import InputError
from ..basics.printable import isolated_lines, json_safe, printable_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..views.table import Table


_written: list[bool] = []  # whether a result was printed


def _put(text: str) -> None:
    """Print at once; raises InputError if stdout is full or closed, SystemExit (0) if its reader has gone."""
    if sys.stdout is None:  # closed before the program began
        raise InputError("cannot write the results: stdout is closed; send them to a terminal or a file")
    _written[:] = [True]
    try:
        sys.stdout.write(text.encode(_encoding(), "replace").decode(_encoding()))
        sys.stdout.flush()
    except BrokenPipeError:
        discard_stdout()
        raise SystemExit(0) from None
    except (OSError, ValueError) as error:
        discard_stdout()
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(f"cannot write the results to stdout: {reason}; send them to another place") from None


def _encoding() -> str:
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower()


def _is_terminal() -> bool:
    with suppress(ValueError):  # closed
        return sys.stdout is not None and sys.stdout.isatty()
    return False


def discard_stdout() -> None:
    """Discard what stdout still holds: Python would try to write it again at the end, and fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def say(line: str, *, is_error: bool = False) -> None:
    """Print a line on stderr; never fails. With --quiet, an error alone is printed."""
    from ..runs.stderr import Stderr

    Stderr(is_error=is_error).write(isolated_lines(printable_lines(line)) + "\n")


def show(*items: Any, form: str = TABLE) -> None:
    """Print results: tables, and texts of one or more lines. In other formats than `table`, texts go to stderr.

    Raises InputError if stdout is full or closed, and SystemExit (status 0) if its reader has gone.
    """
    if form == TABLE:
        drawn = _drawn([item for item in items if not isinstance(item, str)])
        for item in items:
            _put(isolated_lines(printable_lines(item)) + "\n" if isinstance(item, str) else next(drawn))
        return
    from ..views.formats import render

    for text in (item for item in items if isinstance(item, str)):
        say(text)
    pieces([render([item for item in items if not isinstance(item, str)], form)])


def pieces(texts: "Iterable[str]") -> None:
    """Results that are in a format already, or too long for memory, piece by piece; errors as for `show`."""
    for text in texts:
        _put(printable_lines(text) if _is_terminal() else text)


def document(value: Any) -> None:
    """One JSON document as the result; errors as for `show`."""
    plain = not _encoding().startswith("utf")  # then \u escapes, which lose nothing
    _put(json_safe(json.dumps(value, ensure_ascii=plain, indent=2)) + "\n")


def error_document(said: str) -> None:
    """The error alone as a JSON document, if nothing was printed before, and stdout can be written."""
    if not _written:
        with suppress(InputError):
            document({"error": said})


def open_standard_streams() -> None:
    """An empty file for each standard stream that is missing, and `?` for what the encoding of stdout lacks.

    Without them the first files that a process opens would get their numbers, and what a library says would land there.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            os.set_inheritable(descriptor, True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    _written.clear()


class _Sheet(io.StringIO):
    """A stream that rich draws for stdout: rich asks for its encoding, and whether it is a terminal."""

    encoding = property(lambda _: _encoding())

    def isatty(self) -> bool:
        return _is_terminal()


def _drawn(tables: "Sequence[Table]") -> "Iterator[str]":
    """Tables as the terminal shows them. If stdout is not a terminal, the width is COLUMNS, or 80."""
    from rich.console import Console

    from ..views.to_table import to_rich

    sheet = _Sheet()
    width = None if sheet.isatty() or os.environ.get("COLUMNS", "").isdigit() else 80
    console = Console(file=sheet, width=width, force_jupyter=False)
    for table in to_rich(tables, console.width):
        console.print(table)
        yield isolated_lines(sheet.getvalue())
        sheet.seek(sheet.truncate(0))
