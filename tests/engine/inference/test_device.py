"""The devices that `--device` names, chosen without opening a model."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.inference import device as devices
from negengine.engine.inference.device import CPU, Device, choose_device, choose_devices, threads_each


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(devices, "missing_for_cuda", lambda: None)
    monkeypatch.setattr(devices, "cuda_devices", lambda: 2)


@pytest.fixture
def five_cores(monkeypatch):
    monkeypatch.setattr(devices, "cpu_threads", lambda: 5)


def test_cuda_without_a_device_is_an_error_and_auto_takes_the_cpu(monkeypatch):
    monkeypatch.setattr(devices, "cuda_devices", lambda: 0)
    assert choose_device("auto") == CPU
    with pytest.raises(InputError, match=r"--device cuda:1: .*CUDA"):
        choose_device("cuda:1")


@pytest.mark.usefixtures("two_gpus")
def test_a_cuda_index_beyond_the_devices_is_an_error():
    assert str(choose_device("cuda:1")) == "cuda:1"
    with pytest.raises(InputError, match="the driver lists 2, up to cuda:1"):
        choose_device("cuda:2")


@pytest.mark.parametrize("word", ["gpu", "cuda:", "cuda:x", "CPU", "", "cuda:-1", "cpu:0"])
def test_an_unknown_device_is_an_error(word):
    with pytest.raises(InputError, match="give auto, cpu, cuda or cuda:INDEX"):
        choose_device(word)


@pytest.mark.usefixtures("two_gpus")
def test_several_devices_by_comma():
    assert choose_devices("cpu") == (CPU,)
    assert choose_devices("auto") == (Device("cuda", 0),)
    assert choose_devices("cpu,cpu") == (CPU, CPU)
    assert choose_devices("cuda:1, cuda:0,cpu") == (Device("cuda", 1), Device("cuda", 0), CPU)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("cpu,auto", "auto stands for one device"),
        ("cuda,cpu,cuda:0", "cuda:0 is given 2 times"),
        ("cpu,", "give auto, cpu, cuda or cuda:INDEX"),
        ("cuda:0,cuda:2", "--device cuda:2: no such device"),
    ],
)
def test_several_devices_that_cannot_be(words, reason):
    with pytest.raises(InputError, match=reason):
        choose_devices(words)


@pytest.mark.usefixtures("five_cores")
def test_several_cpus_share_the_cores():
    """Each used to take all of them."""
    assert threads_each([CPU]) == (5,)
    assert threads_each([CPU, CPU]) == (3, 2)
    assert threads_each([CPU, Device("cuda"), CPU]) == (3, None, 2)
    assert threads_each([CPU] * 7) == (1,) * 7


@pytest.mark.usefixtures("five_cores")
def test_threads_that_the_user_gives_are_those_of_each_device():
    assert threads_each([CPU, CPU], 4) == (4, 4)
