"""Experiments on a WebGPU device write what they write on the CPU: SwiftShader, a Vulkan driver without a GPU.

All runs are made by `tests/stand_in/on_device.py`, in a process for each device.
"""

import json
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import onnxruntime as ort
import pytest
from negengine.engine.basics.errors import InputError, StoppedError
from negengine.engine.basics.option import Opening
from negengine.engine.cli import doctor
from negengine.engine.inference import tally
from negengine.engine.inference.device import choose_device
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.inference.devices.webgpu import WebGpu
from negengine.engine.inference.exported import FP32_ON_DEVICE
from negengine.engine.inference.gpu import Filled
from negengine.engine.inference.session import refuse_cpu_nodes
from negengine.engine.library.model import Model
from negengine.engine.library.options import execution
from negengine.engine.runs import executors, masked_stages
from negengine.engine.runs.masked_stages import fp32_session
from negengine.engine.runs.ray import Ray

from .on_devices import SCRIPT, VOCABULARY, assert_same_decisions, calibrated

BROWSERS = ("/usr/lib/chromium", "/usr/lib/chromium-browser", "/opt/google/chrome")
DRIVERS = [f"{folder}/vk_swiftshader_icd.json" for folder in BROWSERS]
FLOATING = {"MatMul", "Gemm", "MultiHeadAttention", "LayerNormalization", "Gelu", "GatherND", "TopK", "ReduceSum"}


@pytest.fixture(scope="module")
def start(python):
    """Runs a program where the plugin may use SwiftShader; the test skips, with the reason, where it cannot."""
    driver = next((path for path in DRIVERS if Path(path).is_file()), os.environ.get("VK_ICD_FILENAMES", ""))
    own = {"ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER": "1", "VK_ICD_FILENAMES": driver}
    own |= {"XDG_RUNTIME_DIR": os.environ.get("XDG_RUNTIME_DIR", tempfile.gettempdir())}

    def run(*words):
        return python(*words, env=os.environ | own)

    asked = "from negengine.engine.inference.devices.webgpu import WebGpu; print(WebGpu.missing() or '')"
    if (said := run("-c", asked).out.strip()) or not driver:
        pytest.skip(f"no WebGPU device: {said or 'no SwiftShader on this machine'}")
    return run


@pytest.fixture(scope="module")
def seen(start, folder):
    """All runs on both devices, one of them killed before; what was seen on the way."""
    killed = start(SCRIPT, folder, "webgpu", "kill")
    assert killed.status == -9, killed.err[-2000:]
    assert list((folder / "webgpu" / "killed" / "parts").iterdir())
    for device in ("webgpu", "cpu"):
        done = start(SCRIPT, folder, device)
        assert done.status == 0, done.err[-3000:]
        if device == "webgpu":
            found = json.loads(next(line for line in done.out.splitlines() if line.startswith("{")))
    return found


def workers_of(run):
    sessions = (run / "sessions").rglob("*.json")
    return [worker for path in sessions for worker in json.loads(path.read_text())["workers"]]


BENCH = """
from pathlib import Path
from negengine.bench.ceiling import product_rates
from negengine.bench.gpu import measure
from negengine.bench.shapes import SHAPES, prepare
from negengine.engine.inference.devices.webgpu import WebGpu
from transformers import BertConfig
sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
name = "bert-base-shape"
SHAPES[name] = BertConfig, sizes | {"vocab_size": 13_000}
prepare(name, Path())
measure([name], Path("gpu.json"), print, device="webgpu", cache=Path())
print("peak", *product_rates(WebGpu(), 64, 16, 32, "fp32", rounds=1).values())
"""


