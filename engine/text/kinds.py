"""Which kind of table a file is: by its first bytes, and by its name where these are text."""

from enum import StrEnum
from pathlib import Path

from ..errors import InputError
from ..files.reading import open_regular, unreadable
from .textfiles import BYTE_ORDER_MARK

_HINT = "give a table as CSV, TSV, JSON lines or Parquet"
_PARQUET = b"PAR1"
_FIRST = 4096  # bytes that show what a file is
_SPREADSHEET = "save the sheet as “CSV UTF-8” and give that file"
# First bytes → what the file is, and what the user does about it.
_OTHERS = {
    b"\x1f\x8b": ("packed with gzip", "unpack it with `gunzip`"),
    b"BZh": ("packed with bzip2", "unpack it with `bunzip2`"),
    b"\xfd7zXZ\x00": ("packed with xz", "unpack it with `unxz`"),
    b"\x28\xb5\x2f\xfd": ("packed with Zstandard", "unpack it with `unzstd`"),
    b"PK\x03\x04": ("a spreadsheet (.xlsx, .ods) or another zip file", _SPREADSHEET),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet (.xls) or another Office file", _SPREADSHEET),
    b"\xff\xfe": ("UTF-16 text", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "save it as UTF-8"),
    b"%PDF": ("a PDF", _HINT),
}


class Kind(StrEnum):
    """How the rows of a table are written."""

    CSV = "CSV"
    TSV = "TSV"
    JSON_LINES = "JSON lines"
    PARQUET = "Parquet"


_BY_NAME = {
    ".csv": Kind.CSV,
    ".tsv": Kind.TSV,
    ".tab": Kind.TSV,
    ".jsonl": Kind.JSON_LINES,
    ".ndjson": Kind.JSON_LINES,
    ".json": Kind.JSON_LINES,
    ".parquet": Kind.PARQUET,
}


def kind_of(path: Path) -> Kind:
    """Which kind of table a file is.

    Parquet is known by its first bytes. A text is what its name says; without a known name it is JSON lines if it
    begins with `{`, else CSV.

    Args:
        path: The file.

    Raises:
        InputError: It cannot be read, is empty, or is something else, such as a packed file or a spreadsheet.
    """
    with open_regular(path, _HINT) as stream:
        try:
            first = stream.read(_FIRST)
        except OSError as error:
            raise unreadable(path, error, _HINT) from error
    if not first.strip():
        raise InputError(f"{path}: the file is empty; {_HINT}")
    if first.startswith(_PARQUET):
        return Kind.PARQUET
    for begin, (what, remedy) in _OTHERS.items():
        if first.startswith(begin):
            raise InputError(f"{path}: this is {what}; {remedy}")
    text = first.removeprefix(BYTE_ORDER_MARK).lstrip()
    kind = _BY_NAME.get(path.suffix.lower()) or (Kind.JSON_LINES if text.startswith(b"{") else Kind.CSV)
    if kind is Kind.PARQUET:
        raise InputError(f"{path}: not a Parquet file, although its name ends in {path.suffix}; {_HINT}")
    if kind is Kind.JSON_LINES and text.startswith(b"["):
        raise InputError(f"{path}: this is one JSON list; write one object per line, without the outer brackets")
    return kind
