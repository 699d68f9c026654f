"""Users' tables of every kind: the same rows from each, one pass, parts at random, and what is refused."""

import gzip
import json
import pickle
import re
import shutil
import tracemalloc
from dataclasses import replace
from datetime import timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.own_table import absent_columns, find_column, item_of, needed_columns
from negengine.engine.text.records import records
from negengine.engine.text.table import ROWS_PER_PART, open_table
from negengine.engine.text.table_cells import ERRORS, MISSING
from negengine.engine.text.table_text import Form
from negengine.engine.text.text_lines import LONGEST_LINE, read_lines, stream_lines

SENTENCES = ["A dog can [MASK].", 'He said: "[MASK], no".', "Le [MASK] est là.", "first\nsecond [MASK]"]
FRAME = pl.DataFrame({"sentence": SENTENCES, "target": ["bark", "yes", "café", "line"], "item": ["1", "2", "2", "07"]})
WRITERS = {
    "stimuli.csv": FRAME.write_csv,
    "semicolons.csv": lambda path: FRAME.write_csv(path, separator=";", line_terminator="\r\n", include_bom=True),
    "stimuli.tsv": lambda path: FRAME.write_csv(path, separator="\t"),
    "no name of a kind": FRAME.write_ndjson,
    "table[1].parquet": FRAME.write_parquet,
}


def scanned(source, texts=("sentence", "target"), rows_per_part=ROWS_PER_PART, **options):
    return open_table(source, rows_per_part).scan(texts, **options)


def all_rows(stimuli):
    return pl.concat([stimuli.read(number).frame for number in range(len(stimuli.parts))])


def refusal(source, **options) -> str:
    with pytest.raises(InputError) as caught:
        scanned(source, **options)
    return str(caught.value)


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_gives_the_same_rows_in_any_parts(tmp_path, name):
    WRITERS[name](tmp_path / name)
    stimuli = scanned(tmp_path / name, rows_per_part=3)
    assert stimuli.sizes == [3, 1]
    assert all_rows(stimuli).equals(FRAME)


def test_frames_are_tables_also_those_of_pandas_with_nan_for_no_text():
    for frame in (FRAME, FRAME.lazy(), FRAME.to_dict(as_series=False), FRAME.to_dicts()):
        stimuli = scanned(frame, rows_per_part=3)
        assert all_rows(stimuli).equals(FRAME)
        assert stimuli.sha256 == scanned(FRAME, rows_per_part=1).sha256 != scanned(FRAME[:3]).sha256

    columns = {"sentence": ["A [MASK].", "B [MASK]."], "target": np.array(["a", np.nan], object)}
    pandas = type("Frame", (), {"columns": [*columns], "__getitem__": lambda _, name: columns[name]})()
    assert refusal(pandas) == "the frame, row 2: target is missing; a text is needed"


def test_a_folder_of_tables_is_one_table(tmp_path):
    FRAME[:3].write_csv(tmp_path / "b.csv")
    FRAME[3:].with_columns(n=1).select("n", *FRAME.columns).write_parquet(tmp_path / "c.parquet")
    (tmp_path / "notes.txt").write_text("no table")
    (tmp_path / "._b.csv").write_bytes(b"\0\5\x16\7")
    with pytest.raises(InputError, match=r"b\.csv: no column 'n', which others of these files have"):
        scanned(tmp_path, labels=["n"])
    stimuli = scanned(tmp_path, rows_per_part=2)  # only the columns in use must be in all files
    wanted = FRAME.with_columns(n=pl.Series([None, None, None, 1], dtype=pl.Int64))
    assert all_rows(stimuli).select(wanted.columns).equals(wanted)
    assert [stimuli.file(number) for number in range(3)] == ["b", "b", "c"]
    assert (stimuli.title, stimuli.location(1, 3)) == (tmp_path.name, f"{tmp_path / 'b.csv'}:4")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: this folder does not hold a table"):
        open_table(tmp_path / "empty")


