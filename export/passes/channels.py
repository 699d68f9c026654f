"""Measure how large each channel becomes on real sentences, for the int8 passes that treat outlying channels apart.

One run over the context's batches measures what all of them need: normalised values and activated ones. Demands a
finished graph.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from ..graph import Graph
from ..observe import channel_peaks
from .context import Context
from .products import becomes_int8, mask_row_values

_KEY = "largest magnitude of each channel"


def measure_channels(graph: Graph, context: Context) -> Mapping[str, Any]:
    """See the module."""
    rows = mask_row_values(graph)
    inputs = (node.inputs[0] for node in graph.nodes if becomes_int8(node, rows))
    wanted = [value for value in inputs if value is not None and value.producer() is not None]
    for value, peaks in channel_peaks(graph, context.batches, wanted).items():
        value.meta[_KEY] = peaks
    return {}


def peaks_of(value: ir.Value) -> NDArray[np.float32]:
    """The largest magnitude of each channel of an input of a product that becomes int8, float32 [channels]."""
    peaks: NDArray[np.float32] = value.meta[_KEY]
    return peaks
