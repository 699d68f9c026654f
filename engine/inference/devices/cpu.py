"""The CPU: each core runs batches of its own. The reference model of a WebGPU device runs here, too."""

from pathlib import Path
from typing import Any, ClassVar

import onnxruntime as ort

from ..batches import CORES, Runner
from ..exported import CONVOLVED, INT8, ExportedModel
from ..machine import int8_speed, machine, prefers_convolutions
from ..session import Device, give_back_freed_memory, open_session

# Fusions whose CPU kernels take longer than the operators that they replace: on 2,040 × 384 values
# SkipLayerNormalization took 3.1 ms, the sums and the LayerNormalization 1.2; BiasGelu 5.5 ms against 3.1 (2 cores).
_SLOWER = ("SkipLayerNormFusion", "BiasGeluFusion")


class Cpu(Device):
    """The processor, or this process's share of it."""

    kind: ClassVar[str] = "cpu"
    # Enough rows for matrix products to be efficient, and few enough for results to stay in a core's cache.
    batch_tokens: ClassVar[int] = 512
    # 26 MB of logits on a core with a vocabulary of 50,000 tokens. Fewer rows would make the product less efficient,
    # as its matrix is read anew for each of these pieces.
    rows: ClassVar[int] = 128
    together: ClassVar[int] = 8  # whatever the number of cores: `model.py` says why
    is_single: ClassVar[bool] = True
    low_graph: ClassVar[str | None] = INT8

    @classmethod
    def missing(cls) -> str | None:
        return None

    @classmethod
    def count(cls) -> int:
        return 1

    @property
    def uses_cores(self) -> bool:
        return True

    def hardware(self) -> dict[str, Any]:
        processor = machine().get("processor")
        return {"hardware": processor} if processor else {}

    def session(self, graph: Path, options: ort.SessionOptions | None = None) -> ort.InferenceSession:
        options = options or ort.SessionOptions()
        options.intra_op_num_threads = 1
        session = open_session(graph, options, providers=["CPUExecutionProvider"], disabled_optimizers=list(_SLOWER))
        give_back_freed_memory()
        return session

    def runner(self, graph: Path, batch_tokens: int, at_a_time: int) -> Runner:  # noqa: ARG002
        # A thread for each core runs whole batches: 10 % faster than operators divided between two cores.
        return Runner(self.session(graph), at_a_time, CORES)

    def graph(self, exported: ExportedModel) -> Path:
        return (exported.held(CONVOLVED) if prefers_convolutions() else None) or exported.graph

    def low_precision_speed(self) -> float:
        return int8_speed()


CPU = Cpu()
DEVICE = Cpu
