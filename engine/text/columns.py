"""The columns that a user names, or that have the obvious names."""

from collections.abc import Sequence

from ..errors import InputError, did_you_mean
from .table import Table


def find_column(table: Table, option: str, given: str | None, obvious: Sequence[str] = ()) -> str | None:
    """The column for a purpose.

    Args:
        table: The table.
        option: The option that names the column, such as `--sentence`, for the message.
        given: What the user named; None if nothing.
        obvious: The names that it has without that option, in lower case; upper and lower case are the same.

    Returns:
        The column; None if none is named and none has an obvious name.

    Raises:
        InputError: The table does not have the named column.
    """
    if given is None:
        by_name = {name.strip().lower(): name for name in reversed(table.columns)}
        return next((by_name[name] for name in obvious if name in by_name), None)
    if given not in table.columns:
        near = did_you_mean(given, table.columns)
        raise InputError(f"{option} {given}: {near}{table.name} has no such column; it has {_listed(table)}")
    return given


def needed_column(table: Table, option: str, given: str | None, obvious: Sequence[str]) -> str:
    """The column for a purpose that the table must have; arguments as for `find_column`.

    Raises:
        InputError: The table does not have it.
    """
    found = find_column(table, option, given, obvious)
    if found is None:
        raise InputError(
            f"{table.name}: no column {obvious[0]!r}; it has {_listed(table)}: give the right one with {option} COLUMN"
        )
    return found


def _listed(table: Table) -> str:
    return ", ".join(map(repr, table.columns)) or "no columns"
