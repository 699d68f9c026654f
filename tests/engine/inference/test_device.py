"""Devices and the machine: what `--device` names, what driver and system tell, what the kind decides.

The driver is a stand-in. Where kernels run on CUDA is in tests/export/test_families.py.
"""

import re
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import negengine as ng
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.versions import requirement
from negengine.engine.inference import device as devices
from negengine.engine.inference import machine as own
from negengine.engine.inference.device import choose_devices, threads_each
from negengine.engine.inference.devices import cuda
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.inference.devices.cuda import Cuda, cuda_memory, cuda_text, cuda_version
from negengine.engine.inference.devices.openvino import OpenVino
from negengine.engine.inference.gpu import rounded_up
from negengine.engine.inference.machine import cpu_information, host_kind, memory_gib
from negengine.engine.inference.plugin import PluginDevice


def test_devices_by_their_names(monkeypatch):
    monkeypatch.setattr(Cuda, "count", lambda: 0)
    monkeypatch.setattr(OpenVino, "missing", lambda: "the plugin is not installed")
    assert choose_devices("auto") == (CPU,)
    with pytest.raises(InputError, match=r"--device cuda:1: .*CUDA"):
        choose_devices("cuda:1")
    monkeypatch.setattr(cuda.ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(Cuda, "count", lambda: 2)
    monkeypatch.setattr(cuda, "has_cudnn", lambda: False)  # found when a device is chosen, not in the first attention
    with pytest.raises(InputError, match=f"cuDNN 9 is missing, .*: pip install {re.escape(requirement('cuda'))}"):
        choose_devices("cuda")
    monkeypatch.setattr(cuda, "has_cudnn", lambda: True)
    for words, found in {
        "cpu": [CPU],
        "auto": [Cuda(0)],
        "cpu,cpu": [CPU, CPU],
        "cuda:1, cuda:0,cpu": [Cuda(1), Cuda(0), CPU],
    }.items():
        assert choose_devices(words) == tuple(found)
    unknown = ["gpu", "cuda:", "cuda:x", "CPU", "", "cuda:-1", "cpu:0", "cpu,"]
    for words, reason in {
        **dict.fromkeys(unknown, "give auto, cpu, cuda, cuda:INDEX, openvino, .*, webgpu, webgpu:INDEX$"),
        "cpu,auto": "auto stands for one device",
        "cuda,cpu,cuda:0": "cuda:0 is given 2 times",
        "cuda:0,cuda:2": "--device cuda:2: no such device; there are 2, up to cuda:1",
        "cpu," * 64 + "cpu": "65 devices; give at most 64",
    }.items():
        with pytest.raises(InputError, match=reason):
            choose_devices(words)

    monkeypatch.setattr(devices, "cpu_threads", lambda: 5)  # several CPUs share the cores
    assert threads_each([CPU]) == (5,)
    assert threads_each([CPU, Cuda(), CPU]) == (3, None, 2)
    assert threads_each([CPU] * 7) == (1,) * 7
    assert threads_each([CPU, CPU], 4) == (4, 4)


def test_a_plugin_of_another_package_decides_as_the_cpu_does(mini, small_lexicon, monkeypatch, tmp_path, plugged):
    """What it lists is ONNX Runtime's own CPU."""

    class Here(PluginDevice):
        kind, label, extra, preference, is_software = "here", "Here", "a-plugin", 0, False
        may_stay_on_cpu = frozenset(
            {"Gemm", *(node.op_type for name in GRAPHS for node in onnx.load(mini.folder / name).graph.node)}
        )  # a session makes one operator of a product and a bias

    (processor,) = (own for own in ort.get_ep_devices() if own.ep_name == "CPUExecutionProvider")
    own = plugged(Here, processor, is_known=False)
    monkeypatch.setattr(devices, "entry_points", lambda group: [EntryPoint("here", "x:Here", group)])
    monkeypatch.setattr(EntryPoint, "load", lambda _: own)
    devices.kinds.cache_clear()
    try:
        assert choose_devices("auto") == (own(),)
        ort.register_execution_provider_library.assert_called_once_with(own.package, "lib.so")
        found = {}
        for words in ("cpu", "here"):
            run = ng.select(
                ng.load(mini.folder, device=words, precision="mixed"),
                lexicon=small_lexicon, output=tmp_path / words, progress=False,
            )  # fmt: skip
            found[words] = (run.folder / "triplets.parquet").read_bytes()
        assert found["cpu"] == found["here"]
        with pytest.raises(InputError, match="--device here --precision fp32: the device rounds otherwise"):
            choose_devices("here", is_exact=True)
        monkeypatch.setattr(devices, "entry_points", lambda group: [EntryPoint("cpu", "x:Here", group)])
        devices.kinds.cache_clear()
        with pytest.raises(InputError, match=r"the entry point cpu of negengine.devices \(x:Here\) is not a new kind"):
            choose_devices("cpu")
    finally:
        devices.kinds.cache_clear()


GRAPHS = ("model.onnx", "model.fp16.onnx")


KNOWN = [(140 << 30, "0000:C1:00.0"), (80 << 30, "0000:01:00.0")]


def driver_with(known, told=None):
    """As libcuda answers on a machine whose visible devices have these (memory, address)."""
    told = told or {"capability": (9, 0), "driver": 13010}
    write = lambda target, value, status=0: (setattr(target, "value", value), status)[1]  # noqa: E731
    return SimpleNamespace(
        cuInit=lambda _: 0 if known else 100,
        cuDeviceGetCount=lambda count: write(count._obj, len(known)),
        cuDeviceGet=lambda handle, index: write(handle._obj, index, 0 if index < len(known) else 101),
        cuDeviceTotalMem_v2=lambda total, handle: write(total._obj, known[handle.value][0]),
        cuDeviceGetPCIBusId=lambda text, _, handle: write(text, known[handle.value][1].encode()),
        cuDeviceGetName=lambda text, *_: write(text, b"NVIDIA H200"),
        cuDeviceGetAttribute=lambda found, number, _: write(found._obj, told["capability"][number - 75]),
        cuDriverGetVersion=lambda version: write(version._obj, told["driver"]),
    )


def test_devices_are_those_of_the_driver(monkeypatch, tmp_path):
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda _: driver_with(KNOWN))
    assert (Cuda.count(), cuda_version()) == (2, "13.1")
    assert [(cuda_memory(index), cuda_text("cuDeviceGetPCIBusId", index)) for index in (0, 1)] == KNOWN
    assert (cuda_text("cuDeviceGetName", 1), cuda_text("cuDeviceGetName", 2)) == ("NVIDIA H200", None)
    assert (Cuda(1).low_precision_speed(), Cuda(2).low_precision_speed()) == (7.2, 2.0)  # compute capability 9.0, none
    (told := tmp_path / "version").write_text("NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release\n")
    monkeypatch.setattr(cuda, "_DRIVER", told)
    hardware = {"hardware": "NVIDIA H200", "memory GiB": 80.0, "driver": "580.95.05", "CUDA": "13.1"}
    assert Cuda(1).hardware() == hardware
    monkeypatch.setattr(cuda, "_DRIVER", tmp_path / "none")
    assert "driver" not in Cuda(2).hardware()
    # With an empty CUDA_VISIBLE_DEVICES the driver does not start; or there is none.
    for load in (lambda _: driver_with([]), Mock(side_effect=OSError("libcuda.so.1: cannot open shared object file"))):
        monkeypatch.setattr(cuda.ctypes, "CDLL", load)
        assert [Cuda.count(), cuda_version(), cuda_memory(0), cuda_text("cuDeviceGetName", 0)] == [0, None, None, None]