def test_a_part_is_read_in_another_process_from_a_copy_and_as_it_was_when_the_run_began(tmp_path):
    path, copy = tmp_path / "own.csv", tmp_path / "copy"
    FRAME.write_csv(path)
    here = scanned(path, rows_per_part=2)
    stimuli = pickle.loads(pickle.dumps(here))  # noqa: S301 - our own bytes
    path.write_bytes(path.read_bytes().replace(b"bark", b"purr "))  # what was read is what counts
    assert stimuli.read(0).frame.equals(FRAME[:2])
    rows = stimuli.read(1)
    assert rows.frame.equals(FRAME[2:])
    assert (rows.places["row"].to_list(), rows.places["line"].to_list()) == ([3, 4], [4, 5])
    [folder] = stimuli.paths().values()
    shutil.copytree(folder, copy)
    del here  # the last one that owns the rows
    assert not folder.exists()
    assert stimuli.at(dict.fromkeys(stimuli.paths(), copy)).read(1).frame.equals(FRAME[2:])
    assert scanned(path).sha256 != stimuli.sha256


def test_columns_keep_their_types_and_lists_are_written_as_text(write, tmp_path):
    rows = [
        {"sentence": "a", "n": 1, "x": 1, "y": True, "z": [1], "mixed": 1},
        {"sentence": "b", "x": 0.5, "y": None, "new": "w", "mixed": "one"},
    ]
    found = all_rows(scanned(write("\n\n".join(map(json.dumps, rows)), "own.jsonl"), ["sentence"], rows_per_part=1))
    wanted = [("a", 1, 1.0, True, "[1]", "1", None), ("b", None, 0.5, None, None, "one", "w")]
    assert found.equals(pl.DataFrame(wanted, ["sentence", "n", "x", "y", "z", "mixed", "new"], orient="row"))
    path, item, time = tmp_path / "own.parquet", pl.col("item").cast(pl.Categorical), timedelta(seconds=3)
    frame = FRAME[:2].with_columns(
        item, n=pl.Series([1, None]), z=pl.Series([["a"], ["é"]]), v=pl.Series([[1], [2]]), time=time
    )
    frame.write_parquet(path)
    plain = FRAME[:2].with_columns(
        n=pl.Series([1, None]), z=pl.Series(['["a"]', '["é"]']), v=pl.lit(None, pl.String), time=pl.lit("0:00:03")
    )
    stimuli = scanned(path)
    assert all_rows(stimuli).equals(plain)
    assert stimuli.notes == (f"{path}: the column 'v' is not read: it holds lists or objects without texts",)
    frame.with_columns(target=pl.lit(3)).write_parquet(path)
    assert refusal(path) == f"{path}, row 1: target is 3; a text is needed"
    frame.with_columns(note=pl.lit("a" * 1_000_001)).write_parquet(path)
    assert "own.parquet: the column 'note' has a text of more than 1,000,000 bytes" in refusal(path)


