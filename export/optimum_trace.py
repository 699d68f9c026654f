"""Optimum's exporter: its configuration of the family, and PyTorch's tracer.

PyTorch would hold the weights in memory four times. Here it writes the graph alone; every weight is an input of it.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx_ir as ir
import torch
from optimum.exporters.onnx import OnnxConfig, model_patcher
from optimum.exporters.onnx import model_configs as _registered  # noqa: F401 - fills the table of families
from optimum.exporters.tasks import TasksManager
from optimum.utils import DEFAULT_DUMMY_SHAPES
from transformers import PretrainedConfig, PreTrainedModel
from transformers.masking_utils import eager_mask, sdpa_mask

from .graph import Graph
from .observe import told_in_one_line

# Optimum's own masks lack an argument of transformers 5.4 and later, whose masks can be traced as they are.
model_patcher.eager_mask_without_vmap, model_patcher.sdpa_mask_without_vmap = eager_mask, sdpa_mask
OPSET = 17  # the first with LayerNormalization; ONNX Runtime's fusions know it well
_INFER = "_jit_pass_onnx_graph_shape_type_inference"
_FEW = 1024  # numbers of a tensor that may say a shape


@contextmanager
def _weights_unread() -> Iterator[None]:
    """Let PyTorch infer shapes from those of the weights: it would copy all their numbers, several times."""
    infer = getattr(torch._C, _INFER, None)  # noqa: SLF001
    if infer is None:  # another version of PyTorch
        yield
        return

    def from_shapes(graph: Any, given: dict[str, torch.Tensor], *further: Any) -> None:
        infer(graph, {name: own for name, own in given.items() if own.numel() <= _FEW}, *further)

    setattr(torch._C, _INFER, from_shapes)  # noqa: SLF001
    try:
        yield
    finally:
        setattr(torch._C, _INFER, infer)  # noqa: SLF001


class Optimum:
    """The exporter of the families and tasks that Optimum describes."""

    title = "Optimum"

    def __init__(self, description: Callable[..., OnnxConfig], task: str) -> None:
        self._description, self._task = description, task

    @classmethod
    def of(cls, config: PretrainedConfig, task: str) -> "Optimum | None":
        asked = {"model_type": config.model_type, "task": task, "library_name": "transformers"}
        try:
            return cls(TasksManager.get_exporter_config_constructor("onnx", **asked), task)
        except (KeyError, ValueError):
            return None

    def inputs(self, model: PreTrainedModel) -> Sequence[str]:
        return list(self._description(model.config, task=self._task).inputs)

    def trace(self, model: PreTrainedModel, inputs: Sequence[str], weights: Path, workspace: Path, name: str) -> Graph:
        config = self._description(model.config, task=self._task)
        axes = {text: {0: "batch", 1: "length"} for text in inputs}
        config.__class__ = type("FewInputs", (type(config),), {"inputs": property(lambda _: axes)})
        path = workspace / "traced.onnx"
        TasksManager.standardize_model_attributes(model)
        for key, value in (config.values_override or {}).items():
            setattr(model.config, key, value)
        # The tracer would turn this number into an input of the graph; 0 keeps all rows.
        fixed = {"logits_to_keep": 0} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
        told = told_in_one_line(name, "tracing it")
        with told, torch.no_grad(), _weights_unread(), config.patch_model_for_export(model, fixed):
            example = config.generate_dummy_inputs(framework="pt", **DEFAULT_DUMMY_SHAPES)
            torch.onnx.export(
                model,
                (config.rename_ambiguous_inputs(example),),
                f=str(path),
                input_names=list(config.ordered_inputs(model)),
                output_names=list(config.outputs),
                dynamic_axes={**axes, **config.outputs},
                do_constant_folding=False,  # would hold a second copy of the weights
                export_params=False,
                opset_version=OPSET,
                dynamo=False,
            )
        graph = Graph(ir.load(path), weights, name)
        # Every input that is a weight becomes an initializer in the file of weights; a shared weight is one input.
        named = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
        found = [value for value in graph.model.graph.inputs if str(value.name) not in inputs]
        for value in found:
            graph.model.graph.inputs.remove(value)
        read = [value for value in found if value.uses() or value.is_graph_output()]  # else it was a fixed argument
        graph.keep({value: named[str(value.name)].detach().numpy for value in read})
        graph.prune()
        return graph
