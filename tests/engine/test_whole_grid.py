"""The whole grid, some 14 million candidates, with a model that costs nothing: all are tried, memory stays small."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

pytestmark = [pytest.mark.long, pytest.mark.everything]

STAGES = Path(__file__).parents[1] / "stages"
PROGRAM = """
import json, resource, sys
sys.path[:0] = sys.argv[1:2]
from pathlib import Path
import numpy as np
from fake_models import FakeSelection
from negengine.engine.inference.batches import ignored
from negengine.engine.inference.device import CPU
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.model import Decisions
from negengine.engine.inference.precision import Models
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.masked_stages import PatternDeciders
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 2**20)

class EveryFifth:
    '''Repeats where a hash of the sentence's verb and name says so.'''

    def decide(self, ids, mask_position, expected, advance=ignored):
        mixed = ids[:, 1].astype(np.uint32) * np.uint32(2654435761) ^ expected.astype(np.uint32) * np.uint32(40503)
        repeats = (mixed >> np.uint32(7)) % 5 == 0
        decisions = Decisions.empty(len(ids))
        decisions.ids[:, 0] = np.where(repeats, expected, expected + 1)
        decisions.ids[:, 1] = np.where(repeats, 1, 2)
        decisions.logits[:] = 0
        advance(len(ids))
        return decisions

class Grid(FakeSelection):
    def open(self, options):
        return PatternDeciders(Models(EveryFifth()), options.precision)

plan = Grid.plan(load_exported(sys.argv[2]), load_lexicon(), load_patterns())
before = peak()
run_stage(plan, Path(sys.argv[3]), Execution(ThisProcess(CPU)))
print(json.dumps({"megabytes": peak() - before, "size": plan.verbs[0].grid.size}))
"""


def test_all_candidates_are_tried_within_500_megabytes(mini, tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(STAGES), str(mini.folder), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    memory = json.loads(done.stdout.splitlines()[-1])
    found = json.loads((tmp_path / "run" / "selection.json").read_text())
    assert memory["megabytes"] < 500
    assert found["tested"] == memory["size"] == found["verbs"] * 18_200
    assert found["selected"] == 20 * 18_200
    triplets = pl.read_parquet(tmp_path / "run" / "triplets.parquet")
    assert len(triplets) == 20 * 18_200
    assert triplets.select("name", "profession", "verb").is_duplicated().sum() == 0
    assert triplets["triplet"].to_list() == list(range(20 * 18_200))
