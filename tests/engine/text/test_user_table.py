"""Users' tables of every kind: the same rows from each, one pass, parts at random, and what is refused."""

import gzip
import json
import pickle
import subprocess
import sys

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.text.user_table import find_column, needed_column, open_table

FRAME = pl.DataFrame(
    {
        "sentence": ["A dog can [MASK].", 'He said: "[MASK], no".', "Le [MASK] est là.", "first\nsecond [MASK]"],
        "target": ["bark", "yes", "café", "line"],
        "item": ["1", "2", "2", "07"],
    }
)


def write_csv(path):
    FRAME.write_csv(path)


def write_semicolons(path):
    FRAME.write_csv(path, separator=";", line_terminator="\r\n", include_bom=True)


def write_tsv(path):
    FRAME.write_csv(path, separator="\t")


def write_jsonl(path):
    FRAME.write_ndjson(path)


def write_parquet(path):
    FRAME.write_parquet(path)


WRITERS = {
    "stimuli.csv": write_csv,
    "semicolons.csv": write_semicolons,
    "stimuli.tsv": write_tsv,
    "stimuli.jsonl": write_jsonl,
    "stimuli.parquet": write_parquet,
    "no name of a kind": write_jsonl,
    "table[1].parquet": write_parquet,
}


def scanned(source, texts=("sentence", "target"), **options):
    return open_table(source).scan(texts, **options)


def all_rows(stimuli):
    return pl.concat([stimuli.read(number).frame for number in range(len(stimuli.parts))])


