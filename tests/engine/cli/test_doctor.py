"""What `negengine doctor` finds, and what it says to do."""

from importlib.metadata import PackageNotFoundError

import pytest
from negengine.engine.basics import versions
from negengine.engine.cli import model_commands as findings
from negengine.engine.inference import device


@pytest.fixture
def packages(monkeypatch):
    """The packages that are installed; all by default."""
    absent: set[str] = {"onnxruntime"}

    def version(name):
        if name in absent:
            raise PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(versions, "version", version)
    return absent


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_what_is_missing_or_too_much_is_told_with_what_to_do(packages, monkeypatch):
    monkeypatch.setattr(device, "cuda_devices", lambda: 0)
    packages |= {"torch", "onnx"}
    found = findings.diagnose()
    assert found["export"] == "torch, onnx missing: pip install 'negengine[export]'"
    assert found["models"] == "none: run `negengine export`"
    assert found["device auto"] == "cpu"
    assert "CUDA" in found["cuda"]
    assert "conflict" not in found
    packages.clear()  # both builds of ONNX Runtime
    assert "uninstall both" in findings.diagnose()["conflict"]


@pytest.mark.usefixtures("packages")
def test_cuda_devices_are_listed_with_their_memory(monkeypatch):
    monkeypatch.setattr(device, "cuda_devices", lambda: 2)
    monkeypatch.setattr(device, "missing_for_cuda", lambda: None)
    monkeypatch.setattr(device, "cuda_memory", {0: 140 << 30, 1: None}.get)
    found = findings.diagnose()
    assert found["cuda"] == "cuda:0 with 140 GiB, cuda:1"
    assert found["device auto"] == "cuda:0"
    assert found["export"] == "ready"
