"""What the machine tells of itself, and nothing that names it."""

import platform

import pynvml
import pytest
from negengine.engine.inference import machine as own
from negengine.engine.inference.device import CPU, Device, cpu_threads
from negengine.engine.inference.machine import cpu_information, hardware, host_kind, machine, memory_gib


@pytest.fixture(autouse=True)
def _nothing_kept():
    machine.cache_clear()
    hardware.cache_clear()
    yield
    machine.cache_clear()
    hardware.cache_clear()


def test_this_machine_tells_system_and_cores():
    found = machine()
    assert found["system"] == f"{platform.system()} {platform.machine()}"
    assert found["cores"] == cpu_threads()
    assert platform.node() not in found.values()


def test_the_first_core_is_read(tmp_path):
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: A CPU\n\nprocessor\t: 1\nmodel name\t: B CPU\n")
    (tmp_path / "meminfo").write_text("MemFree: 1 kB\nMemTotal:       25165824 kB\n")
    assert cpu_information(tmp_path)["model name"] == "A CPU"
    assert memory_gib(tmp_path) == 24.0


def test_the_kind_of_host_is_what_its_maker_calls_it(tmp_path):
    (tmp_path / "sys_vendor").write_text("Amazon EC2\n")
    (tmp_path / "product_name").write_text("m7i.2xlarge\n")
    assert host_kind(tmp_path) == "Amazon EC2 m7i.2xlarge"


def test_what_the_system_does_not_tell_is_missing(tmp_path):
    assert (cpu_information(tmp_path), memory_gib(tmp_path), host_kind(tmp_path)) == ({}, None, None)


def test_the_hardware_of_the_cpu_is_its_processor(monkeypatch):
    monkeypatch.setattr(own, "cpu_information", lambda: {"model name": "A CPU"})
    assert hardware(CPU) == {"hardware": "A CPU"}


def test_the_hardware_of_a_gpu_is_its_name_and_driver(monkeypatch):
    monkeypatch.setattr(own, "cuda_name", lambda index: f"NVIDIA {index}")
    monkeypatch.setattr(own, "cuda_memory", lambda _: 140 << 30)
    monkeypatch.setattr(own, "cuda_version", lambda: "13.0")
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlSystemGetDriverVersion", lambda: "580.95.05")
    assert hardware(Device("cuda", 1)) == {
        "hardware": "NVIDIA 1",
        "memory GiB": 140.0,
        "driver": "580.95.05",
        "CUDA": "13.0",
    }


def test_a_gpu_without_nvml_lacks_the_version_of_the_driver(monkeypatch):
    def refuse():
        raise pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(pynvml, "nvmlInit", refuse)
    monkeypatch.setattr(own, "cuda_name", lambda _: "NVIDIA H200")
    monkeypatch.setattr(own, "cuda_memory", lambda _: None)
    monkeypatch.setattr(own, "cuda_version", lambda: "13.0")
    assert hardware(Device("cuda")) == {"hardware": "NVIDIA H200", "CUDA": "13.0"}
