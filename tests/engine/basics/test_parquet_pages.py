"""A Parquet file of a few kilobytes that unpacks to gigabytes is refused before it is unpacked."""

import subprocess
import sys

import polars as pl
import pytest
from negengine.engine.basics import parquet_pages
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.frames import parquet_frame
from negengine.engine.basics.parquet_pages import refuse_huge_pages

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
    monkeypatch.setattr(parquet_pages, "_MOST_UNPACKED", 4_500_000)
    path = tmp_path / "x.parquet"
    frame.write_parquet(path, compression=codec, **how)
    with pytest.raises(InputError, match=r"x\.parquet: a few rows take \d MB"):
        refuse_huge_pages(path)
    with pytest.raises(InputError, match=r"x\.parquet: not as negengine writes it \(a few rows take"):
        parquet_frame(path.read_bytes(), path)
    pl.DataFrame({"a": LONG, "b": [[i] for i in range(9_000)]}).write_parquet(path, row_group_size=500)
    refuse_huge_pages(path)