def test_a_driver_that_is_too_old_and_a_gpu_without_kernels_are_one_clause(monkeypatch):
    found = {"capability": (9, 0), "driver": 13010}
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda _: driver_with(KNOWN[:1], found))
    monkeypatch.setattr(cuda.ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(cuda.ort, "cuda_version", "13.0", raising=False)
    monkeypatch.setattr(cuda.ort, "__version__", "1.31.1")
    monkeypatch.setattr(cuda, "has_cudnn", lambda: True)
    opened = Mock(side_effect=InputError("opened"))
    monkeypatch.setattr(cuda, "open_session", opened)
    for capability in ((7, 5), (8, 6), (8, 9), (9, 0), (12, 0), (12, 1)):
        found["capability"] = capability
        assert Cuda.missing() is None
    for capability in ((7, 0), (10, 0)):  # V100, B200
        found["capability"] = capability
        said = rf"no kernels for this GPU \(compute capability {capability[0]}\.{capability[1]}\): use another GPU"
        with pytest.raises(InputError, match=f"--device cuda: .*{said}"):
            choose_devices("cuda")
        with pytest.raises(InputError, match=f"--device cuda:0: .*{said}"):
            Cuda().session(Path("model.onnx"))
    monkeypatch.setattr(cuda.ort, "__version__", "1.32.0")  # of which nothing is known
    assert Cuda.missing() is None
    found["driver"] = 12040
    assert "driver supports CUDA 12.4, and this ONNX Runtime needs 13.0: install a newer" in Cuda.missing()
    opened.assert_not_called()


def test_batches_on_a_gpu_have_few_sizes_and_waste_at_most_a_third():
    assert [rounded_up(n, 910) for n in (1, 8, 9, 12, 13, 17, 25, 900)] == [8, 8, 12, 12, 16, 24, 32, 910]


def test_a_damaged_graph_is_one_line_and_nothing_else_is_printed(tmp_path, mini, capfd):
    """ONNX Runtime's own log has escapes of the terminal; it writes where weights are not where the graph says."""
    shutil.copytree(mini.folder, tmp_path, dirs_exist_ok=True)
    graph = onnx.load(mini.graph, load_external_data=False)
    first = next(own for own in graph.graph.initializer if own.external_data)
    next(entry for entry in first.external_data if entry.key == "offset").value = "-1"
    for content in (b"no graph", graph.SerializeToString()):
        (tmp_path / "model.onnx").write_bytes(content)
        with pytest.raises(InputError, match=r"^[^\n\x1b]*model\.onnx: ONNX Runtime cannot open it[^\n\x1b]*$"):
            CPU.session(tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")


def test_what_linux_tells_and_where_it_tells_nothing(tmp_path):
    assert (cpu_information(tmp_path), memory_gib(tmp_path), host_kind(tmp_path)) == ({}, None, None)
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A CPU\n\nprocessor\t: 1\nmodel name\t: B CPU\n")
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemTotal:       25165824 kB\n")
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    assert cpu_information(tmp_path)["model name"] == "A CPU"
    assert (memory_gib(tmp_path), host_kind(tmp_path)) == (24.0, "Amazon EC2")


def test_instruction_sets_say_which_graph_runs_and_what_int8_gains(monkeypatch):
    """/proc/cpuinfo, what NumPy finds → convolutions in place of products, int8 over fp32."""
    for known, found, convolutions, speed in [
        ({"flags": "fpu avx avx2 avx512f avx512_vnni fma"}, [], True, 2.2),
        ({"flags": "avx2 avx_vnni"}, [], False, 2.2),
        ({"flags": "avx avx2 fma"}, ["X86_V4"], False, 1.6),
        ({"Features": "asimd asimddp i8mm"}, [], False, 1.0),
        ({}, ["AVX2", "AVX512F"], True, 1.6),
        ({}, ["X86_V3", "X86_V4", "AVX512_ICL"], True, 2.2),
        ({}, None, False, 1.0),
    ]:
        monkeypatch.setattr(own, "cpu_information", lambda known=known: known)
        monkeypatch.setattr(own, "instruction_sets", own.instruction_sets.__wrapped__)
        said = {} if found is None else {"SIMD Extensions": {"baseline": ["X86_V2"], "found": found}}
        monkeypatch.setattr(np, "show_config", lambda said=said, **_: said)
        assert (own.prefers_convolutions(), CPU.low_precision_speed()) == (convolutions, speed)
        monkeypatch.undo()
