"""A Parquet file of a few kilobytes that unpacks to gigabytes is refused before it is unpacked."""

from contextlib import suppress

import polars as pl
import pytest
from negengine.engine.basics import parquet_pages
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.frames import parquet_frame
from negengine.engine.basics.parquet_pages import refuse_huge_pages
from negengine.engine.text.table import open_table

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
    monkeypatch.setattr(parquet_pages, "_MOST_UNPACKED", 4_500_000)
    path = tmp_path / "x.parquet"
    frame.write_parquet(path, compression=codec, **how)
    with pytest.raises(
        InputError, match=r"x\.parquet: a few rows take \d MB, and at most 4 are read at once; give shorter texts"
    ):
        refuse_huge_pages(path)
    with pytest.raises(InputError, match=r"x\.parquet: not as negengine writes it \(a few rows take"):
        parquet_frame(path.read_bytes(), path)
    with pytest.raises(InputError, match=r"x\.parquet: a few rows take"):
        open_table(path).scan(frame.columns)
    pl.DataFrame({"a": LONG, "b": [[i] for i in range(9_000)]}).write_parquet(path, row_group_size=500)
    refuse_huge_pages(path)


def test_every_changed_byte_of_a_file_is_a_value_or_one_line(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": ["x" * 40, "y"], "b": [1, 2]}).write_parquet(path, compression="uncompressed")
    whole = path.read_bytes()
    for position in range(len(whole)):
        for byte in (0, 1, 0x19, 0x7F, 0xFF):
            with suppress(InputError):
                refuse_huge_pages(path, whole[:position] + bytes([byte]) + whole[position + 1 :])
    size = int.from_bytes(whole[-8:-4], "little")
    footer = len(whole) - 8 - size
    more = b"\x11\x12\x13\x05\x02\x28\0"  # true, false, the byte 5 and field 20, true: as other programs write them
    refuse_huge_pages(path, whole[:-9] + more + (size + 6).to_bytes(4, "little") + b"PAR1")
    for damaged in (whole[:7], whole[:-9], whole[: footer + 1] + b"\xff" * 12 + whole[footer + 13 :]):
        with pytest.raises(InputError, match=r"x\.parquet: not a whole Parquet file"):
            refuse_huge_pages(path, damaged)
    monkeypatch.setattr(parquet_pages, "_MOST_CHUNKS", 0)
    with pytest.raises(InputError, match=r"x\.parquet: not a whole Parquet file \(more than 0 pieces of columns\)"):
        refuse_huge_pages(path, whole)
