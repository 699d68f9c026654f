"""A part is read only if its rows and its marker are as they were written.

The rows of all parts are one lazy frame: each use of it reads whole parts, in order, and only what it needs.
"""

import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.runs.part import EncodedPart, PartFiles, part_rows
from negengine.engine.runs.stage import PartResult
from small_stages import part


def test_a_part_that_is_decided_again_keeps_the_wider_margins_and_what_was_wrong_before():
    """A first decision in fp32 has no audit, so its marker does not count disagreements."""
    frame = pl.DataFrame({"x": [1]})
    before = {"audited": 50, "disagreements": 3}, {}, {"Cp": 0.5, "Cn": 2.0, "Cv": 0.1}
    earlier = EncodedPart.of(PartResult(frame, *before))
    counts, bounds = {"audited": 40, "disagreements": 0}, {"Cp": 0.5, "Cn": 1.0}
    again = EncodedPart.of(PartResult(frame, counts, bounds, {"Cp": 0.7, "Cn": 1.0, "Cw": 0.3}))
    found = again.with_findings(earlier.marker).marker
    assert found.counts == {"audited": 40, "disagreements": 3, "rows": 1}
    assert found.needed == {"Cp": 0.7, "Cn": 2.0, "Cv": 0.1, "Cw": 0.3}
    assert found.bounds == bounds
    assert again.with_findings(EncodedPart.of(PartResult(frame)).marker).marker.counts == {**counts, "rows": 1}


@pytest.mark.parametrize("kind", ["marker", "rows"])
def test_a_disk_that_cannot_be_read_or_changed_is_told(tmp_path, kind):
    files = PartFiles(tmp_path, "select", 12)
    files.rows.parent.mkdir(parents=True)
    written = part(1, bounds={"CpTp": 0.1 + 0.2, "CnTp": 1}, needed={"CpTp": 0.0, "CnTp": 1e-9})
    files.write(written)
    assert files.read().marker == written.marker
    getattr(files, kind).unlink()
    getattr(files, kind).mkdir()
    with pytest.raises(InputError, match=r"part-00012\.\w+: cannot be read \(it is a folder, not a file\)"):
        files.read()
    told = r"part-00012\.parquet: cannot be written \((Is a directory|Operation not permitted)\)"
    with pytest.raises(InputError, match=told):
        files.remove()


SIZES = (3, 0, 4, 2)


@pytest.fixture
def whole(tmp_path):
    """The rows of four parts, whose files lie in the folder."""
    (tmp_path / "parts" / "select").mkdir(parents=True)
    numbered = [(n, f"v{i}") for n, i in enumerate(i for size in SIZES for i in range(size))]
    frame = pl.DataFrame(numbered, {"n": pl.Int64, "verb": pl.String}, orient="row")
    for number, size in enumerate(SIZES):
        own = frame.slice(sum(SIZES[:number]), size)
        PartFiles(tmp_path, "select", number).write(EncodedPart.of(PartResult(own)))
    return frame


def rows(folder):
    return part_rows(folder, "select", len(SIZES))


@pytest.mark.parametrize(
    "query",
    [
        lambda frame: frame,
        lambda frame: frame.head(0),
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


@pytest.mark.parametrize("change", [lambda rows: rows.drop("verb"), lambda rows: rows.with_columns(noun=pl.lit("x"))])
def test_a_part_with_other_columns_is_an_error_and_no_wrong_row(tmp_path, whole, change):
    files = PartFiles(tmp_path, "select", 2)
    files.write(EncodedPart.of(PartResult(pl.read_parquet(files.rows).select("verb", "n"))))
    assert rows(tmp_path).collect().equals(whole)  # columns in another order are the same columns
    files.write(EncodedPart.of(PartResult(change(pl.read_parquet(files.rows)))))
    with pytest.raises(pl.exceptions.PolarsError):
        rows(tmp_path).collect()
    assert part_rows(tmp_path, "select", 0).collect().is_empty()
    PartFiles(tmp_path, "select", 0).remove()
    with pytest.raises(InputError, match=r"part-00000\.parquet: missing or damaged"):
        rows(tmp_path)
