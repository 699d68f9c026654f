"""A Parquet file of a few kilobytes that unpacks to gigabytes is refused before it is unpacked."""

import polars as pl
import pytest
from negengine.engine.basics import parquet_pages
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.frames import parquet_frame
from negengine.engine.basics.parquet_pages import refuse_huge_pages
from negengine.engine.text.user_table import open_table

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
    with pytest.raises(InputError, match=r"x\.parquet: a few rows take \d MB"):
        refuse_huge_pages(path)
    with pytest.raises(InputError, match=r"x\.parquet: not as negengine writes it \(a few rows take"):
        parquet_frame(path.read_bytes(), path)
    with pytest.raises(InputError, match=r"x\.parquet: a few rows take"):
        open_table(path).scan(frame.columns)
    pl.DataFrame({"a": LONG, "b": [[i] for i in range(9_000)]}).write_parquet(path, row_group_size=500)
    refuse_huge_pages(path)
