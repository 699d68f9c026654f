"""The kind of processor, from what different systems say about it."""

import json

import pytest
from negengine.engine.inference import machine, processor
from negengine.engine.inference.device import CPU, Device

X86 = """processor\t: 0
cpu family\t: 26
model\t\t: 2
model name\t: AMD EPYC 9B45
flags\t\t: fpu smep sse4_1 avx avx2 avx512f avx512_vnni amx_int8 fma
processor\t: 1
cpu family\t: 26
model name\t: AMD EPYC 9B45
"""
ARM = """processor\t: 0
Features\t: fp asimd asimddp sve i8mm bf16 sme
CPU implementer\t: 0x41
CPU part\t: 0xd4f
"""


@pytest.fixture
def cpuinfo(tmp_path, monkeypatch):
    read = machine.cpu_information
    for module in (machine, processor):
        monkeypatch.setattr(module, "cpu_information", lambda: read(tmp_path))
    return (tmp_path / "cpuinfo").write_text


def test_x86(cpuinfo):
    cpuinfo(X86)
    found = processor.processor(CPU)
    assert found["processor"] == "AMD EPYC 9B45"
    assert found["numbers"] == {"cpu family": "26", "model": "2"}
    assert found["instructions"] == ["amx_int8", "avx", "avx2", "avx512_vnni", "avx512f", "fma", "sse4_1"]


def test_arm(cpuinfo):
    cpuinfo(ARM)
    found = processor.processor(CPU)
    assert found["numbers"] == {"CPU implementer": "0x41", "CPU part": "0xd4f"}
    assert found["instructions"] == ["asimd", "asimddp", "bf16", "i8mm", "sme", "sve"]


@pytest.mark.usefixtures("cpuinfo")
def test_a_system_without_cpuinfo():
    found = processor.processor(CPU)
    assert found["processor"]
    assert isinstance(found["instructions"], list)


def test_a_gpu_without_a_driver_is_unknown():
    found = processor.processor(Device("cuda"))
    assert found["device"] == "cuda"
    assert {"gpu", "driver"} <= set(found)


def test_it_comes_back_from_json():
    found = processor.processor(CPU)
    assert json.loads(json.dumps(found)) == found
