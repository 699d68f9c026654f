"""Tables as other programs write them: R, pandas, spreadsheets, DuckDB; what looks like a value and is none."""

import gzip
import io
import json
import pickle
import unicodedata
import zipfile
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import xlsxwriter
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.own_table import find_column
from negengine.engine.text.doubts import LOOKS_MISSING, Doubts
from negengine.engine.text.table import open_table
from negengine.engine.text.table_cells import ERRORS, MISSING
from negengine.export.own_rows import seen, table_rows, told

CASES = Path(__file__).parents[4] / "shared/cases/tables/in"
WANTED = [("It is [MASK].", "x"), ("No, it is not [MASK].", "y")]
COLUMNS = ("text", "kind")
R_TABLE = '"text"\t"kind"\n"1"\t"It is [MASK]."\t"x"\n"2"\t"No, it is not [MASK]."\t"y"\n'  # write.table(sep = "\t")
RECORDS = [dict(zip(COLUMNS, row, strict=True)) for row in WANTED]
CSV = 'text,kind\nIt is [MASK].,x\n"No, it is not [MASK].",y\n'
WRITTEN = {
    "R write.table.txt": R_TABLE.replace("\t", " "),
    "R write.table.tsv": R_TABLE,
    "R write.csv.csv": '"","text","kind"\n"1","It is [MASK].","x"\n"2","No, it is not [MASK].","y"\n',
    "pandas to_csv.csv": ',text,kind\n0,It is [MASK].,x\n1,"No, it is not [MASK].",y\n',
    "Excel.csv": "\ufeffsep=;\r\ntext;kind\r\nIt is [MASK].;x\r\nNo, it is not [MASK].;y\r\n;\r\n",
    "by hand.csv": '"text", "kind"\n"It is [MASK].", "x"\n"No, it is not [MASK].", "y"\n',
    "two files in one.csv": CSV.replace('"No', '\ufeff"No'),
    "two files in one.jsonl": "\n\ufeff".join(map(json.dumps, RECORDS)),
    "below an empty line.json": f"\n \n{json.dumps(RECORDS, indent=1)}\n",
    "names in other letters.jsonl": json.dumps(RECORDS[0]).replace('"text"', '" \u200btext"')
    + f"\n{json.dumps(RECORDS[1])}",
    "pipes.csv": "text|kind\nIt is [MASK].|x\nNo, it is not [MASK].|y\n",
    "packed.csv.gz": gzip.compress(CSV.encode(), mtime=0),
    "packed without its ending.csv": gzip.compress(CSV.encode(), mtime=0),
    "pandas records.json": json.dumps(RECORDS),
}


def rows_of(source, texts=("text",), labels=("kind",), size=2, **options):
    doubts = Doubts(texts, labels)
    stimuli = open_table(source, size).scan(texts, labels=labels, see=doubts.see, **options)
    stimuli = replace(stimuli, notes=(*stimuli.notes, *doubts.told()))
    return stimuli, pl.concat([stimuli.read(number).frame for number in range(len(stimuli.parts))])


