"""The processor by the OpenVINO plugin: it decides in bf16 where AMX makes that faster, and the bytes stay.

The plugin is an object that lists ONNX Runtime's own CPU, so what runs is fp32, rounded to bf16 where a test
needs an error. With the plugin itself on an Intel processor, the last test runs it with the hint f32.
"""

import json
from types import SimpleNamespace

import negengine as ng
import numpy as np
import onnxruntime as ort
import pytest
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.cli import doctor
from negengine.engine.inference import device as devices
from negengine.engine.inference import mixed
from negengine.engine.inference.device import choose_device
from negengine.engine.inference.devices import openvino
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.inference.devices.openvino import OpenVino
from negengine.engine.inference.exported import BF16
from negengine.engine.inference.model import MaskedLM
from negengine.engine.inference.precision import Workload, choose_precisions, open_decider, open_models
from negengine.engine.runs.masked_stages import fp32_session
from processor_plugin import AMX, CAPABILITIES, round_to_bf16

from .on_devices import SCRIPT, assert_same_decisions


@pytest.fixture
def installed(plugged, monkeypatch):
    """OpenVINO whose plugin lists the processor, on a machine with AMX or without."""
    (real,) = (own for own in ort.get_ep_devices() if own.ep_name == "CPUExecutionProvider")

    def install(sets=AMX, capabilities=CAPABILITIES):
        monkeypatch.setattr(openvino, "instruction_sets", lambda: sets)
        metadata = {"OPTIMIZATION_CAPABILITIES": capabilities}
        return plugged(OpenVino, SimpleNamespace(device=real.device, ep_name=real.ep_name, ep_metadata=metadata))

    return install


def test_auto_takes_it_with_amx_alone_and_fp32_stays_on_the_cpu(installed):
    for sets, capabilities, is_faster in [
        (AMX, CAPABILITIES, True),
        (AMX - {"amx_bf16"}, CAPABILITIES, False),
        (AMX, "FP32 INT8", False),
    ]:
        kind = installed(sets, capabilities)
        assert choose_device("auto") == (kind() if is_faster else CPU)
        assert choose_device("auto", is_exact=True) == CPU
        assert choose_device("openvino") == kind()
        hint = json.loads(kind.settings(0)["load_config"])["CPU"]["INFERENCE_PRECISION_HINT"]
        assert hint == ("bf16" if is_faster else "f32")
    installed()
    assert fp32_session(Opening(device="openvino"))[0] == CPU  # not in bf16 twice
    with pytest.raises(InputError, match="--device openvino --precision fp32: the device rounds otherwise"):
        choose_device("openvino", is_exact=True)


def test_each_core_has_a_stream_of_one_session(installed, mini, monkeypatch):
    device, asked = installed()(), []
    monkeypatch.setattr(ort.SessionOptions, "add_provider_for_devices", lambda _, chosen, own: asked.append(own))
    model = MaskedLM(mini, device, graph=mini.graph, threads=2)
    assert asked == [dict(device.settings(0, streams=2))]
    assert (model.precision, device.hardware()["numbers"]) == (BF16, "bf16")
    random = np.random.default_rng(0)
    ids = random.integers(5, 9_000, (70, 12)).astype(np.int32)
    batch = ids, random.integers(1, 11, 70).astype(np.int32), ids[:, 3].copy()
    found, exact = model.decide(*batch), MaskedLM(mini, CPU, graph=mini.graph).decide(*batch)
    np.testing.assert_array_equal(found.ids, exact.ids)
    np.testing.assert_allclose(found.logits, exact.logits, atol=1e-4)
    assert not found.exact.any()


