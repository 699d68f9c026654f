"""Run experiments on one device, in one process, so that each shader is compiled once.

`python on_device.py FOLDER DEVICE [kill|others]`: FOLDER has the models `masked`, `causal` and `pairs`, the word lists
`lexicon` and the data. What the runs write lies beside them, in DEVICE. With `kill`, only a selection runs, and the
process kills itself once a part of it is written. With `others`, a selection runs in two processes, on the device and
on the CPU, and one on Ray. On a GPU, a line of stdout is a JSON document: which operators run
where, and how many bytes come back. `openvino` is a plugin that rounds what the processor computes to bf16.
"""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import negengine as ng
import numpy as np
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.select import Selection, Settings
from negengine.engine.inference.batches import Runner
from negengine.engine.inference.device import choose_device
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.inference.exported import load_exported
from negengine.engine.inference.gpu import Filled
from negengine.engine.inference.mixed import SENTENCES
from negengine.engine.inference.model import MaskedLM
from negengine.engine.inference.session import placed
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.masked_stages import DecidingStage
from negengine.engine.runs.processes import Processes
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.ray import Ray
from negengine.engine.runs.shard import Shard
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns

sys.path.append(str(Path(__file__).parents[1] / "stages"))
import processor_plugin
from plain_calls import logits_at

if sys.argv[2] == "openvino":
    processor_plugin.install()
    processor_plugin.round_to_bf16()
folder, device = Path(sys.argv[1]), choose_device(sys.argv[2])
runs = folder / device.kind
decided = {"device": device.kind, "precision": "mixed" if device.kind != "cpu" else "fp32"}
ranked = decided | {"precision": "auto"}  # what reports ranks and probabilities is in fp32, of the reference model
quiet = {"progress": False}
runner, call = (Runner, "run_one") if device.uses_cores else (Filled, "filled")
given, back = getattr(runner, call), []
DecidingStage.method = replace(SENTENCES, sizes=(150, 300))  # else a calibration would take most of the time


def select(name: str, model: str = "masked", shard: str = "1/1", executor: Any = None) -> Path:
    """A selection in eight parts."""
    asked = load_exported(folder / model), load_lexicon(folder / "lexicon"), load_patterns(), Settings()
    stage = Selection.plan(*asked, candidates_per_part=60)
    opening, where = Opening(precision=Precision(decided["precision"])), executor or ThisProcess(device)
    run_stage(stage, runs / name, Execution(where, opening, Shard.parse(shard), Reporter(silent=True)))
    return runs / name


def watched(self, *args):
    found = given(self, *args)
    back.append(found)
    if "kill" in sys.argv and any((runs / "killed" / "parts").rglob("*.parquet")):
        os.kill(os.getpid(), signal.SIGKILL)
    return found


setattr(runner, call, watched)
if "kill" in sys.argv:
    select("killed")
if "others" in sys.argv:
    select("processes", executor=Processes((device, CPU)))
    select("ray", executor=Ray("local", workers=1, device=device.kind))
    sys.exit()
if not device.uses_cores:
    model = MaskedLM(load_exported(folder / "masked"), device)
    ids, few = np.full((5, 12), 7, np.int32), np.ones(5, np.int32)
    seen = {"placed": placed(model._runner._session)}
    for name, run in (
        ("decisions", lambda: model.decide(ids, few, few)),
        ("logits", lambda: logits_at(model, ids, few)),
    ):
        back.clear()
        run()
        seen[name] = sum(array.base.nbytes for arrays in back for array in arrays)
    sys.stdout.write("\n" + json.dumps(seen) + "\n")
ng.score(select("select"), **decided, **quiet)
select("killed")
ng.merge([select(f"part-{number}", shard=f"{number}/2") for number in (1, 2)], output=runs / "merged")
select("causal", "causal")
pairs = ng.load(folder / "pairs", task="text-classification", **decided)
original = {"RTE": folder / "dev.tsv"}
ng.nli(pairs, data=folder, source="RTE", original=original, max_length=16, output=runs / "nli", **quiet)
for name in ("masked", "causal"):
    model = ng.load(folder / name, **ranked)
    ng.likelihood(model, folder / "minimal.jsonl", output=runs / f"likelihood-{name}", **quiet)
masked = ng.load(folder / "masked", **ranked)
ng.probe(masked, folder / "own.jsonl", output=runs / "probe", **quiet)
ng.lama(masked, data=folder / "SQuAD.jsonl", output=runs / "lama", **quiet)
(folder / "suite.toml").write_text(
    f"[[model]]\nmodel = '{folder / 'masked'}'\n[[probe]]\nprobe = 'probe'\ndata = '{folder / 'own.jsonl'}'\n"
)
assert ng.suite(folder / "suite.toml", output=runs / "suite", **ranked, **quiet).is_finished
for name in ("probe", "lama", "likelihood-causal"):
    assert not ng.verify(runs / name, sample=20, seed=0).damage
    assert "All numbers were computed in fp32." in ng.cite(runs / name).text
