"""A plugin for OpenVINO that lists ONNX Runtime's own processor, as a machine with AMX has it; it rounds to bf16."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from unittest.mock import Mock

import numpy as np
import onnxruntime as ort
from negengine.engine.inference import plugin
from negengine.engine.inference.devices import openvino
from negengine.engine.inference.devices.cuda import Cuda
from negengine.engine.inference.devices.openvino import OpenVino
from negengine.engine.inference.devices.webgpu import WebGpu

AMX = frozenset({"amx_bf16", "amx_int8", "avx512_vnni", "avx512f"})
CAPABILITIES = "BF16 WINOGRAD FP32 FP16 INT8 BIN EXPORT_IMPORT"


def install(put=setattr, sets=AMX, capabilities=CAPABILITIES):
    """Install it by `put`, such as `monkeypatch.setattr`; what its sessions are asked for is the list that returns."""
    package, asked = ModuleType("onnxruntime_ep_openvino"), []
    package.get_library_path, package.get_ep_name = lambda: "lib.so", lambda: "CPUExecutionProvider"
    package.__spec__ = ModuleSpec("onnxruntime_ep_openvino", None)
    sys.modules["onnxruntime_ep_openvino"] = package
    (real,) = (own for own in ort.get_ep_devices() if own.ep_name == "CPUExecutionProvider")
    listed = SimpleNamespace(device=real.device, ep_metadata={"OPTIMIZATION_CAPABILITIES": capabilities})
    put(plugin.ort, "register_execution_provider_library", Mock())
    put(Cuda, "count", lambda: 0)
    put(WebGpu, "missing", lambda: "not here")
    put(openvino, "instruction_sets", lambda: sets)
    put(plugin, "_listed", lambda _: [listed])
    put(plugin.ort.SessionOptions, "add_provider_for_devices", lambda _, chosen, own: asked.append((chosen, own)))
    plugin._adapter.cache_clear()
    return asked


def round_to_bf16(put=setattr):
    """What the processor's sessions give has the 8 bits of bf16."""
    opened, cut = OpenVino.runner, np.uint32(0xFFFF0000)

    def runner(self, *given):
        made = opened(self, *given)
        exact = made.run_one
        made.run_one = lambda *asked: [
            (own.view(np.uint32) & cut).view(np.float32) if own.dtype == np.float32 else own for own in exact(*asked)
        ]
        return made

    put(OpenVino, "runner", runner)
