"""`doctor`: what works on this machine, what is missing, and what to do about it; by names and states for programs."""

import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.metadata import metadata, requires
from typing import Annotated

import click
from packaging.requirements import Requirement

from ..basics.errors import InputError, did_you_mean
from ..basics.limits import cpu_threads
from ..basics.option import Argument
from ..basics.versions import DECIDING, package_version, requirement, versions
from . import options
from .console import document, show
from .program import command


class State(StrEnum):
    """Whether something can be used."""

    OK = "ok"
    MISSING = "missing"
    WRONG = "wrong"


@dataclass(frozen=True)
class Found:
    """What was found of one thing."""

    said: str
    state: State = State.OK
    repair: str = ""  # what to do where it is not ok

    def __str__(self) -> str:
        return self.said + (f": {self.repair}" if self.repair else "")


_EXPORTING = ("optimum-onnx-naf", "torch", "transformers")
_RUNTIMES = {"cpu", "gpu", "cuda", "webgpu", "openvino"}  # of ONNX Runtime and its plugins; devices have own rows


_NAMES = "What must be ok, such as report or cuda; if it is not, the status is 1."


@command
def doctor(
    names: Annotated[list[str] | None, Argument(_NAMES, "NAME...")] = None,
    as_json: options.Json = False,
) -> None:
    """Check what works on this machine, and what is missing.

    Example: negengine doctor export report
    """
    found = diagnose()
    for name in names or ():
        if name not in found:
            raise InputError(f"{name}: {did_you_mean(name, found)}`negengine doctor` knows {', '.join(found)}")
    if as_json:
        document({name: asdict(one) for name, one in found.items()})
    else:
        width = max(map(len, found))
        show("\n".join(f"{name:{width}}  {one}" for name, one in found.items()))
    always = ("negengine", "onnxruntime")  # these must be ok for any command
    if any(found[name].state is not State.OK for name in {*always, *(names or ())}):
        raise click.exceptions.Exit(1)


def diagnose() -> dict[str, Found]:
    """Name → what was found, in the order in which it is shown."""
    builds = versions(("onnxruntime-gpu", "onnxruntime"))
    said = ", ".join(f"{name} {version}" for name, version in builds.items())
    runtime = Found(said)
    if not builds:
        runtime = Found("missing", State.MISSING, f"pip install {requirement('cpu')}, or {requirement('gpu')}")
    elif len(builds) > 1:
        runtime = Found(said, State.WRONG, "the two share one folder: uninstall both, then install one")
    found = {
        "python": Found(f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        "negengine": _installed("", package_version("negengine") or ""),
        "onnxruntime": runtime,
    }
    found |= {name: Found(own) for name, own in versions(DECIDING).items() if not name.startswith("onnxruntime")}
    extras = [extra for extra in metadata("negengine").get_all("Provides-Extra", []) if extra not in _RUNTIMES]
    having = ", ".join(f"{name} {version}" for name, version in versions(_EXPORTING).items())
    ready = {"export": f"Optimum and PyTorch's exporter ({having})"}
    found |= {extra: _installed(extra, ready.get(extra, "ready")) for extra in extras}
    off = os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    found["telemetry"] = (
        Found("off") if off else Found("on, as ORT_DISABLE_TELEMETRY is not 1", State.WRONG, "remove the variable")
    )
    if found["onnxruntime"].state is State.MISSING:  # what follows imports it
        needed = Found("needs ONNX Runtime", State.MISSING)
        return found | dict.fromkeys((*sorted(_RUNTIMES - {"gpu"}), "device auto", "models"), needed)
    from ..inference.device import choose_device, kinds
    from ..inference.devices.cpu import Cpu
    from ..inference.exported import exported_names

    found["cpu"] = Found(f"{cpu_threads()} cores for this process")
    for kind in (own for own in kinds().values() if own is not Cpu):
        if lacking := kind.missing():
            found[kind.kind] = Found(lacking, State.MISSING)
            continue
        told = []
        for device in map(kind, range(kind.count())):
            known = device.hardware()
            memory = f"{known['memory GiB']} GiB" if "memory GiB" in known else "memory not told by the driver"
            limits = [memory, known.get("numbers", ""), f"batches of at most {device.batch_tokens:,} tokens"]
            told.append(f"{device} ({', '.join(filter(None, [known.get('hardware', ''), *limits]))})")
        found[kind.kind] = Found("; ".join(told))
    found["device auto"] = Found(str(choose_device("auto")))
    names = ", ".join(exported_names())
    found["models"] = Found(names) if names else Found("none", State.MISSING, "run `negengine export`")
    return found


def _installed(extra: str, ready: str) -> Found:
    """Whether what negengine needs for an extra is installed; without a name, for itself."""
    lacking = ", ".join(dict.fromkeys(_lacking("negengine", extra)))
    return Found(f"{lacking} missing", State.MISSING, f"pip install {requirement(extra)}") if lacking else Found(ready)


def _lacking(package: str, extra: str) -> Iterator[str]:
    """Packages that are not installed, or in a version that does not fit."""
    for need in map(Requirement, requires(package) or ()):
        always, here = (need.marker is None or need.marker.evaluate({"extra": name}) for name in ("", extra))
        if not here or (extra and always) or need.name.startswith("onnxruntime"):  # of which any build will do
            continue
        version = package_version(need.name)
        if version is None or not need.specifier.contains(version, prereleases=True):
            yield f"{need.name}{need.specifier if version else ''}"
        for inner in need.extras:
            yield from _lacking(need.name, inner)
