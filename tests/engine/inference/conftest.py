"""A device of a plugin without the plugin: its package is an object, and so are the devices that it lists."""

import itertools
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from unittest.mock import Mock

import onnxruntime as ort
import pytest
from negengine.engine.inference import device as devices

from .on_devices import write_inputs

CPU_KERNELS = "CPUExecutionProvider"  # what computes in place of the plugin
NUMBERS = itertools.count()


@pytest.fixture
def plugged(monkeypatch):
    """Makes a kind of device whose plugin lists these devices, or is an error; beside it there is the CPU alone.

    Each is of a package of its own, so nothing is remembered from one to the next. A session computes with ONNX
    Runtime's own kernels; or these are what opening one gives, in turn.
    """
    known = dict(devices.kinds())

    def plug(kind, *listed, opened=None, is_known=True, **attributes):
        package = ModuleType(f"a_plugin_{next(NUMBERS)}")
        package.get_library_path, package.get_ep_name = lambda: "lib.so", lambda: CPU_KERNELS
        package.__spec__ = ModuleSpec(package.__name__, None)
        monkeypatch.setitem(sys.modules, package.__name__, package)
        failing = [own for own in listed if isinstance(own, Exception)]
        monkeypatch.setattr(ort, "register_execution_provider_library", Mock(side_effect=failing or None))
        monkeypatch.setattr(ort, "get_ep_devices", lambda: listed)
        monkeypatch.setattr(ort.SessionOptions, "add_provider_for_devices", lambda *_: None)
        if opened is not None:
            monkeypatch.setattr(ort, "InferenceSession", Mock(side_effect=opened))
        own = type(kind.__name__, (kind,), {"package": package.__name__, **attributes})
        if is_known:
            monkeypatch.setattr(devices, "kinds", lambda: {"cpu": known["cpu"], own.kind: own})
        return own

    return plug


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Three tiny models, and what they are asked on each device."""
    made = tmp_path_factory.mktemp("devices")
    write_inputs(made)
    return made
