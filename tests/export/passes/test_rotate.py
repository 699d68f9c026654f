"""Rotary positions, heads that share keys, shared beginnings: fused where the form is known, left where it is not."""

import numpy as np
import pytest
from negengine.export.passes.attention import fix_repetitions, fuse_attention, use_standard_attention
from negengine.export.passes.masks import unify_causal_masks
from negengine.export.passes.outputs import hoist_mask_row
from negengine.export.passes.rotate import fuse_rotations
from negengine.export.passes.share_prefix import SHARES_PREFIXES, find_sharing, share_prefix
from negengine.export.passes.simplify import fold_constants, fold_shapes, narrow_ids
from onnx import TensorProto

from ..conftest import Nodes, context, operators, values_of

VOCABULARY, HEADS, D = 50, 4, 8
WIDTH = HEADS * D
LENGTH, SHARED = 9, 4


class Decoder(Nodes):
    """A causal layer with rotary positions, as PyTorch's tracer writes it.

    Args:
        rotated: Channels of each head that are rotated.
        keys: Heads of keys and values.
        side_by_side: Queries, keys and values of a head come out of one product, side by side (GPT-NeoX).
        pairs: What is rotated together: `halves` of a head's channels, or `neighbours` (GPT-J).
        tokens_first: Heads are rotated as [B, L, heads, d], before tokens and heads change places (GPT-J).
        unequal: The channels of a pair have tables that differ.
        distance: A bias on the scores that grows with the position.
    """

    def __init__(
        self, *, rotated=D, keys=HEADS, side_by_side=False, pairs="halves", tokens_first=False, unequal=False,
        distance=False,
    ):  # fmt: skip
        super().__init__()
        self.rotated, self.pairs, self.tokens_first = rotated, pairs, tokens_first
        x = self.add("Gather", [self.weight(VOCABULARY, WIDTH), "input_ids"])
        cos, sin = self.tables(unequal=unequal)
        query, key, value = self.side_by_side(x) if side_by_side else self.heads(x, keys)
        query, key = self.rotate(query, cos, sin), self.rotate(key, cos, sin)
        if tokens_first:
            query, key, value = (self.add("Transpose", [each], perm=[0, 2, 1, 3]) for each in (query, key, value))
        if keys != HEADS:
            key, value = self.repeat(key), self.repeat(value)
        scores = self.add("MatMul", [query, self.add("Transpose", [key], perm=[0, 1, 3, 2])])
        scores = self.add("Mul", [scores, self.keep(np.float32(0.35))])
        if distance:
            scores = self.add("Add", [scores, self.add("Mul", [self.positions(), self.keep(np.float32(-0.1))])])
        length = self.add("Shape", ["input_ids"], start=1, end=2)
        square = self.add("Concat", [length, length], axis=0)
        mask = self.add("Trilu", [self.add("Expand", [self.keep(np.float32(-1e9)), square]), self.number(1)], upper=1)
        seen = self.add("Softmax", [self.add("Add", [scores, mask])], axis=-1)
        joined = self.add("Transpose", [self.add("MatMul", [seen, value])], perm=[0, 2, 1, 3])
        x = self.add("Add", [x, self.add("Reshape", [joined, self.numbers(0, 0, WIDTH)])])
        self.add("MatMul", [x, self.weight(WIDTH, VOCABULARY)], output="logits")

    def positions(self):
        """float32 [L]"""
        length = self.add("Gather", [self.add("Shape", [self.nodes[0].output[0]]), self.number(1)])  # of the embeddings
        numbers = self.add("Range", [self.number(0), length, self.number(1)])
        return self.add("Cast", [numbers], to=TensorProto.FLOAT)

    def tables(self, *, unequal):
        """Cosines and sines [1, 1, L, rotated], or [1, L, 1, rotated]."""
        rates = self.keep((0.3 ** np.arange(self.rotated // 2)).astype(np.float32))
        angles = self.add("Mul", [self.add("Unsqueeze", [self.positions(), self.numbers(0, 2)]), rates])
        others = self.add("Mul", [angles, self.keep(np.float32(1.5))]) if unequal else angles
        if self.pairs == "neighbours":
            angles = self.interleaved(angles, others)
        else:
            angles = self.add("Concat", [angles, others], axis=-1)
        axis = self.numbers(2 if self.tokens_first else 1)
        return [self.add("Unsqueeze", [self.add(kind, [angles]), axis]) for kind in ("Cos", "Sin")]

    def interleaved(self, one, other):
        pairs = self.add("Concat", [self.add("Unsqueeze", [each, self.numbers(-1)]) for each in (one, other)], axis=-1)
        before = self.add("Shape", [one], start=0, end=-1)
        return self.add("Reshape", [pairs, self.add("Concat", [before, self.numbers(self.rotated)], axis=0)])

    def heads(self, x, keys):
        made = []
        for heads in (HEADS, keys, keys):
            rows = self.add("MatMul", [x, self.weight(WIDTH, heads * D)])
            made.append(self.add("Reshape", [rows, self.numbers(0, 0, heads, D)]))
        return made if self.tokens_first else [self.add("Transpose", [each], perm=[0, 2, 1, 3]) for each in made]

    def side_by_side(self, x):
        rows = self.add("MatMul", [x, self.weight(WIDTH, 3 * WIDTH)])
        heads = self.add(
            "Transpose", [self.add("Reshape", [rows, self.numbers(0, 0, HEADS, 3 * D)])], perm=[0, 2, 1, 3]
        )
        return [self.slice(heads, n * D, (n + 1) * D) for n in range(3)]

    def slice(self, value, start, stop, step=1):
        return self.add("Slice", [value, *map(self.numbers, (start, stop, -1, step))])

    def rotate(self, x, cos, sin):
        own = x if self.rotated == D else self.slice(x, 0, self.rotated)
        turned = self.turned(own)
        result = self.add("Add", [self.add("Mul", [own, cos]), self.add("Mul", [turned, sin])])
        if self.rotated == D:
            return result
        return self.add("Concat", [result, self.slice(x, self.rotated, 2**62)], axis=-1)

    def turned(self, x):
        end = 2**62
        if self.pairs == "halves":
            second = self.add("Neg", [self.slice(x, self.rotated // 2, end)])
            return self.add("Concat", [second, self.slice(x, 0, self.rotated // 2)], axis=-1)
        return self.interleaved(self.add("Neg", [self.slice(x, 1, end, 2)]), self.slice(x, 0, end, 2))

    def repeat(self, x):
        before, after = self.add("Shape", [x], start=0, end=2), self.add("Shape", [x], start=2, end=4)
        shape = self.add("Concat", [before, self.numbers(2), after], axis=0)
        wide = self.add("Expand", [self.add("Unsqueeze", [x, self.numbers(2)]), shape])
        return self.add("Reshape", [wide, self.numbers(0, HEADS, -1, D)])


def graph_of(decoder):
    return decoder.graph(TensorProto.INT64, VOCABULARY)


def finished(decoder):
    """The graph as it is exported, and whether beginnings can be shared."""
    graph = graph_of(decoder)
    simplify = (fold_shapes, fold_constants, unify_causal_masks, fix_repetitions, fuse_rotations, narrow_ids)
    for each in (*simplify, fuse_attention, hoist_mask_row):
        each(graph, context(vocabulary=VOCABULARY))
    return graph, find_sharing(graph, context())[SHARES_PREFIXES]


def sentences(n=3):
    random = np.random.default_rng(1)
    ids = random.integers(0, VOCABULARY, (n, LENGTH)).astype(np.int32)
    ids[:, :SHARED] = ids[0, :SHARED]
    return {"input_ids": ids, "mask_position": random.integers(SHARED, LENGTH, n).astype(np.int32)}


def logits_at_masks(decoder, feeds):
    logits = values_of(graph_of(decoder), feeds, ["logits"])["logits"]
    return logits[np.arange(len(logits)), feeds["mask_position"]]


KNOWN = {
    "whole heads": {},
    "the first channels of a head": {"rotated": 4},
    "shared keys": {"keys": 2},
    "queries, keys and values side by side": {"side_by_side": True, "rotated": 6},
    "neighbouring channels": {"pairs": "neighbours"},
    "neighbouring channels of heads behind tokens": {"pairs": "neighbours", "tokens_first": True, "rotated": 4},
}
UNKNOWN = {  # form → the decoder, and how many rotations are fused
    "halves of a table that differ": ({"unequal": True}, 0),
    "neighbours in a table that differ": ({"unequal": True, "pairs": "neighbours"}, 0),
    "a bias by distance": ({"distance": True}, 2),
}


def agrees(graph, decoder, feeds, given=None):
    found = values_of(graph, given or feeds, ["logits"])["logits"]
    np.testing.assert_allclose(found, logits_at_masks(decoder, feeds), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", KNOWN)
def test_known_forms_are_fused_compute_the_same_and_share_beginnings(form):
    decoder, feeds = Decoder(**KNOWN[form]), sentences()
    graph, shares = finished(decoder)
    kinds = operators(graph)
    assert (kinds["RotaryEmbedding"], kinds["MultiHeadAttention"], shares) == (2, 1, True)
    assert "Softmax" not in kinds
    assert "Trilu" in kinds  # of the mask's row
    agrees(graph, decoder, feeds)
    ids = feeds["input_ids"]
    divided = {"prefix_ids": ids[:1, :SHARED], "suffix_ids": ids[:, SHARED:], "mask_position": feeds["mask_position"]}
    standard, _ = finished(decoder)
    use_standard_attention(standard, context())
    for each in (graph, standard):
        share_prefix(each, context())
        agrees(each, decoder, feeds, divided)


@pytest.mark.parametrize("form", UNKNOWN)
def test_other_forms_keep_their_operators_and_share_no_beginnings(form):
    given, rotations = UNKNOWN[form]
    decoder = Decoder(**given)
    graph, shares = finished(decoder)
    kinds = operators(graph)
    assert (kinds.get("RotaryEmbedding", 0), kinds.get("MultiHeadAttention", 0), shares) == (rotations, 0, False)
    agrees(graph, decoder, sentences())


def test_the_standard_attention_reads_shared_keys_where_they_are():
    decoder = Decoder(keys=2)
    graph, _ = finished(decoder)
    use_standard_attention(graph, context())
    (attention,) = (node for node in graph.nodes if node.op_type == "Attention")
    assert [attention.attributes[name].value for name in ("q_num_heads", "kv_num_heads")] == [HEADS, 2]
    assert operators(graph)["Expand"] == 1  # of the mask
    agrees(graph, decoder, sentences())


def test_numbers_from_shapes_are_read_off_the_ids():
    graph = graph_of(Decoder())
    fold_shapes(graph, context(vocabulary=VOCABULARY))
    assert {node.inputs[0].name for node in graph.nodes if node.op_type == "Shape"} == {"input_ids"}