THREE = "3 fields, but the header has 2; a text that has a comma must stand in double quotes"
BAD_ROWS = {
    "own.csv": (
        b'sentence,{t}\na,b\na\n\n,\nc,"d\n"e,f\n\x80,g\n,h\ni,NA\nj,k,l\nm,n\n"o,p',
        [
            (2, 3, "1 field, but the header has 2"),
            (3, 6, "',' expected after '\"'; write a double quote within a quoted text twice"),
            (4, 8, "byte 0x80 is not UTF-8; save the file as UTF-8 text"),
            (5, 9, "sentence is empty; a text is needed"),
            (6, 10, "{t} is NA, a missing value; a text is needed"),
            (7, 11, THREE),
            (9, 13, "a double quote that is not closed"),
        ],
    ),
    "own.jsonl": (
        b'{"sentence": "a", "{t}": "b"}\nno\n\n[1]\n{"sentence": NaN}\n{"{t}": "1"}\n{"sentence": "m", "{t}": "n"}\n',
        [
            (
                2,
                2,
                "not JSON (Expecting value: line 1 column 1 (char 0)); write one object per line, or a list of them",
            ),
            (3, 4, "'[1]' is not a JSON object; write one object per line"),
            (4, 5, "sentence is missing; a text is needed"),
            (5, 6, "sentence is missing; a text is needed"),
        ],
    ),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_skipped_with_their_reasons_and_rows_of_empty_cells_are_none(write, name):
    content, skipped = BAD_ROWS[name]
    path = write(content, name)
    stimuli = scanned(path, ("sentence", "{t}"), skip_bad=True, rows_per_part=5)
    rows = [stimuli.read(number) for number in range(len(stimuli.parts))]
    assert pl.concat([part.frame for part in rows]).rows() == [("a", "b"), ("m", "n")]
    assert pl.concat([part.skipped for part in rows]).rows() == skipped
    assert stimuli.skipped == len(skipped)
    assert refusal(path, texts=("sentence", "{t}")) == f"{path}:{skipped[0][1]}: {skipped[0][2]}"


def test_names_of_files_and_of_columns_count_and_what_is_not_a_table_is_refused(write):
    assert "no Parquet file, although its name" in refusal(write(b"sentence\na\n", "own.parquet"))
    rows = (json.dumps({"sentence": "a", "target": "b", f"c{number}": 1}) for number in range(1_000))
    assert "more than 1,000 columns; write one object of few per line" in refusal(write("\n".join(rows), "own.jsonl"))
    for source in (3, [1, 2], {"a": [1], "b": [1, 2]}):
        assert "table" in refusal(source)
    table = open_table(write(",Sentence,Prime\n0,a,b\n"))
    assert table.columns == ("column 1", "Sentence", "Prime")  # R and pandas leave the first name empty
    assert needed_columns(table, ("--sentence", None, ["sentence"])) == ["Sentence"]
    assert find_column(table, "--cluster", None, ["cluster"]) is None
    lacking = r"no column 'text' and no column 'target'; it has .*: give the right ones with --a COLUMN and --c COLUMN"
    with pytest.raises(InputError, match=lacking + r", or once in .*own\.columns\.toml"):
        needed_columns(table, ("--a", None, ["text"]), ("--b", None, ["prime"]), ("--c", None, ["target"]))
    assert absent_columns(table, {"--a": ["Prime", ""], "--b": ["Primes"]}) == (("--b", "Primes"),)
    other = replace(table, absent=(("--b", "y"),))  # an option that is not among those that are asked for
    for own, asked, said in (
        (table, [("--b", "Primes", [])], r"^--b Primes: did you mean 'Prime'\? .* has no such column"),
        (other, [("--a", "x", [])], r"no column 'x' \(--a\) and no column 'y' \(--b\); it has [^:]*$"),
        (other, [("--a", "x", []), ("--c", None, ["target"])], r"'x'.*'y'.*'target'; .* right one with --c COLUMN, or"),
    ):
        with pytest.raises(InputError, match=said):
            needed_columns(own, *asked)


FIELDS = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\"',;"), min_size=1, max_size=8)


def test_a_column_that_is_lacking_may_be_in_what_was_not_read(tmp_path):
    for name in ("accuracies.jsonl", "pairs.zip"):
        (tmp_path / name).write_text('{"gpt2": 0.5}\n')
    table = open_table(tmp_path)
    for asked in ("--sentence", None, ["sentence"]), ("--sentence", "text", ["sentence"]):
        with pytest.raises(InputError, match=r"it has 'gpt2'.*; not read: pairs\.zip; the name of a table"):
            needed_columns(table, asked)


@given(st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=9), st.integers(1, 4))
def test_any_texts_come_back_as_they_were_written(tmp_path_factory, rows, size):
    kept = [row for row in rows if all(text.strip() not in {*MISSING, *ERRORS} for text in row) and row != ("a", "b")]
    path = tmp_path_factory.mktemp("any") / "own.csv"
    pl.DataFrame([("x", "y"), *kept], schema=["a", "b"], orient="row").write_csv(path, quote_style="always")
    assert all_rows(scanned(path, ["a", "b"], rows_per_part=size)).rows() == [("x", "y"), *kept]


def test_memory_does_not_grow_with_the_rows(write):
    def peak(rows: int) -> int:
        path = write("sentence\n" + "".join(f"a short sentence {row}\n" for row in range(rows)))
        tracemalloc.start()
        scanned(path, ["sentence"], rows_per_part=100)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(100)
    assert peak(5_000) < 2 * peak(500)