@pytest.mark.everything
def test_bench_gpu_compares_a_software_device_and_times_nothing_there(start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = start("-c", BENCH)
    assert done.status == 0, done.err[-2000:]
    assert "webgpu:0 is software: its results are compared, and nothing is timed" in done.out
    assert float(done.out.split("peak ")[1]) > 0
    found = json.loads(Path("gpu.json").read_bytes())
    steps, why = found["steps"], {"kernels": "webgpu:0 is software: its speed says nothing"}
    assert {name: step["why"] for name, step in steps.items() if step["status"] != "done"} == why
    assert {step["status"] for step in steps.values()} == {"done", "not here"}
    assert found["environment"]["software"]
    (placed,), (parity,) = (steps[name]["found"].values() for name in ("placement", "parity"))
    assert "MatMul" in placed["model.onnx"]["operators"]["WebGpuExecutionProvider"]
    assert parity["fp32 on device"]["wrong decisions"] == parity["fp32 on device"]["of them near-ties"]
    assert parity["fp32 on device"]["largest difference of a log-probability"] < 1e-3


@pytest.mark.everything
def test_all_floating_point_runs_on_the_device_and_six_numbers_a_sentence_come_back(seen):
    assert {*seen["placed"]["WebGpuExecutionProvider"]} >= FLOATING
    assert {*seen["placed"].get("CPUExecutionProvider", {})} <= {"Cast", "Slice", "Unsqueeze"}
    assert seen["decisions"] == 8 * (2 + 4) * 4  # five sentences are filled up to eight
    assert seen["logits"] == 8 * 4 * (5 + len(VOCABULARY))


@pytest.mark.everything
def test_decisions_have_the_bytes_of_the_cpu_and_numbers_are_its_within_rounding(seen, folder):
    assert seen
    assert_same_decisions(folder, "webgpu", "fp32 on device", {"atol": 2e-5})
    whole = folder / "webgpu" / "select"
    assert 0 < calibrated(whole)["bound"] < 1e-4
    assert {(worker["device"], worker["hardware"]) for worker in workers_of(whole)} == {("webgpu:0", "software")}


@pytest.mark.everything
def test_two_processes_and_ray_decide_as_the_cpu_does(start, seen, folder):
    pytest.importorskip("ray", reason="the extra `ray` is not installed")
    done = start(SCRIPT, folder, "webgpu", "others")
    assert done.status == 0, done.err[-3000:]
    exact = (folder / "cpu" / "select" / "triplets.parquet").read_bytes()
    for name, devices in {"processes": ["webgpu:0", "cpu"], "ray": ["webgpu:0"]}.items():
        assert (folder / "webgpu" / name / "triplets.parquet").read_bytes() == exact
        assert calibrated(folder / "webgpu" / name)["low_precision"] == "fp32 on device"
        assert [worker["device"] for worker in workers_of(folder / "webgpu" / name)] == devices


# ---------------------------------------------------------------- without a device
class Session:
    """Answers with its ids; refuses batches of more rows than fit."""

    def __init__(self, fit, error):
        self.fit, self.error, self.rows, self.get_outputs = fit, error, [], list

    def io_binding(self):
        bound = {}
        made = {"bind_cpu_input": bound.__setitem__, "copy_outputs_to_cpu": lambda: [bound["input_ids"]]}
        return SimpleNamespace(**made, bind_output=lambda _: None, ids=bound)

    def run_with_iobinding(self, binding, _options):
        self.rows.append(len(binding.ids["input_ids"]))
        if self.rows[-1] > self.fit:
            raise RuntimeError(self.error)


def filled(fit, error="Failed to allocate memory for requested buffer"):
    session = Session(fit, error)
    return session, Filled(session, WebGpu(), 640, 1)


def test_batches_that_do_not_fit_the_memory_are_halved_once_and_that_is_said(monkeypatch):
    said = []
    tally.listen(said.append)
    session, runner = filled(fit=20)
    ids = np.arange(640, dtype=np.int32).reshape(64, 10)
    for _ in range(2):
        (found,) = runner.fetch(["ids"], [{"input_ids": ids}])[0]
        np.testing.assert_array_equal(found, ids)
    assert session.rows == [64, 32, 16, 16, 16, 16, 16, 16, 16, 16]
    told = "webgpu:0: batches of {} tokens do not fit its memory, so it goes on with {}"
    assert [line.partition(";")[0] for line in said] == [told.format(640, 320), told.format(320, 160)]
    session, runner = filled(fit=200)
    rows = np.ones((512, 10), np.float32)  # of hidden states
    (found,) = runner.fetch(["logprobs"], [{"input_ids": rows}])[0]
    np.testing.assert_array_equal(found, rows)
    assert session.rows == [512, 256, *[128] * 4]


LOST = r"^--device .*was lost \(.*reset\); finished parts are kept, run the same command again"
ERRORS = [
    ("out of memory", InputError, r"^--device webgpu:0: .*one sentence.*: out of memory$"),
    ("WebGPU device lost (1): driver reset\nmore", InputError, LOST),
    ("CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED ; GPU=0", InputError, "one sentence does not fit its memory"),
    ("CUDA failure 700: an illegal memory access was encountered ; GPU=0 ; reset", StoppedError, LOST),
    ("CUBLAS failure 14: CUBLAS_STATUS_INTERNAL_ERROR ; reset", StoppedError, LOST),
    ("a bug", RuntimeError, "^a bug$"),
]


def test_what_cannot_go_on_is_one_line():
    for error, kind, said in ERRORS:
        _, runner = filled(0, error)
        with pytest.raises(kind, match=said):
            runner.fetch(["ids"], [{"input_ids": np.ones((3, 10), np.int32)}])


RADEON = SimpleNamespace(type=None, metadata={"Description": "Radeon"}, vendor="AMD")
GPU = SimpleNamespace(device=RADEON, ep_name="CPUExecutionProvider", ep_metadata={"version": "0.5.1"})
OPENS = Mock()


def test_what_is_missing_for_webgpu_is_one_clause(plugged, monkeypatch):
    lost = RuntimeError("x.cc:136\nFailed to get a WebGPU adapter: No adapters.\n")
    for listed, given, said in (
        ([], {"package": "nowhere"}, f"not installed: pip install {WebGpu.extra}"),
        ([], {}, "no device for WebGPU on this machine: use --device cpu"),
        ([RuntimeError("too old")], {}, "does not load the plugin for WebGPU (too old)"),
        ([GPU], {"opened": lost}, "(Failed to get a WebGPU adapter: No adapters.): install the newest driver"),
    ):
        assert said in plugged(WebGpu, *listed, **given).missing()
    monkeypatch.setattr(ort, "InferenceSession", object)
    assert plugged(WebGpu, GPU).missing().endswith("does not tell where operators run: install 1.31 or newer")
    monkeypatch.setattr(os, "dup", Mock(side_effect=OSError(9, "Bad file descriptor")))  # stderr is closed
    assert plugged(WebGpu, GPU, opened=[OPENS, OPENS])().adapter.has_fp16


def test_a_gpu_without_fp16_computes_in_fp32_and_refuses_the_other_graph(plugged, mini):
    assert plugged(WebGpu, GPU, opened=[OPENS, OPENS])().low_precision(mini).name == "model.fp16.onnx"
    device = plugged(WebGpu, GPU, opened=[OPENS, RuntimeError])()
    assert (device.adapter.name, device.low_precision(mini).name) == ("Radeon", "model.onnx")
    assert device.precision(mini.graph) == FP32_ON_DEVICE
    told = "webgpu:0 (Radeon, memory not told by the driver, fp32 alone, batches of at most 4,096 tokens)"
    assert doctor.diagnose()["webgpu"].said == told
    with pytest.raises(InputError, match=r"model\.fp16\.onnx: webgpu:0 \(Radeon\) does not compute in fp16"):
        device.session(mini.held("model.fp16.onnx"))


REFUSED = [
    ({"package": "nowhere"}, "", "--device webgpu: the plugin for WebGPU is not installed: pip install "),
    ({}, " --precision fp32", "fp32: the device rounds"),
    ({}, "", "webgpu:0 was lost; finished parts are kept. To"),  # with the command that resumes the run
]


@pytest.mark.parametrize(("attributes", "words", "said"), REFUSED)
def test_what_the_program_cannot_do_is_one_line_with_status_2(
    attributes, words, said, plugged, mini, monkeypatch, command
):
    plugged(WebGpu, GPU, opened=[OPENS, OPENS], **attributes)
    monkeypatch.setattr(executors.ThisProcess, "start", Mock(side_effect=StoppedError("--device webgpu:0 was lost")))
    asked = f"select {mini.folder} --device webgpu{words} --output run"
    done = command(*asked.split())
    assert done.status == 2
    (line,) = [own for own in done.err.splitlines() if own.startswith("negengine: ")]
    assert said in line
    assert (f"To resume: negengine {asked}" in line) == ("lost" in said)
    group = SimpleNamespace(ep_name="CPUExecutionProvider", get_nodes=lambda: [SimpleNamespace(op_type="Det")])
    session = SimpleNamespace(get_provider_graph_assignment_info=lambda: [group])
    with pytest.raises(InputError, match=r"^m\.onnx: WebGPU cannot run Det of this model: use --device cpu$"):
        refuse_cpu_nodes(session, Path("m.onnx"), "WebGPU")


def test_in_fp32_the_cpu_decides_and_says_so_and_ray_refuses_it(mini, monkeypatch):
    said = []
    tally.listen(said.append)
    monkeypatch.setattr(masked_stages, "choose_device", lambda _: WebGpu())
    assert fp32_session(Opening())[0] == CPU
    assert said == ["cpu decides, in fp32, as webgpu:0 rounds otherwise"]
    with pytest.raises(InputError, match="--device webgpu --precision fp32: the device rounds otherwise"):
        execution(Model(mini, (CPU,), Opening(precision="fp32")), {"executor": Ray("local", device="webgpu")})


def test_auto_takes_a_gpu_but_no_software_and_a_number_only_from_a_plugin_that_chooses(plugged):
    for kind, is_taken in ((None, True), (ort.OrtHardwareDeviceType.CPU, False)):
        listed = SimpleNamespace(**{**vars(GPU), "device": SimpleNamespace(**{**vars(RADEON), "type": kind})})
        device = plugged(WebGpu, listed, opened=[OPENS, RuntimeError])()
        assert choose_device("auto") == (device if is_taken else CPU)
        assert choose_device("auto", is_exact=True) == CPU
    for version, count in (("0.5.1", 2), ("0.4.0", 1)):
        own = SimpleNamespace(**{**vars(GPU), "ep_metadata": {"version": version}})
        assert plugged(WebGpu, own, own, opened=[OPENS, OPENS]).count() == count
    with pytest.raises(InputError, match=r"--device webgpu:1: no such device; there are 1, up to webgpu:0 alone"):
        choose_device("webgpu:1")
