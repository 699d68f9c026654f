"""The host's side of a run on CUDA, on the stand-in libraries: `python host.py MODEL`, started with LD_LIBRARY_PATH.

A full batch does not fit the memory, then a smaller one does; two devices and several threads are used. What is
computed is nonsense. The last line of stdout is a JSON document.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import onnxruntime

onnxruntime.preload_dlls = lambda *_, **__: None  # a real CUDA, where there is one, is not to be mixed with stand-ins

from negengine.engine.inference import tally  # noqa: E402
from negengine.engine.inference.device import choose_devices  # noqa: E402
from negengine.engine.inference.exported import load_exported  # noqa: E402
from negengine.engine.inference.model import MaskedLM  # noqa: E402

exported, said, shapes = load_exported(Path(sys.argv[1])), [], []
tally.listen(said.append)
devices = choose_devices("cuda:0,cuda:1")
ids = np.full((1_500, 18), 7, np.int32)
few, expected = np.ones(len(ids), np.int32), np.arange(len(ids), dtype=np.int32) % 9
for device in devices:
    model = MaskedLM(exported, device, graph=device.low_precision(exported))
    if device.index:
        os.environ["STAND_IN_MOST"] = str(8 << 20)  # of 16,384 tokens, a value of 1,536 numbers has 50 MB
    found = model.decide(ids, few, expected)
    shapes.append([len(found), str(model.precision)])
sys.stdout.write("\n" + json.dumps({"said": said, "shapes": shapes, "devices": [*map(str, devices)]}) + "\n")