def test_a_run_in_bf16_has_the_bytes_of_the_cpu_and_no_other_model_ends_it(
    installed, mini, small_lexicon, tmp_path, monkeypatch
):
    installed()
    round_to_bf16(monkeypatch.setattr)
    found = {}
    for words in ("cpu", "openvino"):
        given = {"lexicon": small_lexicon, "output": tmp_path / words, "progress": False}
        run = ng.select(ng.load(mini.folder, device=words, precision="mixed"), **given)
        found[words] = (run.folder / "triplets.parquet").read_bytes()
    assert found["cpu"] == found["openvino"]
    record = json.loads((tmp_path / "openvino" / "run.json").read_text())["stages"]["select"]
    (choice,) = record["calibration"].values()
    assert (choice["low_precision"], choice["low_precision_sha256"]) == (BF16, mini.sha256)
    assert choice["bound"] > 0.01  # bf16 has 8 bits
    models = open_models(mini, CPU, Precision.AUTO)
    with pytest.raises(InputError, match="started with the bf16 model, and this device takes the int8 model: choose"):
        open_decider(models, Precision.AUTO, choice)


@pytest.mark.everything
def test_experiments_that_are_killed_or_divided_decide_as_the_cpu_does(python, folder):
    killed = python(SCRIPT, folder, "openvino", "kill")
    assert killed.status == -9, killed.err[-2000:]
    for device in ("openvino", "cpu"):
        done = python(SCRIPT, folder, device)
        assert done.status == 0, done.err[-3000:]
    assert_same_decisions(folder, "openvino", BF16, {"atol": 0.13})  # logits below 16, cut to 8 bits


@pytest.mark.parametrize(
    ("closes", "chosen"), [({BF16: 0.03, "int8": 0.08}, BF16), ({BF16: 0.6, "int8": 0.03}, "int8")]
)
def test_calibration_chooses_what_decides_by_speed_and_close_calls(closes, chosen, installed, mini, monkeypatch):
    device = installed()()
    models = open_models(mini, device, Precision.AUTO)
    assert [own.device for own in models.deciding] == [device, CPU]
    own = {"bias": 0.0, "deviation": 0.01, "bound": 0.05, "never": (), "sentences": 1_000}
    from negengine.engine.inference import precision

    told = lambda method, low, *_, seed: mixed.Calibration(**own, close=closes[low.precision], seed=seed)  # noqa: E731
    monkeypatch.setattr(precision, "calibrate", told)
    found = choose_precisions(models, Precision.AUTO, [Workload("CpTp", lambda _: None, 10**6)], seed=0)["CpTp"]
    assert (found["precision"], found["low_precision"]) == ("mixed", chosen)
    decider = open_decider(models, Precision.AUTO, found)
    assert decider._low_precision.precision == chosen
    assert open_models(mini, device, Precision.MIXED).deciding[0].other is None  # where it is asked for by name


def test_doctor_says_what_it_would_bring(plugged, monkeypatch):
    for sets, brings in ((AMX, True), (frozenset({"avx512f"}), False)):
        plugged(OpenVino, package="nowhere")
        monkeypatch.setattr(openvino, "instruction_sets", lambda sets=sets: sets)
        said = str(doctor.diagnose()["openvino"])
        assert said.startswith(f"the plugin for OpenVINO is not installed: pip install {OpenVino.extra}")
        assert ("1.3 times as fast" in said) == brings


def test_the_plugin_itself_decides_as_the_cpu_does_in_fp32(mini, monkeypatch):
    monkeypatch.setattr(openvino, "instruction_sets", frozenset)  # no AMX: the hint is f32
    devices.kinds()
    if missing := OpenVino.missing():
        pytest.skip(f"OpenVINO: {missing}")
    if not OpenVino.is_processor(0):
        pytest.skip("the plugin lists no processor")
    ids = np.random.default_rng(0).integers(5, 9_000, (70, 12)).astype(np.int32)
    batch = ids, np.full(70, 4, np.int32), ids[:, 3].copy()
    found = MaskedLM(mini, OpenVino(), graph=mini.graph, threads=2).decide(*batch)
    np.testing.assert_allclose(found.logits, MaskedLM(mini).decide(*batch).logits, atol=1e-4)
