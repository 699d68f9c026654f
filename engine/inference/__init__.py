"""Token ids to decisions: exported models, devices, batches, precision."""

from importlib.util import find_spec

from ..basics.errors import InputError

if find_spec("onnxruntime") is None:  # the package asks for neither build: see pyproject.toml
    raise InputError("ONNX Runtime is missing: pip install 'negengine[cpu]', or 'negengine[gpu]' for an NVIDIA GPU")
