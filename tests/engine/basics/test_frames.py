"""Frames are written as a stream: the same bytes as in one piece, whole or not at all, with the disk's own error."""

import contextlib
import errno
import hashlib
from pathlib import Path
from unittest.mock import Mock

import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.frames import frame_sha256, parquet_bytes, parquet_frame, scan_frame, write_frame
from polars.exceptions import PolarsError
from polars.io.plugins import register_io_source

NUMBERS = range(300_000)
FRAME = pl.DataFrame({"verb": [f"verb {i % 997}" for i in NUMBERS], "x": [i / 3 for i in NUMBERS]})  # three row groups


def stream(size, error=None):
    # in pieces, as the parts of a stage come
    def read(with_columns, predicate, n_rows, batch_size):
        for start in range(0, len(FRAME), size):
            yield FRAME[start : start + size]
            if error is not None:
                raise error

    return register_io_source(read, schema=FRAME.schema)


@pytest.mark.parametrize("size", [7_001, 131_072, 299_999])
def test_a_stream_gives_the_bytes_of_the_frame(tmp_path, size):
    digest = write_frame(tmp_path / "x.parquet", stream(size))
    content = parquet_bytes(FRAME)
    assert (tmp_path / "x.parquet").read_bytes() == content
    assert digest == frame_sha256(stream(size)) == hashlib.sha256(content).hexdigest()
    assert parquet_frame(content, tmp_path / "x.parquet").equals(FRAME)
    with pytest.raises(InputError, match=r"x\.parquet: not as negengine writes it \(.*\); run it again elsewhere$"):
        parquet_frame(b"PAR1", tmp_path / "x.parquet")
    assert scan_frame(tmp_path / "x.parquet").collect().equals(FRAME)


def test_an_error_while_the_rows_come_or_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"old")
    with pytest.raises(InputError, match="part 2 is damaged"):
        write_frame(tmp_path / "x.parquet", stream(200_000, InputError("part 2 is damaged")))
    for write in (frame_sha256, lambda frame: write_frame(tmp_path / "x.parquet", frame)):
        with pytest.raises(PolarsError):
            write(pl.LazyFrame({"x": [1]}).select("y"))
    full = Mock(write=Mock(side_effect=[9, 9, OSError(errno.ENOSPC, "No space left"), *[OSError()] * 99]))
    told = rf"{tmp_path}: no space left to write x\.parquet"
    with monkeypatch.context() as patch, pytest.raises(InputError, match=told):  # noqa: PT012
        patch.setattr(Path, "open", lambda *_: contextlib.nullcontext(full))
        write_frame(tmp_path / "x.parquet", stream(50_000))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]
