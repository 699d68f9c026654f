"""From PyTorch to ONNX: Optimum's configuration of the family, PyTorch's tracer, and the weights beside the graph.

PyTorch would write a graph with its weights inside, for which it holds them in memory four times. Here it writes the
graph alone, in which every weight is an input. Then the weights are written to their file one by one, read from the
model's own memory, which for a checkpoint in safetensors is the mapped file.

A linear layer multiplies by its transposed weight. The transposed form is what is written, unless something else reads
the weight too (the word embeddings, which are also the vocabulary projection of most models).
"""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

import onnx_ir as ir
import torch
from optimum.exporters.onnx import OnnxConfig
from optimum.exporters.onnx import model_configs as _registered  # noqa: F401 - fills the table of families
from optimum.exporters.onnx.config import TextEncoderOnnxConfig
from optimum.exporters.tasks import TasksManager
from optimum.utils import DEFAULT_DUMMY_SHAPES, NormalizedTextConfig
from transformers import PretrainedConfig, PreTrainedModel

from ..engine.basics.errors import InputError
from ..engine.basics.versions import versions
from .graph import Graph, attribute
from .observe import told_in_one_line

OPSET = 17  # the first with LayerNormalization; ONNX Runtime's fusions know it well

_TRIED = ("optimum-onnx", "transformers", "torch")  # the packages that decide what can be exported


class _XLNet(TextEncoderOnnxConfig):  # type: ignore[misc]  # Optimum has no types
    """Optimum has no description of XLNet; this one is as BERT's."""

    NORMALIZED_CONFIG_CLASS = NormalizedTextConfig

    @property
    def inputs(self) -> dict[str, dict[int, str]]:
        axes = {0: "batch_size", 1: "sequence_length"}
        return {"input_ids": axes, "attention_mask": axes, "token_type_ids": axes}


_OWN = {("xlnet", "text-classification"): _XLNet}
_THREE_SEGMENTS = ("xlnet",)  # whose configuration does not count segments: first text, second text, end

_FIXED = {"logits_to_keep": 0}  # numbers that PyTorch's tracer would turn into inputs of the graph; 0 keeps all rows


class Optimum:
    """The exporter of the families and tasks that Optimum describes.

    Another exporter has the same name, questions and `trace`, and `exporter_of` chooses between them.
    """

    title = "Optimum"

    def __init__(self, description: Callable[..., OnnxConfig], task: str) -> None:
        self._description, self._task = description, task

    def takes_segments(self, config: PretrainedConfig, tokenizer_inputs: Sequence[str]) -> bool:
        """Whether the model tells a first text from a second one by their segments."""
        several = getattr(config, "type_vocab_size", 0) > 1 or config.model_type in _THREE_SEGMENTS
        inputs = self._description(config, task=self._task).inputs
        return several and "token_type_ids" in inputs and "token_type_ids" in tokenizer_inputs

    def trace(self, model: PreTrainedModel, inputs: Sequence[str], weights: Path, workspace: Path, name: str) -> Graph:
        """The graph of a model in fp32 and evaluation mode; an InputError if PyTorch cannot trace it.

        The graph keeps the named inputs, int64 [batch, length]; all others take their defaults.
        """
        config = self._description(model.config, task=self._task)
        return _trace(model, config, inputs, weights, workspace, name)


def exporter_of(name: str, config: PretrainedConfig, task: str) -> Optimum:
    """What exports a model; an InputError if nothing does for the family and the task."""
    try:
        return Optimum(
            TasksManager.get_exporter_config_constructor(
                "onnx", model_type=config.model_type, task=task, library_name="transformers"
            ),
            task,
        )
    except (KeyError, ValueError):
        if (own := _OWN.get((config.model_type, task))) is not None:
            return Optimum(own, task)
        if getattr(config, "is_encoder_decoder", False):
            raise InputError(
                f"{name}: a model of the family {config.model_type} has an encoder and a decoder, and cannot be "
                "exported; give a masked or a causal language model"
            ) from None
        tried = ", ".join(f"{package} {found}" for package, found in versions(_TRIED).items())
        raise InputError(
            f"{name}: Optimum has no {task} export for the family {config.model_type} (tried: {tried})"
        ) from None


def _trace(
    model: PreTrainedModel, config: OnnxConfig, inputs: Sequence[str], weights: Path, workspace: Path, name: str
) -> Graph:
    axes = {text: {0: "batch", 1: "length"} for text in inputs}
    config.__class__ = type("FewInputs", (type(config),), {"inputs": property(lambda _: axes)})
    path = workspace / "traced.onnx"
    TasksManager.standardize_model_attributes(model)
    for key, value in (config.values_override or {}).items():
        setattr(model.config, key, value)
    fixed = {key: value for key, value in _FIXED.items() if key in inspect.signature(model.forward).parameters}
    with told_in_one_line(name, "tracing it"), torch.no_grad(), config.patch_model_for_export(model, fixed):
        example = config.rename_ambiguous_inputs(config.generate_dummy_inputs(framework="pt", **DEFAULT_DUMMY_SHAPES))
        torch.onnx.export(
            model,
            (example,),
            f=str(path),
            input_names=list(config.ordered_inputs(model)),
            output_names=list(config.outputs),
            dynamic_axes={**axes, **config.outputs},
            do_constant_folding=False,  # would hold a second copy of the weights; `_write_weights` folds what matters
            export_params=False,
            opset_version=OPSET,
            dynamo=False,
        )
    graph = Graph(ir.load(path), weights, name)
    _write_weights(graph, model, inputs)
    graph.prune()
    return graph


def _write_weights(graph: Graph, model: PreTrainedModel, inputs: Sequence[str]) -> None:
    """Turn every input that is a weight into an initializer in the file of weights; a shared weight is one input."""
    tensors = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    for value in list(graph.model.graph.inputs):
        name = str(value.name)
        if name in inputs:
            continue
        graph.model.graph.inputs.remove(value)
        if not value.uses() and not value.is_graph_output():  # the trace of an argument that is fixed
            continue
        values = tensors[name].detach().numpy()
        order = _only_transposed(value)
        if order is not None:
            for node in list(value.consumers()):
                node.outputs[0].replace_all_uses_with(value)
                graph.model.graph.remove(node, safe=True)
            values = values.transpose(order)
        elif _is_transposed_by_products(value):
            for node in value.consumers():
                del node.attributes["transB"]
            values = values.T
        graph.keep(value, values)


def _is_transposed_by_products(value: ir.Value) -> bool:
    """Whether all that is done with a weight is to multiply by its transposed form (Gemm with transB)."""
    uses = value.uses()
    products = all(node.op_type == "Gemm" and index == 1 and attribute(node, "transB", 0) == 1 for node, index in uses)
    return bool(uses) and products and not value.is_graph_output()


def _only_transposed(value: ir.Value) -> list[int] | None:
    """The order of axes if all that is done with a weight is to transpose it in that one way."""
    nodes = value.consumers()
    if not nodes or value.is_graph_output() or any(node.op_type != "Transpose" for node in nodes):
        return None
    if any(node.outputs[0].is_graph_output() for node in nodes):
        return None
    orders = [attribute(node, "perm") for node in nodes]
    return list(orders[0]) if orders[0] is not None and all(order == orders[0] for order in orders) else None
