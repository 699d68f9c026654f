"""What the machine tells of itself and nothing that names it; what its kind decides; the energy that it used."""

from unittest.mock import Mock

import numpy as np
import pynvml
import pytest
from negengine.engine.inference import cuda
from negengine.engine.inference import machine as own
from negengine.engine.inference.cpu import CPU
from negengine.engine.inference.cuda import Cuda
from negengine.engine.inference.machine import EnergyMeter, cpu_information, energy_used, host_kind, memory_gib

GPU = Cuda(0)


def test_what_linux_tells_and_where_it_tells_nothing(tmp_path):
    assert (cpu_information(tmp_path), memory_gib(tmp_path), host_kind(tmp_path)) == ({}, None, None)
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A CPU\n\nprocessor\t: 1\nmodel name\t: B CPU\n")
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemTotal:       25165824 kB\n")
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    (tmp_path / "product_name").write_text("m7i.2xlarge\n")
    assert cpu_information(tmp_path)["model name"] == "A CPU"
    assert memory_gib(tmp_path) == 24.0
    assert host_kind(tmp_path) == "Amazon EC2 m7i.2xlarge"


def test_the_hardware_of_a_gpu_is_what_its_libraries_tell(monkeypatch):
    monkeypatch.setattr(cuda, "cuda_text", lambda _, index: f"NVIDIA {index}")
    monkeypatch.setattr(cuda, "cuda_memory", lambda index: 140 << 30 if index else None)
    monkeypatch.setattr(cuda, "cuda_version", lambda: "13.0")
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: "580.95.05")
    known = {"hardware": "NVIDIA 1", "memory GiB": 140.0, "driver": "580.95.05", "CUDA": "13.0"}
    assert Cuda(1).hardware() == known
    monkeypatch.setattr(pynvml, "nvmlInit", Mock(side_effect=pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)))
    assert GPU.hardware() == {"hardware": "NVIDIA 0", "CUDA": "13.0"}


# The line of instruction sets in /proc/cpuinfo, what NumPy says → convolutions in place of products, int8 over fp32
PROCESSORS = [
    ("flags\t\t: fpu avx avx2 avx512f avx512_vnni fma", {}, True, 2.2),
    ("flags\t\t: avx2 avx_vnni", {}, False, 2.2),
    ("flags\t\t: avx2 avx512f", {}, True, 1.6),
    ("flags\t\t: avx avx2 fma", {"found": ["X86_V4"]}, False, 1.6),
    ("Features\t: asimd asimddp i8mm", {}, False, 1.0),
    ("", {"found": ["AVX2", "AVX512F"]}, True, 1.6),
    ("", {"baseline": ["X86_V2"], "found": ["X86_V3"]}, False, 1.6),
    ("", {"baseline": ["X86_V2"], "found": ["X86_V3", "X86_V4", "AVX512_ICL"]}, True, 2.2),
    ("", {}, False, 1.0),
]


@pytest.mark.parametrize(("line", "extensions", "convolutions", "speed"), PROCESSORS)
def test_instruction_sets_say_which_graph_runs_and_what_int8_gains(monkeypatch, line, extensions, convolutions, speed):
    name, _, flags = line.partition(":")
    monkeypatch.setattr(own, "cpu_information", lambda: {name.strip(): flags.strip()} if line else {})
    monkeypatch.setattr(own, "instruction_sets", own.instruction_sets.__wrapped__)
    monkeypatch.setattr(np, "show_config", lambda **_: {"SIMD Extensions": extensions} if extensions else {})
    assert own.prefers_convolutions() == convolutions
    assert CPU.low_precision_speed() == speed
    assert GPU.low_precision_speed() == 2.0


# ---------------------------------------------------------------- energy
@pytest.fixture
def zone(tmp_path, monkeypatch):
    """Sets a counter of the processor, in microjoules, on a machine without a GPU."""
    monkeypatch.setattr(Cuda, "count", lambda: 0)

    def write(name, what, microjoules, largest=262_143_328_850):
        (tmp_path / name).mkdir(exist_ok=True)
        for file, content in (("name", what), ("energy_uj", microjoules), ("max_energy_range_uj", largest)):
            (tmp_path / name / file).write_text(f"{content}\n")

    return write


def test_packages_and_readings_are_added_and_what_is_inside_a_package_is_not(zone, tmp_path):
    zones = [("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:1", "package-1")]
    meter = None
    for readings, used in (((5, 3, 2.5), 0), ((6, 3.5, 4.5), 3), ((6, 3.5, 5), 3.5)):
        for names, joules in zip(zones, readings, strict=True):
            zone(*names, joules * 1e6)
        meter = meter or EnergyMeter(tmp_path)
        assert meter.joules() == {"cpu": used}


@pytest.mark.parametrize(("largest", "used"), [(10_000_000, {"cpu": 3}), ("", {})])
def test_a_counter_that_starts_anew_is_followed_if_its_range_is_known(zone, tmp_path, largest, used):
    zone("intel-rapl:0", "package-0", 9_000_000, largest)
    meter = EnergyMeter(tmp_path)
    zone("intel-rapl:0", "package-0", 2_000_000, largest)
    assert meter.joules() == used

    zone("intel-rapl:0", "package-0", "no number")
    with energy_used([CPU], tmp_path) as joules:
        pass
    assert joules == [None]


def test_energy_of_a_gpu_is_that_of_the_device_at_its_address(monkeypatch, tmp_path):
    """CUDA calls it 0, and NVML knows it by its address; of a second one the driver knows no address."""
    counter = iter([1_000, 4_000, 5_000, 6_000])
    monkeypatch.setattr(Cuda, "count", lambda: 2)
    monkeypatch.setattr(cuda, "cuda_text", lambda _, index: None if index else "0000:C1:00.0")
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByPciBusId", {"0000:C1:00.0": "handle"}.__getitem__)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", lambda _: next(counter))

    def used(device):
        with energy_used([device], tmp_path) as joules:
            pass
        return joules

    assert used(GPU) == [3]
    assert used(Cuda(1)) == [None]

    refused = Mock(side_effect=pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED))
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", refused)
    assert used(GPU) == [None]