def refusal(source, **options) -> str:
    with pytest.raises(InputError) as caught:
        scanned(source, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def csv(tmp_path):
    """Writes bytes or text as a CSV file."""

    def write(text, name="own.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("rows_per_part", [1, 3, 100])
def test_every_kind_gives_the_same_rows_in_any_parts(tmp_path, name, rows_per_part):
    WRITERS[name](tmp_path / name)
    stimuli = scanned(tmp_path / name, rows_per_part=rows_per_part)
    assert stimuli.n == 4
    assert all_rows(stimuli).equals(FRAME)


def test_a_part_is_read_in_another_process(tmp_path):
    write_csv(tmp_path / "own.csv")
    sent = pickle.dumps(scanned(tmp_path / "own.csv", rows_per_part=2))
    stimuli = pickle.loads(sent)  # noqa: S301 - our own bytes
    assert stimuli.read(1).frame.equals(FRAME[2:])
    assert stimuli.read(1).numbers.tolist() == [3, 4]
    assert stimuli.read(1).lines.tolist() == [4, 5]


@pytest.mark.parametrize("frame", [FRAME, FRAME.lazy(), FRAME.to_dict(as_series=False), FRAME.to_dicts()])
def test_frames_are_tables(frame):
    stimuli = scanned(frame, rows_per_part=3)
    assert all_rows(stimuli).equals(FRAME)
    assert stimuli.sha256 == scanned(FRAME, rows_per_part=1).sha256
    assert stimuli.sha256 != scanned(FRAME[:3]).sha256


def test_a_frame_as_pandas_has_it(tmp_path):
    class Column(list):
        tolist = list.copy

    class Frame(dict):
        columns = property(list)

    frame = Frame(sentence=Column(["A [MASK].", "B [MASK]."]), target=Column(["a", float("nan")]))
    assert refusal(frame) == "the frame, row 2: target is missing; a text is needed"


def test_columns_of_json_lines_keep_what_they_are(csv):
    rows = [{"sentence": "a", "n": 1, "x": 1, "y": True, "z": [1]}, {"sentence": "b", "x": 0.5, "y": None, "new": "w"}]
    path = csv("\n\n".join(map(json.dumps, rows)), "own.jsonl")
    found = all_rows(scanned(path, ["sentence"], rows_per_part=1))
    assert found.to_dicts() == [
        {"sentence": "a", "n": 1, "x": 1.0, "y": True, "z": "[1]", "new": None},
        {"sentence": "b", "n": None, "x": 0.5, "y": None, "z": None, "new": "w"},
    ]
    assert found.schema["n"] == pl.Int64


def test_columns_of_several_kinds_are_texts(csv):
    path = csv('{"sentence": "a", "x": 1}\n{"sentence": "b", "x": "one"}\n{"sentence": "c", "x": true}', "own.jsonl")
    assert all_rows(scanned(path, ["sentence"], rows_per_part=1))["x"].to_list() == ["1", "one", "true"]


def test_parquet_keeps_its_types_and_writes_lists_as_text(tmp_path):
    frame = FRAME[:2].with_columns(
        pl.col("item").cast(pl.Categorical), n=pl.Series([1, None]), tags=pl.Series([["a"], ["b", "é"]])
    )
    frame.write_parquet(tmp_path / "own.parquet")
    found = all_rows(scanned(tmp_path / "own.parquet"))
    assert found["n"].to_list() == [1, None]
    assert found["tags"].to_list() == ['["a"]', '["b", "é"]']
    assert found["item"].to_list() == ["1", "2"]


def test_empty_lines_and_rows_of_empty_cells_are_no_rows(csv):
    stimuli = scanned(csv("sentence,target\n\na,b\n,\n\nc,d\n,\n"), rows_per_part=1)
    assert [row for number in range(2) for row in stimuli.read(number).frame.rows()] == [("a", "b"), ("c", "d")]
    assert stimuli.n == 2


def test_a_column_without_a_name_is_called_by_its_position(csv):
    assert open_table(csv(",sentence,target\n0,a,b\n")).columns == ("column 1", "sentence", "target")


def test_bad_rows_are_skipped_with_their_reasons(csv):
    path = csv(b'sentence,target\na,b\na\nc,"d\n"e,f\n\xff,g\n,h\ni,NA\nj,k,l\nm,n\n"o,p')
    stimuli = scanned(path, skip_bad=True, rows_per_part=2)
    rows = [stimuli.read(number) for number in range(len(stimuli.parts))]
    assert pl.concat([part.frame for part in rows])["sentence"].to_list() == ["a", "m"]
    skipped = pl.concat([part.skipped for part in rows])
    assert skipped["row"].to_list() == [2, 3, 4, 5, 6, 7, 9]
    assert skipped["line"].to_list() == [3, 4, 6, 7, 8, 9, 11]
    assert skipped["reason"].to_list() == [
        "1 field, but the header has 2",
        "',' expected after '\"'; write a double quote within a quoted text twice",
        "byte 0xff is not UTF-8; save the file as UTF-8 text",
        "sentence is empty; a text is needed",
        "target is NA, a missing value; a text is needed",
        "3 fields, but the header has 2; a text that has a comma must stand in double quotes",
        "a double quote that is not closed",
    ]
    assert skipped["content"][0] == '["a"]'
    assert skipped["content"][4] == '{"sentence": "i", "target": "NA"}'
    assert stimuli.skipped == 7


def test_a_check_makes_rows_bad(csv):
    def check(frame):
        return frame.select(pl.when(pl.col("sentence") == "a").then(pl.lit("an a"))).to_series()

    path = csv("sentence,target\nb,x\na,y\nc,z\n")
    assert refusal(path, check=check) == f"{path}:3: an a"
    stimuli = scanned(path, check=check, skip_bad=True)
    rows = stimuli.read(0, check)
    assert rows.frame["sentence"].to_list() == ["b", "c"]
    assert rows.skipped.rows() == [(2, 3, "an a", '{"sentence": "a", "target": "y"}')]


@pytest.mark.parametrize("rows_per_part", [1, 2])
def test_empty_objects_are_rows_without_a_text(csv, rows_per_part):
    path = csv('{"sentence": "A [MASK]"}\n{}\n{}\n', "own.jsonl")
    stimuli = scanned(path, ["sentence"], skip_bad=True, rows_per_part=rows_per_part)
    assert (stimuli.n, stimuli.skipped) == (3, 2)
    assert all_rows(stimuli)["sentence"].to_list() == ["A [MASK]"]


def test_bad_lines_of_json_are_skipped(csv):
    path = csv(
        '{"sentence": "a"}\nno\n[1]\n{"sentence": 3}\n{"sentence": NaN}\n{"x": 1}\n{"sentence": "NA"}\n', "o.jsonl"
    )
    stimuli = scanned(path, ["sentence"], skip_bad=True)
    rows = stimuli.read(0)
    assert rows.frame["sentence"].to_list() == ["a", "NA"]
    assert rows.skipped["reason"].to_list() == [
        "not JSON (Expecting value: line 1 column 1 (char 0))",
        "'[1]' is not a JSON object; write one object per line",
        "sentence is 3; a text is needed",
        "sentence is NaN; a text is needed",
        "sentence is missing; a text is needed",
    ]


REFUSED = {
    "empty": (b"", "the file is empty"),
    "no row": (b"sentence,target\n", "there is no row below the names of the columns"),
    "gzip": (gzip.compress(b"sentence,target\na,b\n"), "packed with gzip"),
    "compressed junk": (b"\x1f\x8b" + b"\x00" * 50, "packed with gzip"),
    "a spreadsheet": (b"PK\x03\x04" + b"\x00" * 50, "save the sheet as “CSV UTF-8”"),
    "UTF-16": ("sentence,target\na,b\n".encode("utf-16"), "UTF-16"),
    "Latin 1": ("sentence,target\na,é\n".encode("latin-1"), ":2: byte 0xe9 is not UTF-8"),
    "Latin 1 in the header": ("sentence,target,é\na,b,c\n".encode("latin-1"), ":1: byte 0xe9 is not UTF-8"),
    "ragged": (b"sentence,target\na,b\nc\n", ":3: 1 field, but the header has 2"),
    "two columns of one name": (b"sentence,target,target\na,b,c\n", ":1: two columns have the name 'target'"),
    "a quote without end": (b'sentence,target\n"a,b\nc,d\n', ":2: a double quote that is not closed"),
    "NUL": (b"sentence,target\na,b\0\n", ":2: the character U+0000"),
    "line ends of old Macintoshes": (b"sentence,target\ra,b\r", "line end in the middle"),
    "a long line": (b"sentence,target\n" + b"a" * 1_000_001, ":2: this line has more than 1,000,000 bytes"),
    "a long field": (b"sentence,target\n" + b"a" * 200_000, ":2: a text of more than 131,072 characters"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_not_a_table_is_refused_in_one_line(csv, name):
    content, message = REFUSED[name]
    path = csv(content)
    found = refusal(path)
    assert found.startswith(str(path))
    assert message in found


@pytest.mark.parametrize("content", [b"PAR1", b"PAR1" + b"\0" * 50, b"sentence\na\n"])
def test_a_damaged_parquet_file_is_refused_in_one_line(csv, content):
    assert "Parquet" in refusal(csv(content, "own.parquet"))


def test_a_json_list_is_refused(csv):
    assert "one JSON list" in refusal(csv('[{"sentence": "a"}]', "own.json"))


def test_a_column_of_parquet_that_holds_no_texts_is_refused(tmp_path):
    FRAME.with_columns(target=pl.lit(3)).write_parquet(tmp_path / "own.parquet")
    assert "the column 'target' holds Int32; a text is needed" in refusal(tmp_path / "own.parquet")


@pytest.mark.parametrize("source", [3, None, [1, 2], {"a": [1], "b": [1, 2]}])
def test_what_is_not_a_table_is_refused(source):
    with pytest.raises(InputError, match="table"):
        open_table(source)


def test_a_file_that_changes_is_refused_and_a_copy_is_taken(tmp_path):
    write_csv(tmp_path / "own.csv")
    stimuli = scanned(tmp_path / "own.csv", rows_per_part=2)
    (tmp_path / "copy.csv").write_bytes((tmp_path / "own.csv").read_bytes())
    assert stimuli.at({"table 0": tmp_path / "copy.csv"}).read(1).frame.equals(FRAME[2:])
    (tmp_path / "own.csv").write_bytes((tmp_path / "own.csv").read_bytes().replace(b"bark", b"purr "))
    with pytest.raises(InputError, match="changed since the run began"):
        stimuli.read(1)


def test_a_column_is_found_by_its_option_or_its_obvious_name(csv):
    table = open_table(csv("Sentence,Prime\na,b\n"))
    assert needed_column(table, "--sentence", None, ["sentence"]) == "Sentence"
    assert find_column(table, "--target", "Prime", ["target"]) == "Prime"
    assert find_column(table, "--cluster", None, ["cluster"]) is None
    with pytest.raises(InputError, match="no column 'target'; it has 'Sentence', 'Prime': give the right one with --t"):
        needed_column(table, "--target", None, ["target"])
    with pytest.raises(InputError, match="--target prime: did you mean 'Prime'"):
        needed_column(table, "--target", "prime", ["target"])


FIELDS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\"',;"), min_size=1, max_size=8)


@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=9), st.integers(1, 4))
def test_any_texts_come_back_as_they_were_written(tmp_path_factory, rows, size):
    kept = [row for row in rows if all(text.strip() and text not in {"NA", "NaN"} for text in row)]
    path = tmp_path_factory.mktemp("any") / "own.csv"
    pl.DataFrame([("x", "y"), *kept], schema=["a", "b"], orient="row").write_csv(path, quote_style="always")
    stimuli = scanned(path, ["a", "b"], rows_per_part=size)
    assert all_rows(stimuli).rows() == [("x", "y"), *kept]


def test_memory_does_not_grow_with_the_rows(tmp_path):
    script = tmp_path / "scan.py"
    script.write_text(
        "import sys, tracemalloc\n"
        "from negengine.engine.text.user_table import open_table\n"
        "open_table(sys.argv[1]).scan(['sentence'], rows_per_part=100)\n"
        "tracemalloc.start()\n"
        "open_table(sys.argv[1]).scan(['sentence'], rows_per_part=100)\n"
        "print(tracemalloc.get_traced_memory()[1])\n"
    )

    def peak(rows: int) -> int:
        path = tmp_path / f"{rows}.csv"
        path.write_text("sentence\n" + "a short sentence\n" * rows)
        done = subprocess.run([sys.executable, script, path], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert peak(20_000) < 2 * peak(2_000)
