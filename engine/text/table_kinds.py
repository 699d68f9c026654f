"""Which kind of table a file is, by its first bytes, then its name; of other files, what the user does about them."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from ..basics.errors import InputError
from .text_lines import BYTE_ORDER_MARK, open_text


class Kind(StrEnum):
    """The kinds of tables, as messages call them."""

    CSV = "CSV"
    TSV = "TSV"
    JSON = "JSON"
    LIST = "JSON list"
    PARQUET = "Parquet"
    ARROW = "Arrow"
    STREAM = "Arrow stream"
    SHEET = "spreadsheet"


HINT = "give a table as CSV, TSV, JSON lines or Parquet"
SHEET_HINT = "save the sheet as “CSV UTF-8” and give that file"
_FIRST = 4096  # bytes that show what a file is
_ZEROS = 20  # a file with more than one zero byte in so many is not a text
_PAGE = ("a page of the web", SHEET_HINT)
_R_DATA = ("data of R", 'in R, load("FILE") and then write.csv(TABLE, "table.csv", row.names = FALSE) make a CSV of it')
_R_OBJECT = ("an object of R", 'in R, write.csv(readRDS("FILE"), "table.csv", row.names = FALSE) makes a CSV of it')
_SPSS = (
    "a file of SPSS",
    'save it there as CSV in UTF-8, or in R: write.csv(haven::read_sav("FILE"), "table.csv", row.names = FALSE)',
)
_STATA = ("a file of Stata", "in Stata, `export delimited` makes a CSV of it; in pandas, read_stata and then to_csv")
_PICKLE = (
    "a pickle of Python, which can run code",
    'in Python, pandas.read_pickle("FILE").to_parquet("table.parquet") makes a Parquet file of it',
)
_NUMPY = (
    "a file of NumPy",
    'in Python, give them names: pandas.DataFrame({"sentence": …}).to_parquet("table.parquet")',
)
_DOCUMENT = "copy its table into a spreadsheet, and " + SHEET_HINT
_YAML = ("YAML", 'in Python, pandas.DataFrame(yaml.safe_load(open("FILE"))).to_csv("table.csv") makes a CSV of a list')
_AS_PARQUET = 'in Python, pandas.read_feather("FILE").to_parquet("table.parquet") makes a Parquet file of it'
# First bytes → which kind of table it is; or what else, and what the user does about it. Those of texts are in lower
# case, and white space can stand before them.
_BY_BYTES: Mapping[bytes, Kind | tuple[str, str]] = {
    b"PAR1": Kind.PARQUET,
    b"ARROW1\0": Kind.ARROW,
    b"\xff\xff\xff\xff": Kind.STREAM,
    b"PK\x03\x04": Kind.SHEET,
    b"\xd0\xcf\x11\xe0": Kind.SHEET,
    b"BZh": ("packed with bzip2", "unpack it with `bunzip2`"),
    b"\xfd7zXZ\x00": ("packed with xz", "unpack it with `unxz`"),
    b"\x28\xb5\x2f\xfd": ("packed with Zstandard", "unpack it with `unzstd`"),
    b"7z\xbc\xaf": ("packed with 7-Zip", "unpack it"),
    b"Rar!": ("packed with RAR", "unpack it"),
    b"\xff\xfe": ("UTF-16 text", "save it as UTF-8"),
    b"\xfe\xff": ("UTF-16 text", "save it as UTF-8"),
    **dict.fromkeys((b"RDX2\n", b"RDX3\n", b"RDA2\n", b"RDA3\n"), _R_DATA),
    b"X\n\0\0": _R_OBJECT,
    **dict.fromkeys((b"$FL2", b"$FL3"), _SPSS),
    **dict.fromkeys((b"<stata_dta>", b"r\x01\x01", b"r\x02\x01", b"s\x01\x01", b"s\x02\x01"), _STATA),
    **dict.fromkeys((b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"), _PICKLE),
    b"FEA1": ("the first version of Feather", _AS_PARQUET),
    b"SQLite format 3": (
        "a database of SQLite",
        "write the table of it as CSV, such as with `sqlite3 -csv -header`",
    ),
    b"%PDF": ("a PDF", _DOCUMENT),
    b"{\\rtf": ("a document (RTF)", _DOCUMENT),
    b"\x89HDF": (
        "a file of HDF5",
        'in Python, pandas.read_hdf("FILE").to_parquet("table.parquet") makes a table of it',
    ),
    b"MATLAB 5.0": ("data of MATLAB", 'in MATLAB, writetable(TABLE, "table.csv") makes a CSV of a table'),
    b"\x93NUMPY": _NUMPY,
    **dict.fromkeys((b"<html", b"<!doctype", b"<table"), _PAGE),
    b"<?xml": ("XML", SHEET_HINT),
}
# The ending of a name, of files whose first bytes do not say what they are.
_BY_ENDING: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys((".docx", ".doc", ".odt", ".pages", ".pptx"), ("a document", _DOCUMENT)),
    ".numbers": ("a spreadsheet of Numbers", "export it there as CSV (UTF-8) or as Excel"),
    ".npz": _NUMPY,
    **dict.fromkeys((".yaml", ".yml"), _YAML),
    ".sas7bdat": ("a file of SAS", 'in Python, pandas.read_sas("FILE").to_csv("table.csv") makes a CSV of it'),
    ".tar": ("an archive (tar)", "unpack it, and give its folder"),
}
IN_FOLDERS = {".csv": Kind.CSV, ".tsv": Kind.TSV, ".jsonl": Kind.JSON, ".ndjson": Kind.JSON, ".parquet": Kind.PARQUET}
IN_FOLDERS |= {".arrow": Kind.ARROW, ".feather": Kind.ARROW, ".xlsx": Kind.SHEET, ".ods": Kind.SHEET}
_BY_NAME = {**IN_FOLDERS, ".tab": Kind.TSV, ".json": Kind.JSON}
DIGESTS = "digests.json"  # of the files of a data set: ours, beside them
# What can be a table, too; in a folder, other files have such names more often.
MAYBE = {*_BY_NAME, ".txt", ".xls", ".zip", ".rds", ".rdata", ".sav", ".dta", ".pkl", ".numbers"}


def kind_of(path: Path) -> Kind:
    """Which kind of table a file is; InputError if it is none."""
    with open_text(path, HINT) as stream:
        first = stream.read(_FIRST)
    if not first.strip():
        raise InputError(f"{path}: the file is empty; {HINT}")
    text = first.removeprefix(BYTE_ORDER_MARK).lstrip()
    begins = (first, text.lower())
    found = next((kind for begin, kind in _BY_BYTES.items() if any(own.startswith(begin) for own in begins)), None)
    if not found or found == Kind.SHEET:
        found = _BY_ENDING.get(bare(path).suffix.lower(), found)
    if not found and first.count(0) * _ZEROS > len(first):
        found = ("no text", HINT)
    if isinstance(found, tuple):
        what, remedy = found
        raise InputError(f"{path}: this is {what}; {remedy.replace('FILE', path.name)}")
    kind = found or _BY_NAME.get(bare(path).suffix.lower(), Kind.JSON if text.startswith(b"{") else Kind.CSV)
    if not found and kind in {Kind.PARQUET, Kind.ARROW, Kind.SHEET}:
        raise InputError(f"{path}: no {kind} file, although its name ends in {path.suffix}; {HINT}")
    return Kind.LIST if kind == Kind.JSON and text.startswith(b"[") else kind


def bare(path: Path) -> Path:
    """The name of a file without the ending of its packing."""
    return path.with_suffix("") if path.suffix.lower() == ".gz" else path
