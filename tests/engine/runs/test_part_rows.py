"""The rows of all parts are one lazy frame: each use of it reads whole parts, in order, and only what it needs."""

import polars as pl
import pytest
from negengine.engine.errors import InputError
from negengine.engine.runs.part import EncodedPart, PartFiles
from negengine.engine.runs.part_rows import part_rows
from negengine.engine.runs.stage import PartResult

SIZES = (3, 0, 4, 2)


@pytest.fixture
def whole(tmp_path):
    """The rows of four parts, whose files lie in the folder."""
    frames, start = [], 0
    (tmp_path / "parts" / "select").mkdir(parents=True)
    for number, size in enumerate(SIZES):
        frame = pl.DataFrame(
            {"n": range(start, start + size), "verb": [f"v{i}" for i in range(size)]},
            schema={"n": pl.Int64, "verb": pl.String},
        )
        PartFiles.of(tmp_path, "select", number).write(EncodedPart.of(PartResult(frame)))
        frames.append(frame)
        start += size
    return pl.concat(frames)


def rows(folder):
    return part_rows(folder, "select", len(SIZES))


@pytest.mark.parametrize(
    "query",
    [
        lambda frame: frame,
        lambda frame: frame.select("verb"),
        lambda frame: frame.head(4),
        lambda frame: frame.head(0),
        lambda frame: frame.filter(pl.col("n") > 3),
        lambda frame: frame.filter(pl.col("n") > 3).select("verb"),
        lambda frame: frame.filter(pl.col("n") > 3).head(2),
        lambda frame: frame.head(5).filter(pl.col("n") > 3),
        lambda frame: frame.select(pl.len()),
        lambda frame: pl.concat([frame.filter(pl.col("verb") == verb) for verb in ("v1", "v0")]),
    ],
)
@pytest.mark.parametrize("engine", ["streaming", "in-memory"])
def test_a_query_gives_what_it_gives_on_the_whole_frame(tmp_path, whole, query, engine):
    assert query(rows(tmp_path)).collect(engine=engine).equals(query(whole.lazy()).collect())


def test_parts_behind_the_rows_that_are_asked_for_are_not_read(tmp_path, whole):
    PartFiles.of(tmp_path, "select", 3).rows.write_bytes(b"")
    assert rows(tmp_path).head(6).collect().equals(whole[:6])


def test_a_part_that_was_damaged_since_is_one_line_with_its_file(tmp_path, whole):
    frame = rows(tmp_path)
    path = PartFiles.of(tmp_path, "select", 2).rows
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(InputError, match=r"part-00002\.parquet: missing or damaged; run the same command again"):
        frame.select("n").collect()


def test_no_parts_are_no_rows(tmp_path):
    assert part_rows(tmp_path, "select", 0).collect().is_empty()


def test_a_part_with_other_columns_is_an_error_and_no_wrong_row(tmp_path, whole):
    odd = EncodedPart.of(PartResult(pl.DataFrame({"n": [1], "noun": ["x"]})))
    PartFiles.of(tmp_path, "select", 2).write(odd)
    with pytest.raises(pl.exceptions.PolarsError):
        rows(tmp_path).collect()


def test_columns_in_another_order_are_the_same_columns(tmp_path, whole):
    files = PartFiles.of(tmp_path, "select", 2)
    files.write(EncodedPart.of(PartResult(pl.read_parquet(files.rows).select("verb", "n"))))
    assert rows(tmp_path).collect().equals(whole)


@pytest.mark.parametrize("change", [lambda rows: rows.drop("verb"), lambda rows: rows.with_columns(noun=pl.lit("x"))])
def test_a_part_with_fewer_columns_or_more_is_an_error(tmp_path, whole, change):
    files = PartFiles.of(tmp_path, "select", 2)
    files.write(EncodedPart.of(PartResult(change(pl.read_parquet(files.rows)))))
    with pytest.raises(pl.exceptions.PolarsError):
        rows(tmp_path).collect()
