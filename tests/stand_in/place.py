"""Run a graph as the engine would on CUDA, on the stand-in libraries, and tell in JSON where it runs.

`python place.py GRAPH BATCH_TOKENS LENGTH...`, started with LD_LIBRARY_PATH on the stand-ins. The last line
of stdout is a JSON document: the (provider, operator) counts as ONNX Runtime placed them, and what it says about its
attention kernels is on stdout before it.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnxruntime

onnxruntime.preload_dlls = lambda *_, **__: None  # a real CUDA, where there is one, is not to be mixed with stand-ins

from negengine.engine.inference.batches import OUTPUTS  # noqa: E402
from negengine.engine.inference.device import choose_device  # noqa: E402

path, batch_tokens, *lengths = sys.argv[1:]
batches = choose_device("cuda:1").runner(Path(path), int(batch_tokens), 1)
for length in map(int, lengths):
    ids, few = np.full((5, length), 7, np.int32), np.ones(5, np.int32)
    for _ in range(2):
        feeds = {"input_ids": ids, "mask_position": few, "expected_id": few}
        batches.fetch(OUTPUTS, [feeds])
batches.fetch(["logits"], [feeds])
session = batches._session
placed = Counter(
    (group.ep_name, node.op_type)
    for group in session.get_provider_graph_assignment_info()
    for node in group.get_nodes()
)
options = session.get_provider_options()["CUDAExecutionProvider"]
sys.stdout.write("\n" + json.dumps({"placed": [[*key, n] for key, n in placed.items()], "options": options}) + "\n")
