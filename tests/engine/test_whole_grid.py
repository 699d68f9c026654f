"""The whole grid, some 14 million candidates, with a model that costs nothing: all are tried, memory stays small."""

import json
import subprocess
import sys

import polars as pl

PROGRAM = """
import json, resource, sys
from pathlib import Path
import numpy as np
from negengine.engine import select
from negengine.engine.inference.exported import load_exported
from negengine.engine.sentences.lexicon import load_lexicon
from negengine.engine.inference.model import Decisions
from negengine.engine.sentences.patterns import load_patterns

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 2**20)

class EveryFifth:
    '''Repeats where a hash of the sentence's verb and name says so.'''

    def decide(self, ids, mask_position, expected):
        mixed = ids[:, 1].astype(np.uint32) * np.uint32(2654435761) ^ expected.astype(np.uint32) * np.uint32(40503)
        repeats = (mixed >> np.uint32(7)) % 5 == 0
        decisions = Decisions.empty(len(ids))
        decisions.ids[:, 0] = np.where(repeats, expected, expected + 1)
        decisions.ids[:, 1] = np.where(repeats, 1, 2)
        decisions.logits[:] = 0
        return decisions

plan = select.plan(load_exported(sys.argv[1]), load_lexicon(), load_patterns(), select.Settings(seed=0))
before = peak()
summary = select.select(plan, EveryFifth(), Path(sys.argv[2]), session={})
print(json.dumps({"megabytes": peak() - before, "size": plan.grid.size, **summary}))
"""


def test_all_candidates_are_tried_within_500_megabytes(mini, tmp_path):
    command = [sys.executable, "-c", PROGRAM, str(mini.folder), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["megabytes"] < 500
    assert found["tested"] == found["size"] == found["verbs"] * 18_200
    assert found["selected"] == 20 * 18_200
    triplets = pl.read_parquet(tmp_path / "run" / "triplets.parquet")
    assert len(triplets) == 20 * 18_200
    assert triplets.select("name", "profession", "verb").is_duplicated().sum() == 0
    assert triplets["triplet"].to_list() == list(range(20 * 18_200))
