"""Run experiments on one device, in one process, so that each shader is compiled once.

`python on_webgpu.py FOLDER DEVICE [kill]`: FOLDER has models, word lists and data; the runs lie beside them, in DEVICE.
With `kill`, the process kills itself once a part of a selection is written. On a GPU, a line of stdout tells which
operators run where, and how many bytes come back.
"""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import negengine as ng
import numpy as np
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.inference.device import choose_device
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.gpu import Filled
from negengine.engine.inference.mixed import SENTENCES
from negengine.engine.inference.model import MaskedLM
from negengine.engine.inference.session import placed
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.masked_stages import DecidingStage
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns

folder, device = Path(sys.argv[1]), choose_device(sys.argv[2])
runs = folder / device.kind
decided = {"device": device.kind, "precision": "mixed" if device.kind != "cpu" else "fp32"}
quiet = {"progress": False}
filled, back = Filled._filled, []
DecidingStage.method = replace(SENTENCES, sizes=(150, 300))  # else a calibration would take most of the time


def select(name: str, model: str = "masked", shard: str = "1/1") -> Path:
    """A selection in eight parts."""
    asked = load_exported(folder / model), load_lexicon(folder / "lexicon"), load_patterns(), Settings()
    stage = Selection.plan(*asked, candidates_per_part=60)
    opening, where = Opening(precision=Precision(decided["precision"])), ThisProcess(device)
    run_stage(stage, runs / name, Execution(where, opening, Shard.parse(shard), Reporter(silent=True)))
    return runs / name


def watched(self, *args):
    back.append(filled(self, *args))
    if "kill" in sys.argv and any((runs / "killed" / "parts").rglob("*.parquet")):
        os.kill(os.getpid(), signal.SIGKILL)
    return back[-1]


Filled._filled = watched
if "kill" in sys.argv:
    select("killed")
if device.kind != "cpu":
    model = MaskedLM(load_exported(folder / "masked"), device)
    ids, few = np.full((5, 12), 7, np.int32), np.ones(5, np.int32)
    seen = {"placed": placed(model._runner._session)}
    for name, run in (("decisions", lambda: model.decide(ids, few, few)), ("logits", lambda: model.logits(ids, few))):
        back.clear()
        run()
        seen[name] = sum(array.base.nbytes for arrays in back for array in arrays)
    sys.stdout.write("\n" + json.dumps(seen) + "\n")
ng.score(select("select"), **decided, **quiet)
select("killed")
ng.merge([select(f"part-{number}", shard=f"{number}/2") for number in (1, 2)], output=runs / "merged")
select("causal", "causal")
for name in ("masked", "causal"):
    model = ng.load(folder / name, **decided)
    ng.likelihood(model, folder / "minimal.jsonl", output=runs / f"likelihood-{name}", **quiet)
masked = ng.load(folder / "masked", **decided)
ng.probe(masked, folder / "own.jsonl", output=runs / "probe", **quiet)
for name in ("probe", "likelihood-causal"):
    assert not ng.verify(runs / name, sample=20, seed=0).damage
    found = ng.cite(runs / name)
    assert (device.kind == "cpu") == ("WebGPU" not in found.text and "low-precision" not in found.text)
