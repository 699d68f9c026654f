"""From PyTorch to ONNX: Optimum, where it is installed and knows the model, else PyTorch's own exporter."""

import inspect
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from onnx_ir.passes.common import ClearMetadataAndDocStringPass
from torch._dynamo.exc import UserError
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.onnx import OnnxExporterError
from transformers import PretrainedConfig, PreTrainedModel

from ..engine.basics.errors import InputError
from .families import family_of
from .graph import Graph
from .layers import in_forms_of_graphs
from .observe import told_in_one_line

try:
    from .optimum_trace import Optimum
except ImportError:  # it is not installed
    Optimum = None  # type: ignore[assignment, misc]


class Torch:
    """PyTorch's own exporter."""

    title = "PyTorch"

    def inputs(self, model: PreTrainedModel) -> Sequence[str]:
        """Those that a model's graph can have."""
        return list(inspect.signature(model.forward).parameters)

    def trace(self, model: PreTrainedModel, inputs: Sequence[str], weights: Path, _: Path, name: str) -> Graph:
        """The graph of a model in fp32 and evaluation mode; an InputError if it cannot be traced.

        The graph keeps the named inputs, int64 [batch, length]; all others take their defaults. Its output is `logits`.
        """
        fixed = {"use_cache": False} if "use_cache" in self.inputs(model) else {}
        model.config.use_cache = False  # for models that do not name it among their inputs, as Granite's
        example = tuple(torch.ones((2, 16), dtype=torch.int64) for _ in inputs)
        axes = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
        quietly = redirect_stderr(StringIO())
        told = told_in_one_line(name, "tracing it")
        with told, _told_plainly(name), torch.no_grad(), quietly, in_forms_of_graphs(model):
            given = {"dynamic_shapes": (tuple(axes for _ in inputs),), "strict": False}
            traced = torch.export.export(_Logits(model, inputs, fixed), example, **given)
            if any(getattr(node.meta.get("val"), "is_complex", bool)() for node in traced.graph.nodes):
                raise InputError(
                    f"{name} cannot be exported: it computes with complex numbers, and no operator of ONNX does"
                )
            names = {"input_names": list(inputs), "output_names": ["logits"]}
            written = torch.onnx.export(traced, **names, opset_version=18, dynamo=True, verbose=False)
        ClearMetadataAndDocStringPass()(written.model)  # lines of source files, with their folders
        graph = Graph(written.model, weights, name)
        graph.prune()
        for value in (value for node in graph.nodes for value in node.outputs if not value.is_graph_output()):
            value.shape = None  # a session that knows it fuses residual sums, by a kernel that is slower on CPUs
        found = {value: value.const_value for value in graph.initializers if value.const_value is not None}
        for value in found:
            graph.model.graph.initializers.pop(str(value.name))
        graph.keep({value: tensor.numpy for value, tensor in found.items()})
        return graph


Exporter = Torch | Optimum


@contextmanager
def _told_plainly(name: str) -> Iterator[None]:
    """Say in the user's words what PyTorch's exporter says of its own work."""
    try:
        yield
    except GuardOnDataDependentSymNode as error:
        said = "which operations it computes depends on the tokens of a text, and a graph has the same for all texts"
        raise InputError(f"{name} cannot be exported: {said}") from error
    except OnnxExporterError as error:
        lacking = re.search(r"No ONNX function found for <OpOverload\(op='([\w.:]+)'", f"{error} {error.__cause__}")
        what = f"ONNX has no operator for its {lacking[1]}" if lacking else "PyTorch cannot write its graph"
        raise InputError(f"{name} cannot be exported: {what}") from error
    except UserError as error:  # an axis that has one size only, above all
        raise InputError(f"{name} cannot be exported: PyTorch can trace it for texts of one length only") from error


class _Logits(torch.nn.Module):  # type: ignore[misc]  # PyTorch is not checked
    """A model as a function of the named inputs alone."""

    def __init__(self, model: PreTrainedModel, inputs: Sequence[str], fixed: dict[str, Any]) -> None:
        super().__init__()
        self.model, self.names, self.fixed = model, inputs, fixed

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(**dict(zip(self.names, values, strict=True)), **self.fixed).logits
        return logits


def exporter_of(name: str, config: PretrainedConfig, task: str) -> Exporter:
    """What exports a model; an InputError if nothing does for the family and the task."""
    if getattr(config, "is_encoder_decoder", False):
        said = "has an encoder and a decoder, and cannot be exported; give an encoder alone, or a decoder alone"
        raise InputError(f"{name}: a model of the family {config.model_type} {said}")
    known = None if Optimum is None or family_of(config).by_torch else Optimum.of(config, task)
    return known or Torch()


def takes_segments(exporter: Exporter, model: PreTrainedModel, tokenizer_inputs: Sequence[str]) -> bool:
    """Whether a model tells a first text from a second one by their segments."""
    # XLNet's configuration does not count its three segments: first text, second text, end.
    several = getattr(model.config, "type_vocab_size", 0) > 1 or model.config.model_type == "xlnet"
    return several and "token_type_ids" in exporter.inputs(model) and "token_type_ids" in tokenizer_inputs
