"""Two programs are timed in turn on the same commands; those that differ in their results are told."""

import sys

import polars as pl
import pytest
from negengine.bench.versions import both, table
from negengine.engine.basics.errors import InputError

SCRIPT = """#!{python}
import sys
from pathlib import Path
import polars as pl
words = sys.argv[1:]
print(*words, file=open({log!r}, "a"))
folder = Path(words[words.index("-o") + 1] if words[0] == "select" else words[1])
folder.mkdir(exist_ok=True)
name = "triplets" if words[0] == "select" else "scores"
pl.DataFrame({{"n": [{n}]}}).write_parquet(folder / (name + ".parquet"))
"""
ARGUMENTS = ["mini", "--pairs", "2", "--precision", "fp32"]


@pytest.fixture
def programs(tmp_path):
    """Writes two programs whose results hold a number each."""

    def write(*numbers):
        found = [tmp_path / f"program-{which}" for which in range(2)]
        for path, n in zip(found, numbers, strict=True):
            path.write_text(SCRIPT.format(python=sys.executable, log=str(tmp_path / "log"), n=n))
            path.chmod(0o755)
        return found

    return write


def test_both_programs_do_the_same_in_alternating_order(programs, tmp_path):
    rounds = both(programs(1, 1), ARGUMENTS, 2, tmp_path)
    said = (tmp_path / "log").read_text().splitlines()
    runs = ["0-0", "0-1", "1-1", "1-0"]
    assert [line.rpartition("/")[2] for line in said if line.startswith("select")] == runs
    assert all(line.endswith("--precision fp32") for line in said if line.startswith("score"))
    assert all(took.wall > 0 and took.processor > 0 for one in rounds for own in one for took in own)
    frame = table(rounds).frame
    assert frame.select("command", "time").rows() == [
        (command, kind) for command in ("select", "score") for kind in ("wall", "processor")
    ]
    assert frame.select((pl.col("smallest") <= pl.col("ratio")).all())[0, 0]


def test_different_results_and_failures_are_refused(programs, tmp_path):
    with pytest.raises(InputError, match=r"give different triplets\.parquet"):
        both(programs(1, 2), ARGUMENTS, 1, tmp_path)
    with pytest.raises(InputError, match=r"program-0 select .*: NameError"):
        both(programs("wrong", 1), ARGUMENTS, 1, tmp_path)
