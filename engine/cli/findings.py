"""What `negengine doctor` finds: what works on this machine, and how to fix what does not."""

import platform

from ..basics.versions import package_version, versions
from ..inference.device import Device, choose_device, cpu_threads, cuda_devices, cuda_memory, missing_for_cuda
from ..inference.exported import exported_names

_PACKAGES = ("negengine", "onnxruntime-gpu", "onnxruntime", "numpy", "polars", "scipy", "tokenizers")
_EXPORT_PACKAGES = ("optimum-onnx", "transformers", "torch", "accelerate", "onnx")


def diagnose() -> dict[str, str]:
    """The findings in their order. If something is missing, its text says what to do."""
    found = {"python": f"{platform.python_version()} on {platform.system()} {platform.machine()}"}
    found |= versions(_PACKAGES)
    if "onnxruntime" in found and "onnxruntime-gpu" in found:
        found["conflict"] = "onnxruntime and onnxruntime-gpu share one folder: uninstall both, then install one"
    missing = [name for name in _EXPORT_PACKAGES if package_version(name) is None]
    found["export"] = f"{', '.join(missing)} missing: pip install 'negengine[export]'" if missing else "ready"
    found["cpu"] = f"{cpu_threads()} cores for this process"
    found["cuda"] = missing_for_cuda() or ", ".join(map(_cuda_device, range(cuda_devices())))
    found["device auto"] = str(choose_device("auto"))
    found["models"] = ", ".join(exported_names()) or "none: run `negengine export`"
    return found


def _cuda_device(index: int) -> str:
    memory = cuda_memory(index)
    return str(Device("cuda", index)) + (f" with {memory / 2**30:.0f} GiB" if memory else "")
