"""`negengine doctor`: what runs here, and what is missing for the rest."""

import platform
from importlib.metadata import PackageNotFoundError, version

import onnxruntime as ort

from ..inference.device import choose_device, cpu_threads, missing_for_cuda
from ..inference.driver import cuda_devices
from ..inference.exported import exported_names

_PACKAGES = ("negengine", "onnxruntime-gpu", "onnxruntime", "numpy", "polars", "scipy", "tokenizers")
_EXPORT_PACKAGES = ("optimum-onnx", "transformers", "torch", "accelerate", "onnx")


def diagnose() -> dict[str, str]:
    """What was found, each with its remedy where something is missing; in the order to show it."""
    found = {"python": f"{platform.python_version()} on {platform.system()} {platform.machine()}"}
    found |= {name: found_version for name in _PACKAGES if (found_version := _version(name))}
    if "onnxruntime" in found and "onnxruntime-gpu" in found:
        found["conflict"] = "onnxruntime and onnxruntime-gpu share one folder: uninstall both, then install one"
    lacking = [name for name in _EXPORT_PACKAGES if not _version(name)]
    found["export"] = f"lacks {', '.join(lacking)}: pip install 'negengine[export]'" if lacking else "ready"
    found["cpu"] = f"{cpu_threads()} cores for this process"
    found["cuda"] = missing_for_cuda() or f"{cuda_devices()} devices; ONNX Runtime {ort.__version__}"
    found["device auto"] = str(choose_device("auto"))
    found["models"] = ", ".join(exported_names()) or "none: run `negengine export`"
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