def refusal(source, **options) -> str:
    with pytest.raises(InputError) as caught:
        rows_of(source, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", WRITTEN)
def test_each_program_gives_the_same_rows(write, name):
    path = write(WRITTEN[name], name)
    _, found = rows_of(path)
    assert found.select(COLUMNS).rows() == WANTED == read_again(path)


def read_again(path) -> list[tuple[str | None, ...]]:
    """As the outsider of `verify --torch` reads a table."""
    rows = ({seen(name): told(cell) for name, cell in row.items()} for row in table_rows(path, COLUMNS))
    return [tuple(row[name] for name in COLUMNS) for row in rows]


@pytest.mark.parametrize("dtype", [pl.Float32, pl.Float64, pl.Boolean, pl.Int64, pl.Date, pl.Categorical, pl.Null])
def test_another_reader_sees_the_same_in_columns_of_every_type(tmp_path, dtype):
    values = {
        pl.Boolean: [True, False, None],
        pl.Categorical: ["x", None, "y"],
        pl.Date: [date(2024, 2, 1), None, None],
    }
    values |= {
        pl.Float32: [0.1, float("nan"), None],
        pl.Float64: [1e15, 0.1, float("nan")],
        pl.Int64: [2**60 + 1, None, 3],
    }
    kind = pl.Series("kind", values.get(dtype, [None] * 3), dtype)
    pl.DataFrame([pl.Series("text", ["a", "b", "c"]), kind]).write_parquet(tmp_path / "own.parquet")
    _, found = rows_of(tmp_path / "own.parquet")
    assert found.select("text", pl.col("kind").cast(pl.String)).rows() == read_again(tmp_path / "own.parquet")


def workbook(*rows, more=(), hidden=(), merged=()) -> bytes:
    """A workbook with one sheet of numbers and texts, hidden ones before it, and further empty ones."""
    content = io.BytesIO()
    with xlsxwriter.Workbook(content) as book:
        for name in hidden:
            book.add_worksheet(name).hide()
        sheet = book.add_worksheet("first")
        sheet.activate()
        for row, own in enumerate(rows):
            sheet.write_row(row, 0, own)
        if merged:
            sheet.merge_range(*merged, rows[merged[0]][merged[1]])
        for name in more:
            book.add_worksheet(name)
    return content.getvalue()


def test_a_workbook_is_a_table_with_the_rows_that_it_shows(write):
    path = write(
        workbook(("text", "kind", "n"), ("a", "x", 3.0), (None,) * 3, ("b", 7.0, 2.5), more=["notes"]), "t.xlsx"
    )
    stimuli, found = rows_of(path)
    assert found.rows() == [("a", "x", 3.0), ("b", "7", 2.5)]
    assert stimuli.read(0).places["line"].to_list() == [2, 4]
    assert stimuli.notes == (f"{path}: only the first of 2 sheets is read: 'first'",)
    assert refusal(write(workbook(("text", "kind"), ("#REF!", "x")), "e.xlsx")).endswith(
        "e.xlsx:2: text is #REF!, an error of a spreadsheet; correct the cell"
    )
    merged = workbook(("kind", "text"), ("x", "a"), (None, "b"), ("y", "c"), merged=(1, 0, 2, 0))
    assert rows_of(write(merged, "merged.xlsx"))[1].rows() == [("x", "a"), ("x", "b"), ("y", "c")]
    across = workbook(
        ("text", "kind"), ("a", "x"), ("from here on", None), merged=(2, 0, 2, 1)
    )  # a heading, not two values
    assert rows_of(write(across, "across.xlsx"))[1].rows() == [("a", "x"), ("from here on", None)]
    seen = write(workbook(("text", 2024.0), ("a", 1.0), hidden=["draft"]), "hidden.xlsx")  # what a person sees is read
    assert (rows_of(seen, labels=("2024",))[1].rows(), rows_of(seen, labels=())[0].notes) == ([("a", 1)], ())
    again = write(workbook(("text", "kind"), ("a", "x"), ("text", "kind"), ("b", "y")), "again.xlsx")
    assert refusal(again) == f"{again}:3: this row is the header again; remove it"
    assert "not a whole spreadsheet" in refusal(write(b"PK\x03\x04" + b"\0" * 60, "broken.xlsx"))


class NAType:
    """As that of pandas: it is neither true nor false."""

    def __eq__(self, _other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


NONE = [None, float("nan"), np.nan, np.float64("nan"), np.datetime64("NaT"), NAType(), *MISSING, " NA ", "\u00a0"]


@pytest.mark.parametrize("missing", NONE, ids=range(len(NONE)))
def test_what_stands_for_no_value_is_none_in_every_way_in(missing):
    columns = {"text": ["a", "b", "c"], "kind": ["x", missing, "y"]}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for source in (columns, rows):
        assert rows_of(source)[1]["kind"].to_list() == ["x", None, "y"]
        assert refusal(source, texts=("kind",), labels=()).startswith("the frame, row 2: kind is ")


def test_what_only_looks_missing_is_told_with_its_count_and_errors_of_spreadsheets_are_refused(write):
    for word in LOOKS_MISSING:
        stimuli, found = rows_of(write(f"text,kind\na,{word}\nb,{word}\nc,x\n"))
        assert found["kind"].to_list() == [word, word, "x"]
        assert f"{word} stands in 2 rows of kind and counts as a value" in stimuli.notes[0]
    for word in ERRORS:
        assert f":2: kind is {word}, an error of a spreadsheet" in refusal(write(f"text,kind\na,{word}\n"))
        assert f":3: text is {word}, an error" in refusal(write(f"text,kind\na,x\n{word},x\n"))


def test_what_may_not_be_a_part_of_a_text_is_told_with_its_rows(write):
    rows = [f"He sees {number} birds.,x" for number in range(40)]
    rows[3], rows[5], rows[30] = "*He see birds.,x", "??Him sees.,x", "Part two,x"
    path = write("\n".join(["text,kind", *rows]))
    assert [note.partition(";")[0] + note[note.index(" (") :] for note in rows_of(path)[0].notes] == [
        f"In 2 rows of text, a text begins with a mark such as *, which a model reads, too ({path}:5)",
        f"In 1 row of text, a text ends without a full stop or the like, unlike the others ({path}:32)",
    ]
    quoted = rows_of(write("text,kind\n'It is.',x\n'It's not.',y\n'Tis.,y\n"))[0].notes
    assert [note.partition(",")[0] for note in quoted] == ["In 2 rows of text"]
    assert not rows_of(write("text,kind\n" + "bird,x\n" * 40 + "fish.,x\n"))[0].notes  # words have no full stop


OF_TOOLS = {
    "holds markup": ["<p>A</p>", "a <br/> b", "a &nbsp; b", "It&#39;s", r"x\nY", "is **not** a"],  # jsPsych, Markdown
    "holds signs such as": ["Die Fl\u00c3\u00bcsse", "It\u00e2\u20ac\u2122s", "gro\u00c3\u0178", "a \ufffd b"],  # Excel
    "holds a blank": ["He ____ it.", "The _ is.", "A [mask] b.", "A <MASK> b."],
    "begins with a tokenizer": ["\u0120bird", "\u2581bird"],
    "": [
        "A [MASK] b.",
        "MA\u00c7\u00c3 N\u00c3O",
        "AT&T; he",
        "snake_case",
        "x < y > z",
        "\u00ab\u00e9t\u00e9\u00bb \u00c2ge",
        "\u2764\ufe0f",
    ],
}


@pytest.mark.parametrize("said", OF_TOOLS)
def test_what_programs_leave_in_a_text_is_told_and_nothing_else(said):
    for text in OF_TOOLS[said]:
        [notes] = [rows_of({"text": [text, "All well."], "kind": ["x", "y"]})[0].notes]
        found = [note for note in notes if "full stop" not in note and "such as *" not in note]
        assert [said in note for note in found] == ([True] if said else []), text


@pytest.mark.parametrize("number", [1.7e18, np.float64(1.7e18), "1.70000000000000E+18", "1,7E+18", "2e+16"])
def test_a_number_without_its_last_digits_tells_no_rows_apart(write, number):
    """Spreadsheets write long numbers so, and fractions hold no more digits: many ids would be one."""
    for source in ({"text": ["a", "b"], "kind": ["x", number]}, {"text": ["a", "b"], "kind": [number, number]}):
        assert " is " + str(number) + ", a number without its last digits; write a text" in refusal(source)
    whole = 1_700_000_000_000_000_001
    for kept in (whole, str(whole), "1e-5", "2E10", "E+18"):
        assert rows_of({"text": ["a"], "kind": [kept]})[1]["kind"].to_list() == [kept]


def test_types_are_those_of_the_whole_table_and_a_label_is_the_text_that_a_person_sees(write):
    rows = [{"text": f"t{i}", "kind": i, "n": i} for i in range(120)]
    rows[110] |= {"kind": 51.5, "n": 51.5}
    rows[115]["late"] = "z"
    path = write("".join(json.dumps(row) + "\n" for row in rows), "own.jsonl")
    for source in (rows, path):
        _, found = rows_of(source, size=50)
        assert found["kind"].to_list() == [str(row["kind"]) for row in rows]
        assert found["n"].to_list() == [float(row["n"]) for row in rows]
        assert found["late"].drop_nulls().to_list() == ["z"]
    large = [1700000000000000001, 1700000000000000002, 2**53 + 1]
    for other, kept in ((None, large), (float("nan"), large), (0.5, [*map(str, large)]), ("a", [*map(str, large)])):
        text = "".join(json.dumps({"text": "a", "kind": value}) + "\n" for value in (*large, other))
        assert rows_of(write(text, "own.jsonl"), size=1)[1]["kind"].to_list()[:3] == kept
    rows = [{"text": "a", "kind": 10**20, "n": 10**20}, {"text": "b", "kind": 1, "n": 1}]
    assert rows_of(rows, size=1)[1].rows() == [("a", f"{10**20}", f"{10**20}"), ("b", "1", "1")]
    odd = {"text": ["a", "b"], "kind": [date(2024, 2, 1), None], "when": [Decimal("1.5"), {"a": 1}]}
    assert rows_of(odd)[1].rows() == [("a", "2024-02-01", "1.5"), ("b", None, '{"a": 1}')]


def test_a_label_has_one_spelling_and_other_ones_are_told():
    composed, apart = (unicodedata.normalize(form, "nié") for form in ("NFC", "NFD"))
    labels = [composed, apart, "is not", "is\u00a0not", "neg", "neg\u200b", "\u202bneg\u202c", "می\u200cرود"]
    _, found = rows_of({"text": ["a"] * len(labels), "kind": labels}, size=3)
    assert found["kind"].to_list() == [composed] * 2 + ["is not"] * 2 + ["neg"] * 3 + ["می\u200cرود"]


@pytest.mark.parametrize("name", ["\ufefftext", "\u00a0text\u3000", "\u200btext", " text\t"])
def test_the_name_of_a_column_is_what_a_person_sees(write, name):
    assert rows_of(write(f"kind,{name}\nx,a\n"))[1].rows() == [("x", "a")]
    assert open_table(write(f'kind,"good \n{name}"\nx,a\n')).columns == ("kind", "good text")


class Kind(Enum):
    """A value of the user's own."""

    ONE = "one"


@pytest.mark.parametrize(
    ("values", "seen"),
    [
        (np.array([0.1, 2.5], np.float32), ["0.1", "2.5"]),
        (pl.Series([0.1, 2.5], dtype=pl.Float32), ["0.1", "2.5"]),
        ([np.float32(0.1), "x"], ["0.1", "x"]),
        ([b"a", "ni\u00e9".encode()], ["a", "ni\u00e9"]),
        (pl.Series([b"a", b"\xff"]), ["a", "\\xff"]),
        ([Kind.ONE, "two"], ["one", "two"]),
        (pl.Series([datetime(2024, 1, 2), None]), ["2024-01-02 00:00:00", None]),
        ([datetime(2024, 1, 2), None], ["2024-01-02 00:00:00", None]),
        (pl.Series(["a", None], dtype=pl.Categorical), ["a", None]),
    ],
)
def test_a_label_of_a_type_is_the_text_that_a_person_sees_in_every_way_in(values, seen):
    columns = {"text": ["a", "b"], "kind": values}
    for source in (columns, pl.DataFrame(columns) if isinstance(values, pl.Series) else columns):
        assert rows_of(source)[1]["kind"].to_list() == seen


class Framed:
    """A frame as pandas has it, with one column as its index."""

    def __init__(self, columns, index=None):
        self.own, self.index = columns, SimpleNamespace(names=[index])
        self.columns = [name for name in columns if name != index]

        self.iloc = self

    def __getitem__(self, place):
        return self.own[self.columns[place[1]]]

    def reset_index(self, level):
        assert level == self.index.names
        return Framed(self.own)


class OfHub:
    """A data set as the package `datasets` has it: no columns, no stream of Arrow."""

    column_names, __len__ = ["kind", "text"], lambda _: 2

    def to_polars(self):
        return pl.DataFrame({"kind": ["x", "y"], "text": ["a", "b"]})


def test_a_data_set_of_the_hub_is_a_table():
    assert rows_of(OfHub())[1].rows() == [("x", "a"), ("y", "b")]


def test_an_index_with_a_name_is_a_column_as_in_the_files_that_pandas_writes():
    own = {"kind": ["x", "y"], "text": ["a", "b"]}
    assert rows_of(Framed(own, "kind"))[1].rows() == rows_of(own)[1].rows() == [("x", "a"), ("y", "b")]


NO_TABLES = {
    "a value": ({"text": ["a"], "kind": 3}, "the column 'kind' of the table is a int; give a list of values"),
    "a set": ({"text": {"a", "b"}}, "the column 'text' of the table is a set; give a list of values"),
    "as to_dict gives it": ({"text": {"0": "a"}}, "the column 'text' of the table is a dict; give a list"),
    "a frame without its columns": (pl.LazyFrame({"text": ["a"]}).select("b"), "the table cannot be read (unable to"),
    "half a sign": ({"text": ["a", "b \ud83d"]}, "the frame, row 2: text holds a character that cannot be printed"),
    "half a sign, as one of control, beside a number": (
        {"text": ["a", "b"], "kind": [1, "\ud83d"]},
        "the frame, row 2: kind holds a character that cannot be printed",
    ),
    "columns of two lengths": (
        {"text": ["a"], "kind": ["x", "y"]},
        "the column 'kind' of the table has 2 values, and the first one 1; give one value a row",
    ),
    "a sign of control": ([{"text": "a", "kind": "\0"}], "the frame, row 1: kind holds a character that cannot be"),
}


@pytest.mark.parametrize("name", NO_TABLES)
def test_what_is_no_table_in_memory_is_one_line(name):
    source, message = NO_TABLES[name]
    assert refusal(source, labels=("kind",) if "control" in name else ()).startswith(message)


WRONG = {
    "qualtrics.csv": (
        'Date,text\n"Start","Write."\n"{""ImportId"":""startDate""}","{""ImportId"":""QID2""}"\n2024,He sleeps.\n',
        ": below the names of the columns, Qualtrics has two lines more; remove them",
    ),
    "page.xls": ("<html><table><tr><td>text</td></tr></table>", ": this is a page of the web; save the sheet as"),
    "joined.csv": ("text,kind\na,x\n\ufefftext,kind\nb,y\n", ":3: this row is the header again; remove it"),
    "joined in capitals.csv": ("text,kind\na,x\nText,KIND\nb,y\n", ":3: this row is the header again; remove it"),
    "twice.jsonl": (
        '{"text": "a", "kind": "x", "text": "b"}\n',
        ":1: the key 'text' stands there twice; write it once",
    ),
    "twice.json": ('[\n {"text": "a"},\n {"text": "b",\n  "text": "c"}\n]', ":3: the key 'text' stands there twice"),
    "alike.json": (
        '\n[{"text": "a"},{"te\\u200bxt": "b", "text": "c"}\n]',
        ":2: the key 'text' stands there twice; write it once",
    ),
    "pandas columns.json": (
        '{"text": {"0": "a", "1": "b"}, "kind": {"0": 1}}',
        ':1: text is {"0": "a", "1": "b"}; a text',
    ),
    "over lines.json": (
        '{"data": [\n {"text": "a"}\n]}\n',
        ":1: not JSON (Expecting value: line 1 column 11 (char 10)); write one object per line, or a list of them",
    ),
    "cut.json": ('[{"text": "a"},\n{"text": "b"', ": not JSON (Expecting ',' delimiter: line 2 column 13"),
    "values.json": ('[{"text": "a"},\n"b"]', ":2: '\"b\"' is not a JSON object; write one object per line"),
    "comment.csv": (
        "# version 2\ntext,kind\na,x\n",
        ":1: a line that begins with # is not a row of a table; remove it",
    ),
    "a comment that looks like a row.csv": (
        "text,kind\na,x\n# from here on, negated\n",
        ":3: a line that begins with # is not a row of a table; remove it",
    ),
    "a comment among sentences.txt": ("text\na\n# negated\n", ":3: a line that begins with # is not a row"),
    "a comma in each text, no name of a row.csv": (
        "item,text\n1,No, he sleeps.\n2,Yes, he sleeps.\n",
        ":2: 3 fields, but the header has 2; a text that has a comma must stand in double quotes",
    ),
    "empty.csv": ("", ": the file is empty"),
    "no rows.csv": ("text,kind\n", ": there is no row below the names of the columns"),
    "the same name.csv": ("text,kind,kind\na,b,c\n", ":1: two columns have the name 'kind'"),
    "of old Macintoshes.csv": ("text,kind\ra,b\r", ":1: a line end in the middle"),
    "not closed.csv": ("text,kind\n" + "a" * 200_000, ":2: a text of more than 131,072 characters"),
    "many columns.csv": ("a," * 1_001 + "\n", ":1: 1,002 columns; a table has at most 1,000"),
    "cut.parquet": (b"PAR1" + b"\0" * 50, ": not a whole Parquet file"),
    "utf16.csv": ("text,kind\na,x\n".encode("utf-16"), ": this is UTF-16 text; save it as UTF-8"),
}


OTHERS = {
    "own.rds": (gzip.compress(b"X\n\0\0\0\3" + bytes(90)), 'an object of R; in R, write.csv(readRDS("own.rds"), "'),
    "own.RData": (gzip.compress(b"RDX3\nX\n" + bytes(90)), 'data of R; in R, load("own.RData")'),
    "own.pkl": (
        pickle.dumps(WANTED),
        'a pickle of Python, which can run code; in Python, pandas.read_pickle("own.pkl")',
    ),
    "own.csv": (pickle.dumps(WANTED, 2), "a pickle of Python"),  # whatever its name
    "own.sas7bdat": (bytes(90) + b"SAS FILE", 'a file of SAS; in Python, pandas.read_sas("own.sas7bdat")'),
    "own.bin": (bytes(90), "no text; give a table as CSV, TSV, JSON lines or Parquet"),
    "own.docx": (b"PK\3\4" + bytes(90), "a document; copy its table into a spreadsheet, and save the sheet as"),
    "own.DOC": (b"\xd0\xcf\x11\xe0" + bytes(90), "a document; copy its table into a spreadsheet"),
    "own.numbers": (b"PK\3\4" + bytes(90), "a spreadsheet of Numbers; export it there as CSV"),
    "own.tar": (b"own.csv" + bytes(90), "an archive (tar); unpack it, and give its folder"),
    "own.xls": ("\n<TABLE><tr><td>text</td></tr></table>", "a page of the web; save the sheet as"),
}


WRONG |= {name: (content, f": this is {message}") for name, (content, message) in OTHERS.items()}


@pytest.mark.parametrize("name", ["own.arrow", "own.feather", "data-00000-of-00001.arrow"])
def test_arrow_files_are_read_as_parquet_is(tmp_path, name):
    frame, path = pl.DataFrame(WANTED, COLUMNS, orient="row"), tmp_path / name
    kinds = frame.with_columns(pl.col("kind").cast(pl.Categorical), n=pl.lit(0.5, pl.Float32), dates=pl.lit(date.max))
    kinds.write_ipc_stream(path) if "-of-" in name else kinds.write_ipc(path, compression="zstd")
    kinds.write_parquet(tmp_path / "own.parquet")
    found, other = rows_of(path)[1], rows_of(tmp_path / "own.parquet")[1]
    assert found.equals(other)
    assert found.select(COLUMNS).rows() == WANTED
    path.write_bytes(path.read_bytes()[:60])
    assert refusal(path).startswith(f"{path}: not a whole Arrow")


def test_a_date_is_no_text_and_what_rows_share_can_be_one(tmp_path):
    table = {"text": ["a", "b"], "kind": [date(2026, 5, 1), None], "odd": ["c", time(10, 30)]}
    stimuli, found = rows_of(table)
    assert found["kind"].to_list() == ["2026-05-01", None]
    assert [note.split(", which")[0] for note in stimuli.notes] == ["the frame: kind has dates or times"]
    assert refusal(table, texts=("odd",)) == "the frame, row 2: odd is 10:30:00; a text is needed"
    assert refusal(table, texts=("kind",)) == "the frame, row 1: kind is 2026-05-01; a text is needed"


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_by_file_and_line(write, name):
    content, message = WRONG[name]
    path = write(content, name)
    assert refusal(path, labels=()).startswith(f"{path}{message}")


def test_spaces_and_commas_within_names_of_columns_divide_no_fields(write):
    pairs = write("good text,bad text\nHe sleeps.,He sleep.\n")
    assert rows_of(pairs, ("good text", "bad text"), ())[1].rows() == [("He sleeps.", "He sleep.")]
    tabs = write("text (he, she, they)\tkind\na, b, c\tx\n", "own.tsv")
    assert rows_of(tabs, ("text (he, she, they)",))[1].rows() == [("a, b, c", "x")]
    dashes = rows_of(write("| text | kind |\n|:---|----|\n| It is [MASK]. | x |\n", "of Markdown.txt"))[1]
    assert dashes.select(pl.col(COLUMNS).str.strip_chars()).rows() == WANTED[:1]
    assert rows_of(write("one text\nHe sleeps\n", "own.txt"), ("one text",), ())[1].rows() == [("He sleeps",)]


def test_a_quotation_that_swallows_a_row_is_told(write):
    path = write('text\tkind\nIt rains.\tx\n"I am,\tx\nand you are."\ty\nWe are.\tz\n', "own.tsv")
    stimuli, found = rows_of(path)
    assert (len(found), stimuli.notes[0].partition(";")[0]) == (
        3,
        f"{path}: line 3: a text in double quotes goes on over a line that looks like a row of its own",
    )
    assert not rows_of(write('text,kind\n"two\nlines",x\n'))[0].notes


def test_the_exact_name_wins_an_ambiguous_one_is_refused_and_an_empty_one_is_none():
    table = open_table({"Kind": ["a"], "kind": ["b"], "Text": ["c"], "TEXT": ["d"], "Prefix ": ["e"]})
    assert find_column(table, "--group", None, ["kind"]) == "kind"
    for given in (None, "Prefix", "\u200bPrefix "):  # as a person sees it
        assert find_column(table, "--prefix", given, ["prefix"]) == "Prefix"
    assert find_column(table, "--prefix", "", ["prefix"]) is None
    with pytest.raises(InputError, match=r"is 'Text' or 'TEXT' the column 'text'\? Name one with --sentence COLUMN"):
        find_column(table, "--sentence", None, ["text"])
    assert "two columns have the name '0'" in refusal({0: ["a"], "0": ["b"]}, texts=("0",), labels=())
    assert "row 1: the key '0' stands there twice" in refusal([{0: "a", "0": "b"}], texts=("0",), labels=())
    alike = [{"text": "a", "kind": "x"}, {" text": "b", "kind\u200b": "y"}]  # one column, in two spellings
    assert rows_of(alike)[1].rows() == [("a", "x"), ("b", "y")]


def test_files_of_a_folder_keep_their_names_apart_and_hidden_ones_are_left_alone(write, tmp_path):
    for name in ("dev.csv", "dev.tsv", "test.csv"):
        write("text\na\n", name)
    for name in ("._dev.csv", ".hidden.jsonl", "~$dev.xlsx"):
        write(b"\0\5\x16\7", name)
    table = open_table(tmp_path)
    assert [table.file(number) for number in range(3)] == ["dev.csv", "dev.tsv", "test"]
    assert table.notes == ()
    (tmp_path / "more").mkdir()
    for name in ("README.md", "info.json", "dev.txt"):
        write("text\na\n", name)
    [note] = open_table(tmp_path).notes
    assert note.startswith(f"{tmp_path / 'dev.csv'}: not read: dev.txt, info.json, more; the name of a table")


def test_a_folder_without_a_table_names_those_within_and_our_own_file_is_not_told(write, tmp_path):
    folder = tmp_path / "own"
    for name in ("data", "empty", "__MACOSX"):
        (folder / name).mkdir(parents=True)
    for name in ("data/a.csv", "data/digests.json", "__MACOSX/._a.csv", "README.md"):
        (folder / name).write_text("text\na\n")
    assert refusal(folder, labels=()) == f"{folder}: this folder does not hold a table; give {folder / 'data'}"
    assert rows_of(folder / "data", labels=())[0].notes == ()


def test_an_archive_is_the_folder_that_is_in_it(write, tmp_path):
    path = tmp_path / "own.zip"
    apart = {".DS_Store": "", "data/.DS_Store": "", "README.md": "a", "data/README.md": "b"}
    members = {"data/b.csv": "text,kind\nb,x\n", "data/a.jsonl": '{"text": "a", "n": 1}\n', "notes.txt": "no table"}
    with zipfile.ZipFile(path, "w") as archive:
        archive.mkdir("data")
        for name, text in {**members, **apart, "__MACOSX/data/._b.csv": "\0\5\x16\7"}.items():
            archive.writestr(name, text)
    for name in ("b.csv", "a.jsonl"):
        (tmp_path / "own").mkdir(exist_ok=True)
        (tmp_path / "own" / name).write_text(members[f"data/{name}"])
    packed, plain = (rows_of(source, labels=())[0] for source in (path, tmp_path / "own"))
    assert (packed.title, packed.sha256, packed.file_names) == ("own", plain.sha256, ("a", "b"))
    assert [packed.read(part).frame.rows() for part in (0, 1)] == [plain.read(part).frame.rows() for part in (0, 1)]
    assert packed.location(1, 1) == f"{path}/b.csv:2"
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more/b.csv", "text\nc\n")
    assert refusal(path) == f"{path}: two files have the name 'b.csv'; unpack it and give one folder"
    assert "own.zip: the archive cannot be unpacked (" in refusal(write(path.read_bytes()[:200], "own.zip"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "no table")
    assert "own.zip: this archive does not hold a table" in refusal(path)


@pytest.mark.parametrize("name", ["pq_arrow", "pq2_duck", "pq3_duck", "pq_duck"])
def test_columns_of_types_that_nobody_uses_do_no_harm(name):
    if not (path := CASES / f"{name}.parquet").exists():
        pytest.skip("the files of Arrow and DuckDB are not here")
    stimuli, found = rows_of(path, ("sentence", "target"), ("group", "item"))
    assert len(found) == 8
    found.write_csv(io.BytesIO())
    if name == "pq_duck":
        with pytest.raises(InputError, match=r"the column 'iv' cannot be read .* write it as a text"):
            open_table(path).scan(["sentence"], labels=["iv"])
    assert stimuli.sha256


def test_a_column_of_lists_is_neither_a_label_nor_a_text(write, tmp_path):
    """In Parquet and in frames the schema says it, and numbers are not read: they can be larger than all others."""
    frame = pl.DataFrame({"sentence": ["a [MASK]"], "group": [[1, 2]], "struct": [{"x": 1}]})
    frame.write_parquet(tmp_path / "own.parquet")
    for source in (frame, tmp_path / "own.parquet"):
        for name in ("group", "struct"):
            for asked in ({"texts": ["sentence"], "labels": [name]}, {"texts": [name]}):
                with pytest.raises(
                    InputError, match=f"the column '{name}' cannot be read .it holds lists or objects without texts"
                ):
                    open_table(source).scan(**asked)
        stimuli = open_table(source).scan(["sentence"])
        assert (stimuli.n, len(stimuli.notes)) == (1, 2)
    frame = frame.with_columns(group=pl.Series([["a", "b"]]))
    frame.write_parquet(tmp_path / "own.parquet")
    for source in (frame, tmp_path / "own.parquet", write(json.dumps(frame.to_dicts()[0]), "own.jsonl")):
        with pytest.raises(InputError, match="the column 'group' holds lists; a text or a number a row is needed"):
            open_table(source).scan(["sentence"], labels=["group"])
        assert rows_of(source, ("sentence",), ())[1]["group"].to_list() == ['["a", "b"]']
