"""Tiny checkpoints of every family, with random weights, made in the tests: there is no download anywhere."""

import io
import shutil
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import onnx_ir as ir
import pytest
import torch
from huggingface_hub import constants
from huggingface_hub.utils import _http, close_session
from negengine.engine.inference.exported import ExportedModel, load_exported
from negengine.export.build import build
from negengine.export.graph import Graph
from negengine.export.observe import observe
from negengine.export.passes.context import Context
from negengine.export.quiet import quiet
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx.parser import parse_model
from tiny_checkpoints import save, save_classifier

from .families import ROWS, save_tiny, tokenizer_json
from .further import save_further

torch.set_num_threads(1)  # the models are so small that threads would wait for each other most of the time


def context(**known) -> Context:
    """What passes on a small graph are told; `known` overrides."""
    plain = {"vocabulary": 50, "padding_id": None, "longest": 40, "layers": 0, "labels": 50, "family": "small"}
    return Context(**plain | {"standard_attention": False, "has_compared_all": True} | known)


def graph_of(text: str, **constants: NDArray[Any]) -> Graph:
    """A graph in ONNX's text syntax, `(inputs) => (outputs) { nodes }`, and its constants."""
    made = parse_model(f'<ir_version: 8, opset_import: ["" : 17]> small {text}')
    made.graph.initializer.extend(numpy_helper.from_array(values, name) for name, values in constants.items())
    return Graph(ir.from_proto(made))


def traced(compute: Callable[[torch.Tensor], torch.Tensor]) -> Graph:
    """A function of ids, int64 [B, L], to logits as PyTorch's tracer writes it."""
    stream, axes, module = io.BytesIO(), {0: "batch", 1: "length"}, torch.nn.Module()
    module.forward = compute
    with quiet():
        torch.onnx.export(
            *(module, (torch.zeros(2, 7, dtype=torch.int64),), stream),
            input_names=["input_ids"],
            output_names=["logits"],
            dynamic_axes={"input_ids": axes, "logits": axes},
            do_constant_folding=False,
            opset_version=17,
            dynamo=False,
        )
    return Graph(ir.from_proto(onnx.load_from_string(stream.getvalue())))


def values_of(graph: Graph, feeds) -> NDArray[Any]:
    """The logits that a graph computes."""
    return observe(graph, [feeds], [graph.outputs["logits"]])[0][graph.outputs["logits"]]


def operators(graph: Graph) -> dict[str, int]:
    return Counter(node.op_type for node in graph.nodes)


@pytest.fixture(scope="session")
def checkpoint(once) -> Callable[[str], Path]:
    """A folder with a tiny checkpoint of a row of `families`, or of a further family."""

    def make(name: str) -> Path:
        save = partial(save_tiny, ROWS[name]) if name in ROWS else partial(save_further, name)
        return once(f"checkpoint-{name}", save)

    return make


@pytest.fixture
def copy(checkpoint, tmp_path) -> Path:
    """A checkpoint of its own to damage: the BERT, with a tokenizer.json."""
    folder = Path(shutil.copytree(checkpoint("bert"), tmp_path / "tiny"))
    (folder / "vocab.txt").unlink()
    tokenizer_json(folder, "bert")
    return folder


@pytest.fixture(scope="session")
def exported(checkpoint, once) -> Callable[[str], Path]:
    """The same, exported."""
    return lambda row: once(f"exported-{row}", lambda folder: build(str(checkpoint(row)), folder))


@pytest.fixture
def saved(tmp_path):
    """A model that a function makes with its tokenizer, and the folder that transformers saved both in."""

    def make(family, **sizes):
        model, words = family(**sizes)
        return model, save(tmp_path / "tiny", model, words)

    return make


@pytest.fixture(scope="session")
def classifier(once) -> Callable[[str, str], tuple[Path, ExportedModel]]:
    """Task and family → a tiny checkpoint with a head for the task, and the same exported."""

    def make(task: str, family: str) -> tuple[Path, ExportedModel]:
        made = once(f"{task}-{family}", lambda folder: save_classifier(folder / family, family, task=task))
        checkpoint = made / family
        folder = once(f"exported-{task}-{family}", lambda folder: build(str(checkpoint), folder, task=task))
        return checkpoint, load_exported(folder, task=task)

    return make


@pytest.fixture
def use_hub(tmp_path, monkeypatch):
    """Lets the hub's library ask an address, or be offline, with a cache of its own."""
    cache = str(tmp_path / "hf" / "hub")

    def use(address, *, offline=False):
        template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        for name, value in {"ENDPOINT": address, "HF_HUB_CACHE": cache, "HF_HUB_OFFLINE": offline}.items():
            monkeypatch.setattr(constants, name, value)
        close_session()  # they know whether the library is offline

    impatient = SimpleNamespace(**{**vars(time), "sleep": lambda _: None})
    monkeypatch.setattr(_http, "time", impatient)  # it waits 23 seconds for an address that does not answer
    yield use
    monkeypatch.undo()
    close_session()