def test_lines_are_those_that_hold_anything_with_their_places(write):
    for content, name, lines in [
        (b"one\r\n\r\n \ntwo", "a.txt", [("one", 1), ("two", 4)]),
        ("\ufeffone\n\ufefftwo\n", "a.txt", [("one", 1), ("two", 2)]),
        (gzip.compress("één".encode(), mtime=0), "a.txt.gz", [("één", 1)]),
        # Only line feeds end lines: JSON may hold the other characters that Python takes for line ends.
        ("a\u2028b\x85c\x0bd\x0ce", "a.txt", [("a\u2028b\x85c\x0bd\x0ce", 1)]),
    ]:
        path = write(content, name)
        assert read_lines(path) == [(line, f"{path}:{number}") for line, number in lines]
    asked = stream_lines(write(b"one\n\ntwo\n\xff\n"))  # a file is read only as far as it is asked for
    assert [next(asked)[0] for _ in range(3)] == ["one", "", "two"]
    path = write('item\tcontext \tmore\r\n1\t"The\t0.5\r\n')  # quotes stay, and columns nobody asked for
    (row,) = records(path, ["item", "context"], form=TABS)
    assert (row, row.location) == ({"item": "1", "context": '"The', "more": "0.5"}, f"{path}:2")


TABS = Form(plain=True)
read = lambda *texts: lambda path: list(records(path, texts, form=TABS))  # noqa: E731
PACKED = ": cannot be read ("  # as gzip, which its name promises
BAD_FILES = [
    (read_lines, "", ":1: the file is empty"),
    (
        read_lines,
        b"ok\nna\xefve\n",
        ":2: byte 0xef is not UTF-8, but probably 'ï' in cp1252, the encoding of Windows",
    ),
    (read_lines, "smoke\n".encode("utf-16"), ":1: byte 0xff is not UTF-8: this is UTF-16 text; save "),
    (read_lines, "ok\n\x00\n", ":2: the character U+0000 in '\\x00' is not printable; remove it"),
    (read_lines, "x" * (LONGEST_LINE + 1), ":1: this line has more than 1,000,000 bytes; give a "),
    (read_lines, "not packed", PACKED + "Not a gzipped file "),
    (read_lines, gzip.compress(b"cut off" * 50, mtime=0)[:-12], PACKED + "Compressed file ended "),
    (read("context"), "item\n1\n", ": no column 'context'; it has 'item'"),
    (read(), "a\tb\n\n1\ta\tb\n", ":3: 3 fields, but the header has 2"),
    (read(), "item\tcontext\n\n", ": there is no row below the names of the columns"),
    (read(), "{}\n", ": there is no row below the names of the columns"),
    (read("none"), "word\tnone\n tea \t \n", ":2: none is empty; a text is needed"),
    (read("long"), f"word\tlong\n tea \t{'x' * 10_001}", ":2: long has 10,001 characters; give a text with"),
    (read(), '{"a": 1}\n{', ":2: not JSON ("),
    (read(), '{"a": 1}\n[1, 2]', ":2: '[1, 2]' is not a JSON object; write one object"),
]


def test_a_file_or_a_field_that_cannot_be_read_is_named(write):
    for reader, content, message in BAD_FILES:
        path = write(content, "own.gz" if message.startswith(PACKED) else "own.txt")
        with pytest.raises(InputError, match=f"^{re.escape(f'{path}{message}')}"):
            reader(path)


def test_several_files_have_names_that_differ_and_items_of_their_own(tmp_path):
    """A stem that is the whole name of another file is not a name, and the first colon ends the name of a file."""
    names = ("a.csv", "a.tsv", "a.csv.jsonl", "b.csv", "c:d.csv")
    for name in names:
        (tmp_path / name).write_text('{"s": "x"}\n' if name.endswith("jsonl") else "s\nx\n", "utf-8")
    assert sorted(open_table(tmp_path).file_names) == ["a.csv", "a.csv.jsonl", "a.tsv", "b", "c:d"]
    pairs = [("c:d", "1"), ("c", "d:1"), ("c%3Ad", "1"), ("b", "1")]
    frame = pl.DataFrame(pairs, ["file", "name"], orient="row")
    assert frame.select(item_of(pl.col("file"), pl.col("name"))).to_series().n_unique() == len(pairs)
