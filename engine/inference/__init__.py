"""Token ids to decisions: exported models, devices, batches, precision."""

from importlib.util import find_spec

from ..basics.errors import InputError
from ..basics.versions import requirement

if find_spec("onnxruntime") is None:  # the package asks for neither build: see pyproject.toml
    raise InputError(
        f"ONNX Runtime is missing: pip install {requirement('cpu')}, or {requirement('gpu')} for an NVIDIA GPU"
    )
