"""Energy is the sum of the packages' counters, or nothing."""

import pynvml
import pytest
from negengine.bench import energy
from negengine.bench.energy import _difference, _processor, energy_used
from negengine.engine.inference.device import Device


def _zone(folder, zone, name, microjoules):
    (folder / zone).mkdir()
    (folder / zone / "name").write_text(f"{name}\n")
    (folder / zone / "energy_uj").write_text(f"{microjoules}\n")


def test_packages_are_added_and_what_is_inside_them_is_not(tmp_path):
    _zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    _zone(tmp_path, "intel-rapl:0:0", "core", 3_000_000)
    _zone(tmp_path, "intel-rapl:1", "package-1", 2_500_000)
    assert _processor(tmp_path) == {"intel-rapl:0": 5, "intel-rapl:1": 2.5}


def test_a_counter_that_cannot_be_read_gives_nothing(tmp_path):
    _zone(tmp_path, "intel-rapl:0", "package-0", "no number")
    assert _processor(tmp_path) == {}


def test_readings_are_subtracted():
    assert _difference({"a": 1.0, "b": 5.0}, {"a": 3.0, "b": 5.5}) == 2.5


def test_a_counter_that_started_anew_gives_nothing():
    assert _difference({"a": 9.0}, {"a": 3.0}) is None


def test_energy_of_this_machine_is_a_number_or_nothing():
    with energy_used() as used:
        sum(range(1000))
    assert used[0] is None or used[0] >= 0


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that CUDA calls 0 and NVML knows by its address; it uses 3 J between two readings."""
    counter = iter([1_000, 4_000])
    handles = {"0000:C1:00.0": "handle"}
    monkeypatch.setattr(energy, "cuda_bus_address", lambda index: "0000:C1:00.0" if index == 0 else None)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByPciBusId", handles.__getitem__)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", lambda _: next(counter))


@pytest.mark.usefixtures("gpu")
def test_energy_of_a_gpu_is_that_of_the_device_at_its_address():
    with energy_used(Device("cuda", 0)) as used:
        pass
    assert used == [3]


@pytest.mark.usefixtures("gpu")
def test_a_gpu_that_the_driver_does_not_know_has_no_energy():
    with energy_used(Device("cuda", 1)) as used:
        pass
    assert used == [None]


@pytest.mark.usefixtures("gpu")
def test_a_gpu_without_a_counter_has_no_energy(monkeypatch):
    def refuse(_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", refuse)
    with energy_used(Device("cuda", 0)) as used:
        pass
    assert used == [None]
