"""The checkpoint in PyTorch: the engine asks the exporter for it, and only if a user does."""

from ...extras import needs_extra
from ...inference.exported import ExportedModel
from .reference import Reference


def torch_reference(checkpoint: str, exported: ExportedModel) -> Reference:
    """Load the checkpoint that a model was exported from.

    Args:
        checkpoint: A local folder, a hub id, or `mini`.
        exported: The model.

    Raises:
        InputError: Packages are missing, or the checkpoint is missing, damaged or another one.
    """
    with needs_extra("export", "--torch"):
        from ....export.reference import torch_reference as load
    return load(checkpoint, exported)
