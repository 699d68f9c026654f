"""The whole grid, some 14 million candidates, with a model that costs nothing: all are tried, memory stays small."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

pytestmark = [pytest.mark.long, pytest.mark.everything]

STAGES = Path(__file__).parents[3] / "stages"
PROGRAM = """
import json, resource, sys
sys.path[:0] = sys.argv[1:2]
from pathlib import Path
from fake_models import FakeSelection
from negengine.engine.inference.exported import load_exported
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns
from select_and_score import execute

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 2**20)

plan = FakeSelection.plan(load_exported(sys.argv[2]), load_lexicon(), load_patterns())
before = peak()
execute(plan, Path(sys.argv[3]))
print(json.dumps({"megabytes": peak() - before, "size": plan.verbs[0].grid.size}))
"""


def test_all_candidates_are_tested_within_500_megabytes(mini, tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(STAGES), str(mini.folder), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    memory = json.loads(done.stdout.splitlines()[-1])
    found = json.loads((tmp_path / "run" / "selection.json").read_text())
    assert memory["megabytes"] < 500
    assert found["tested"] == memory["size"] == found["verbs"] * 18_200
    triplets = pl.read_parquet(tmp_path / "run" / "triplets.parquet")
    assert found["selected"] == len(triplets) == 20 * 18_200
    assert not triplets.select("name", "profession", "verb").is_duplicated().any()
    assert (triplets["triplet"] == pl.int_range(len(triplets), eager=True)).all()
