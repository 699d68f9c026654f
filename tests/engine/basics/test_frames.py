"""Frames are written as a stream: the same bytes as in one piece, whole or not at all, with the disk's own error."""

import errno
import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from negengine.engine.basics import frames
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.frames import frame_sha256, parquet_bytes, parquet_frame, refuse_huge_pages, write_frame
from polars.exceptions import PanicException, PolarsError
from polars.io.plugins import register_io_source


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    """Rows of three row groups."""
    return pl.DataFrame({"verb": [f"verb {i % 997}" for i in range(300_000)], "x": [i / 3 for i in range(300_000)]})


def stream(frame, size):
    """The frame in pieces, as the parts of a stage come."""

    def read(with_columns, predicate, n_rows, batch_size):
        for start in range(0, len(frame), size):
            yield frame[start : start + size]

    return register_io_source(read, schema=frame.schema)


@pytest.mark.parametrize("size", [7_001, 131_072, 299_999])
def test_a_stream_gives_the_bytes_of_the_frame(tmp_path, frame, size):
    digest = write_frame(tmp_path / "x.parquet", stream(frame, size))
    content = parquet_bytes(frame)
    assert (tmp_path / "x.parquet").read_bytes() == content
    assert digest == frame_sha256(stream(frame, size)) == hashlib.sha256(content).hexdigest()
    assert parquet_frame(content, tmp_path / "x.parquet").equals(frame)


def test_an_error_while_the_rows_come_keeps_the_old_file(tmp_path, frame):
    """One of the rows, and one of Polars itself, which is not taken for one of the disk."""

    def read(with_columns, predicate, n_rows, batch_size):
        yield frame[:200_000]
        raise InputError("part 2 is damaged")

    (tmp_path / "x.parquet").write_bytes(b"old")
    with pytest.raises(InputError, match="part 2 is damaged"):
        write_frame(tmp_path / "x.parquet", register_io_source(read, schema=frame.schema))
    for write in (frame_sha256, lambda frame: write_frame(tmp_path / "x.parquet", frame)):
        with pytest.raises(PolarsError):
            write(pl.LazyFrame({"x": [1]}).select("y"))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_a_disk_that_is_full_in_the_middle_of_the_rows_is_one_line(tmp_path, monkeypatch, frame):
    class Full(io.BytesIO):
        def write(self, content):
            if self.tell() > 100_000:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(content)

    monkeypatch.setattr(Path, "open", lambda *_: Full())
    with pytest.raises(InputError, match=rf"{tmp_path}: no space left to write x\.parquet"):
        write_frame(tmp_path / "x.parquet", stream(frame, 50_000))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", [None, PolarsError, PanicException, OSError, ValueError])
def test_whatever_polars_says_of_a_file_is_one_line(tmp_path, monkeypatch, kind):
    def fail(content):
        raise kind("out of\nspec")

    if kind is not None:
        monkeypatch.setattr(pl, "read_parquet", fail)
    with pytest.raises(InputError, match=r"x\.parquet: not as negengine writes it \(.*\); run it again elsewhere$"):
        parquet_frame(b"PAR1", tmp_path / "x.parquet")


BOMB = 'pl.select(sentence=pl.lit("x" * 300_000_000)).write_parquet(path, compression="zstd", statistics=False)'
READ = """before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    open_table(path).scan(["sentence"])
except InputError as error:
    print(error, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, sep="|")"""


@pytest.mark.everything
@pytest.mark.skipif(sys.platform != "linux", reason="the system counts memory in its own way")
def test_a_cell_of_300_mb_is_refused_before_it_is_unpacked(tmp_path):
    head = (
        "import resource, sys\nimport polars as pl\nfrom negengine.engine.basics.errors import InputError\n"
        "from negengine.engine.text.user_table import open_table\npath = sys.argv[1]\n"
    )
    for lines in (BOMB, READ):
        called = [sys.executable, "-c", head + lines, tmp_path / "own.parquet"]
        done = subprocess.run(called, capture_output=True, text=True, check=True)
    assert (tmp_path / "own.parquet").stat().st_size < 20_000
    message, kilobytes = done.stdout.split("|")
    assert "own.parquet: a few rows take 300 MB, and at most 268 are read at once" in message
    assert int(kilobytes) < 50_000


LONG = pl.Series([f"{i}" + "x" * 2_000 for i in range(9_000)])  # 2 MB in 1,000 rows
HUGE = [
    (pl.DataFrame({"note": ["a", "x" * 5_000_000, "b"]}), {}),
    (pl.DataFrame({"note": LONG}), {"data_page_size": 10_000}),  # small pages, but 8 MB in 4,096 rows
    (pl.DataFrame({"note": [[1], [0] * 600_000]}), {}),  # few bytes until they are unpacked
    (pl.DataFrame({"a": LONG[:1_500], "b": LONG[:1_500]}), {}),  # no column alone
]


@pytest.mark.parametrize(("frame", "how"), HUGE)
@pytest.mark.parametrize("codec", ["zstd", "snappy", "uncompressed"])
def test_pages_and_rows_that_are_huge_are_refused_by_their_headers(tmp_path, monkeypatch, frame, how, codec):
    monkeypatch.setattr(frames, "_MOST_UNPACKED", 4_500_000)
    path = tmp_path / "x.parquet"
    frame.write_parquet(path, compression=codec, **how)
    with pytest.raises(InputError, match=r"x\.parquet: a few rows take \d MB"):
        refuse_huge_pages(path)
    with pytest.raises(InputError, match=r"x\.parquet: not as negengine writes it \(a few rows take"):
        parquet_frame(path.read_bytes(), path)
    pl.DataFrame({"a": LONG, "b": [[i] for i in range(9_000)]}).write_parquet(path, row_group_size=500)
    refuse_huge_pages(path)
