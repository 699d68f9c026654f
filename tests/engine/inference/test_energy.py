"""Energy is the sum of the packages' counters, or nothing."""

import pynvml
import pytest
from negengine.engine.inference import machine as energy
from negengine.engine.inference.device import CPU, Device
from negengine.engine.inference.machine import EnergyMeter, energy_used

GPU = Device("cuda", 0)


def zone(folder, name, what, microjoules, largest=262_143_328_850):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "name").write_text(f"{what}\n")
    (folder / name / "energy_uj").write_text(f"{microjoules}\n")
    (folder / name / "max_energy_range_uj").write_text(f"{largest}\n")


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(energy, "cuda_devices", lambda: 0)


def test_packages_are_added_and_what_is_inside_them_is_not(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 3_000_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 2_500_000)
    meter = EnergyMeter(tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 6_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 3_500_000)
    zone(tmp_path, "intel-rapl:1", "package-1", 4_500_000)
    assert meter.joules() == {"cpu": 3}


def test_readings_add_up(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    meter = EnergyMeter(tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 3_000_000)
    assert meter.joules() == {"cpu": 2}
    zone(tmp_path, "intel-rapl:0", "package-0", 3_500_000)
    assert meter.joules() == {"cpu": 2.5}


def test_a_counter_that_starts_anew_after_its_range_is_followed(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000, largest=10_000_000)
    meter = EnergyMeter(tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 2_000_000, largest=10_000_000)
    assert meter.joules() == {"cpu": 3}


def test_a_counter_that_starts_anew_without_a_known_range_gives_nothing(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000)
    meter = EnergyMeter(tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 2_000_000, largest="")
    assert meter.joules() == {}


def test_a_counter_that_cannot_be_read_gives_nothing(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0", "no number")
    assert EnergyMeter(tmp_path).joules() == {}
    with energy_used([CPU], tmp_path) as used:
        pass
    assert used == [None]


def test_energy_of_this_machine_is_a_number_or_nothing():
    with energy_used() as used:
        sum(range(1000))
    assert used[0] is None or used[0] >= 0


@pytest.fixture
def gpu(monkeypatch):
    """A GPU that CUDA calls 0 and NVML knows by its address; it uses 3 J between two readings."""
    counter = iter([1_000, 4_000])
    handles = {"0000:C1:00.0": "handle"}
    monkeypatch.setattr(energy, "cuda_devices", lambda: 2)
    monkeypatch.setattr(energy, "cuda_bus_address", lambda index: "0000:C1:00.0" if index == 0 else None)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByPciBusId", handles.__getitem__)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", lambda _: next(counter))


@pytest.mark.usefixtures("gpu")
def test_energy_of_a_gpu_is_that_of_the_device_at_its_address(tmp_path):
    with energy_used([GPU], tmp_path) as used:
        pass
    assert used == [3]


@pytest.mark.usefixtures("gpu")
def test_a_gpu_that_the_driver_does_not_know_has_no_energy(tmp_path):
    with energy_used([Device("cuda", 1)], tmp_path) as used:
        pass
    assert used == [None]


@pytest.mark.usefixtures("gpu")
def test_a_gpu_without_a_counter_has_no_energy(monkeypatch, tmp_path):
    def refuse(_):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", refuse)
    with energy_used([GPU], tmp_path) as used:
        pass
    assert used == [None]
