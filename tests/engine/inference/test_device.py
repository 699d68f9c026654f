"""The devices that `--device` names, what NVIDIA's driver tells of them, and the sizes of batches on CUDA.

The driver is a stand-in. Where kernels run on CUDA is in tests/export/test_placement.py.
"""

import shutil
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import cuda
from negengine.engine.inference import device as devices
from negengine.engine.inference.cpu import CPU
from negengine.engine.inference.cuda import Cuda, cuda_memory, cuda_text, cuda_version
from negengine.engine.inference.device import choose_devices, threads_each
from negengine.engine.inference.gpu import rounded_up


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(cuda.ort, "get_available_providers", lambda: ["CUDAExecutionProvider"])
    monkeypatch.setattr(Cuda, "count", lambda: 2)


def test_cuda_without_a_device_is_an_error_and_auto_takes_the_cpu(monkeypatch):
    monkeypatch.setattr(Cuda, "count", lambda: 0)
    assert choose_devices("auto") == (CPU,)
    with pytest.raises(InputError, match=r"--device cuda:1: .*CUDA"):
        choose_devices("cuda:1")


@pytest.mark.usefixtures("two_gpus")
def test_devices_by_their_names():
    for words, found in {
        "cpu": [CPU],
        "auto": [Cuda(0)],
        "cpu,cpu": [CPU, CPU],
        "cuda:1, cuda:0,cpu": [Cuda(1), Cuda(0), CPU],
    }.items():
        assert choose_devices(words) == tuple(found)
    unknown = ["gpu", "cuda:", "cuda:x", "CPU", "", "cuda:-1", "cpu:0", "cpu,"]
    for words, reason in {
        **dict.fromkeys(unknown, "give auto, cpu, cuda, cuda:INDEX, webgpu or webgpu:INDEX"),
        "cpu,auto": "auto stands for one device",
        "cuda,cpu,cuda:0": "cuda:0 is given 2 times",
        "cuda:0,cuda:2": "--device cuda:2: no such device; there are 2, up to cuda:1",
        "cpu," * 64 + "cpu": "65 devices; give at most 64",
    }.items():
        with pytest.raises(InputError, match=reason):
            choose_devices(words)


def test_several_cpus_share_the_cores_unless_the_user_says_how_many_threads(monkeypatch):
    """Each used to take all of them."""
    monkeypatch.setattr(devices, "cpu_threads", lambda: 5)
    assert threads_each([CPU]) == (5,)
    assert threads_each([CPU, Cuda(), CPU]) == (3, None, 2)
    assert threads_each([CPU] * 7) == (1,) * 7
    assert threads_each([CPU, CPU], 4) == (4, 4)


def driver_with(known):
    """As libcuda answers on a machine whose visible devices have these (memory, address)."""

    def write(target, value, status=0):
        target.value = value
        return status

    return SimpleNamespace(
        cuInit=lambda _: 0 if known else 100,
        cuDeviceGetCount=lambda count: write(count._obj, len(known)),
        cuDeviceGet=lambda handle, index: write(handle._obj, index, 0 if index < len(known) else 101),
        cuDeviceTotalMem_v2=lambda total, handle: write(total._obj, known[handle.value][0]),
        cuDeviceGetPCIBusId=lambda text, _, handle: write(text, known[handle.value][1].encode()),
        cuDeviceGetName=lambda text, *_: write(text, b"NVIDIA H200"),
        cuDriverGetVersion=lambda version: write(version._obj, 13010),
    )


def test_devices_are_those_of_the_driver(monkeypatch):
    known = [(140 << 30, "0000:C1:00.0"), (80 << 30, "0000:01:00.0")]
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda _: driver_with(known))
    assert (Cuda.count(), cuda_version()) == (2, "13.1")
    assert [(cuda_memory(index), cuda_text("cuDeviceGetPCIBusId", index)) for index in (0, 1)] == known
    assert cuda_text("cuDeviceGetName", 1) == "NVIDIA H200"
    assert (cuda_memory(2), cuda_text("cuDeviceGetName", 2)) == (None, None)

    # With an empty CUDA_VISIBLE_DEVICES the driver does not start; or there is none.
    for load in (lambda _: driver_with([]), Mock(side_effect=OSError("libcuda.so.1: cannot open shared object file"))):
        monkeypatch.setattr(cuda.ctypes, "CDLL", load)
        assert [Cuda.count(), cuda_version(), cuda_memory(0), cuda_text("cuDeviceGetName", 0)] == [0, None, None, None]


def test_batches_on_cuda_have_15_sizes_up_to_1024_and_waste_at_most_a_third():
    """Powers of two or half as much again, from 8 on; 1 to 6 sentences used to be filled up to 6."""
    assert [rounded_up(n, 910) for n in (1, 8, 9, 12, 13, 17, 25, 900)] == [8, 8, 12, 12, 16, 24, 32, 910]
    assert rounded_up(3, 5) == 5
    sizes = {n: rounded_up(n, 1024) for n in range(1, 1025)}
    assert len(set(sizes.values())) == 15
    assert all(size - n <= size / 3 for n, size in sizes.items() if n > 8)


def test_a_damaged_graph_is_one_line_and_nothing_else_is_printed(tmp_path, mini, capfd):
    """ONNX Runtime's own log has escapes of the terminal; it writes where weights are not where the graph says."""
    import onnx

    shutil.copytree(mini.folder, tmp_path, dirs_exist_ok=True)
    graph = onnx.load(mini.graph, load_external_data=False)
    first = next(own for own in graph.graph.initializer if own.external_data)
    next(entry for entry in first.external_data if entry.key == "offset").value = "-1"
    for content in (b"no graph", graph.SerializeToString()):
        (tmp_path / "model.onnx").write_bytes(content)
        with pytest.raises(InputError, match=r"^[^\n\x1b]*model\.onnx: ONNX Runtime cannot open it[^\n\x1b]*$"):
            CPU.session(tmp_path / "model.onnx")
    assert capfd.readouterr() == ("", "")
