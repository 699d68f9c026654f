"""The check of a table's rows while they are read for the first time: masks, and how many groups there are."""

import polars as pl

from ...errors import InputError
from .columns import Columns
from .encoding import mask_faults

MOST_VALUES = 1_000


class FewValues:
    """A `stimuli.Check` that also refuses a column of groups with too many values: it holds no groups.

    Args:
        columns: The table's columns.
        mask_token: The model's own.
        name: Of the table, for the message.
    """

    def __init__(self, columns: Columns, mask_token: str, name: str) -> None:
        self._faults = mask_faults(columns, mask_token).alias("reason")
        self._name = name
        self._values: dict[str, set[str]] = {column: set() for column in columns.groups}

    def __call__(self, frame: pl.DataFrame) -> pl.Series:
        """See `stimuli.Check`.

        Raises:
            InputError: A column of groups has too many values.
        """
        for column, known in self._values.items():
            if column in frame.columns:  # a part can lack a column of JSON lines
                known.update(frame[column].drop_nulls().unique().cast(pl.String).to_list())
            if len(known) > MOST_VALUES:
                raise InputError(
                    f"{self._name}: the column {column!r} has more than {MOST_VALUES:,} different values; give another "
                    "--group, or name it with --cluster or --item if it says which rows belong together"
                )
        return frame.select(self._faults).to_series()
