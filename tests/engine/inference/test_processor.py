"""What the kind of processor decides, from what different systems say about it."""

import numpy as np
import pytest
from negengine.engine.inference import machine
from negengine.engine.inference import machine as processor
from negengine.engine.inference.device import CPU, Device

CPUINFO = """processor\t: 0
model name\t: AMD EPYC 9B45
{}
processor\t: 1
"""


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Pretend to be a system with this line of instruction sets in /proc/cpuinfo, and these of NumPy."""
    read = machine.cpu_information
    monkeypatch.setattr(processor, "cpu_information", lambda: read(tmp_path))
    monkeypatch.setattr(processor, "instruction_sets", processor.instruction_sets.__wrapped__)

    def pretend(line, **extensions):
        if line:
            (tmp_path / "cpuinfo").write_text(CPUINFO.format(line))
        monkeypatch.setattr(np, "show_config", lambda **_: {"SIMD Extensions": extensions} if extensions else {})

    return pretend


@pytest.mark.parametrize(
    ("line", "extensions", "convolutions", "speed"),
    [
        ("flags\t\t: fpu avx avx2 avx512f avx512_vnni fma", {}, True, 2.2),
        ("flags\t\t: avx2 avx_vnni", {}, False, 2.2),
        ("flags\t\t: avx2 avx512f", {}, True, 1.6),
        ("flags\t\t: avx avx2 fma", {"found": ["X86_V4"]}, False, 1.6),
        ("flags\t\t: avx sse4_2", {}, False, 1.0),
        ("Features\t: asimd asimddp i8mm", {}, False, 1.0),
        ("", {"found": ["SSE42", "AVX2"]}, False, 1.6),
        ("", {"found": ["AVX2", "AVX512F"]}, True, 1.6),
        ("", {"baseline": ["X86_V2"], "found": ["X86_V3"]}, False, 1.6),
        ("", {"baseline": ["X86_V2", "X86_V4"]}, True, 1.6),
        ("", {"baseline": ["X86_V2"], "found": ["X86_V3", "X86_V4", "AVX512_ICL"]}, True, 2.2),
        ("", {"baseline": ["X86_V2"]}, False, 1.0),
        ("", {}, False, 1.0),
    ],
)
def test_instruction_sets_say_which_graph_runs_and_what_int8_gains(system, line, extensions, convolutions, speed):
    system(line, **extensions)
    assert processor.prefers_convolutions() == convolutions
    assert processor.low_precision_speed(CPU) == speed


def test_a_gpu_gains_by_fp16():
    assert processor.low_precision_speed(Device("cuda")) == 2.0
