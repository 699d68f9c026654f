"""Tables that a user brings: CSV, TSV, JSON lines, Parquet and frames, read part by part.

    source = open_table("stimuli.csv")                     # columns, kind
    stimuli = source.scan(["sentence", "target"])          # one pass: digest, rows, offsets of the parts
    rows = stimuli.read(3)                                 # one part, read where it lies in the file

One part at a time is in memory.
"""

from .columns import find_column, needed_column
from .rows import SKIPPED_SCHEMA, Check, Part, Rows
from .table import ROWS_PER_PART, Stimuli, Table, TableLike, open_table

__all__ = [
    "ROWS_PER_PART",
    "SKIPPED_SCHEMA",
    "Check",
    "Part",
    "Rows",
    "Stimuli",
    "Table",
    "TableLike",
    "find_column",
    "needed_column",
    "open_table",
]
