"""Tiny checkpoints of every family, with random weights, made in the tests: there is no download anywhere."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
import torch
from negengine.export.graph import Graph
from negengine.export.observe import observe
from negengine.export.passes import Context
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from transformers import (
    AlbertConfig,
    AutoModelForMaskedLM,
    BertConfig,
    CamembertConfig,
    DebertaConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    EsmConfig,
    IBertConfig,
    ModernBertConfig,
    MPNetConfig,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RoFormerConfig,
    XLMRobertaConfig,
)

torch.set_num_threads(1)  # the models are so small that threads would wait for each other most of the time

WORDPIECE, BYTE_LEVEL, UNIGRAM = "WordPiece cased", "byte-level BPE", "Unigram"
SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}

# family: (configuration, its own sizes, kind of tokenizer, number of fused attentions to expect)
FAMILIES = {
    "bert": (BertConfig, SIZES, WORDPIECE, 3),
    "distilbert": (DistilBertConfig, {"dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 128}, WORDPIECE, 3),
    "electra": (ElectraConfig, SIZES | {"embedding_size": 32}, WORDPIECE, 3),
    "mpnet": (MPNetConfig, SIZES, WORDPIECE, 3),
    "albert": (AlbertConfig, SIZES | {"embedding_size": 32}, UNIGRAM, 3),
    "roberta": (RobertaConfig, SIZES, BYTE_LEVEL, 3),
    "xlm-roberta": (XLMRobertaConfig, SIZES, UNIGRAM, 3),
    "camembert": (CamembertConfig, SIZES, UNIGRAM, 3),
    "deberta": (DebertaConfig, SIZES | RELATIVE, BYTE_LEVEL, 0),
    "deberta-v2": (
        DebertaV2Config,
        SIZES | RELATIVE | {"position_buckets": 32, "norm_rel_ebd": "layer_norm", "share_att_key": True},
        UNIGRAM,
        0,
    ),
    "roformer": (RoFormerConfig, SIZES | {"embedding_size": 32}, WORDPIECE, 0),
    "ibert": (IBertConfig, SIZES, BYTE_LEVEL, 3),
    # Its positions count from the one after the padding id, as in RoBERTa; 4 is the mask of the tokenizer.
    "esm": (EsmConfig, SIZES | {"mask_token_id": 4, "token_dropout": True}, WORDPIECE, 0),
    # The window of 16 tokens is shorter than the longest input: a mask that must not be taken for a neutral one.
    "modernbert": (ModernBertConfig, SIZES | {"local_attention": 16, "global_attn_every_n_layers": 3}, BYTE_LEVEL, 0),
}


def fast_tokenizer(tokenizer) -> PreTrainedTokenizerFast:
    """A tokenizer as transformers wraps it."""
    backend = tokenizer.backend
    special = {"mask_token": tokenizer.mask_token}
    for role, tokens in {"pad_token": ("[PAD]", "<pad>"), "unk_token": ("[UNK]", "<unk>")}.items():
        special[role] = next(token for token in tokens if backend.token_to_id(token) is not None)
    return PreTrainedTokenizerFast(tokenizer_object=backend, **special)


def tiny_model(family: str, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A model whose weights, biases and normalisations are all random, so that nothing is neutral by chance."""
    make, sizes, *_ = FAMILIES[family]
    config = make(vocab_size=len(tokenizer), max_position_embeddings=130, pad_token_id=tokenizer.pad_token_id, **sizes)
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = 0.1 if "norm" in name.lower() or name.endswith("bias") else 0.25
            parameter.add_(torch.randn_like(parameter) * spread)
    return model


def batch(n: int, length: int, seed: int = 0) -> dict[str, NDArray[np.int32]]:
    """Random sentences of one length as inputs of a finished graph."""
    random = np.random.default_rng(seed)
    ids = random.integers(5, 60, (n, length)).astype(np.int32)
    position = random.integers(0, length, n).astype(np.int32)
    return {"input_ids": ids, "mask_position": position, "expected_id": ids[:, 0]}


def context(**known) -> Context:
    """What passes on a small graph are told; `known` overrides."""
    plain = {"vocabulary": 50, "padding_id": None, "longest": 40, "layers": 0, "outputs": 50, "family": "small"}
    return Context(**plain | {"standard_attention": False} | known)


def graph_of(nodes, inputs, outputs, constants, opset=17) -> Graph:
    """A small graph: inputs and outputs as (name, type, shape), constants by name."""
    made = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(*value) for value in inputs],
        [helper.make_tensor_value_info(*value) for value in outputs],
        [numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    return Graph(ir.from_proto(helper.make_model(made, opset_imports=opsets, ir_version=8)))


def values_of(graph: Graph, feeds, names):
    """What a graph computes for some of its values, by name."""
    values = {value.name: value for node in graph.nodes for value in node.outputs}
    (found,) = observe(graph, [feeds], [values[name] for name in names])
    return {name: found[values[name]] for name in names}


def operators(graph: Graph) -> dict[str, int]:
    """How many nodes a graph has of each operator."""
    kinds = [node.op_type for node in graph.nodes]
    return {kind: kinds.count(kind) for kind in kinds}


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory, small_tokenizers) -> Callable[[str], Path]:
    """A folder with a tiny checkpoint of a family, as save_pretrained writes it."""
    made: dict[str, Path] = {}

    def make(family: str) -> Path:
        if family not in made:
            tokenizer = fast_tokenizer(small_tokenizers[FAMILIES[family][2]])
            folder = tmp_path_factory.mktemp("checkpoints") / family
            tiny_model(family, tokenizer).save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            made[family] = folder
        return made[family]

    return make


@pytest.fixture(scope="session")
def exported(checkpoint, tmp_path_factory) -> Callable[[str], Path]:
    """The same, exported."""
    from negengine.export.build import build

    made: dict[str, Path] = {}

    def make(family: str) -> Path:
        if family not in made:
            made[family] = build(str(checkpoint(family)), tmp_path_factory.mktemp("exported") / family)
        return made[family]

    return make
