"""Hoisting the mask's row changes no logit and saves what it should; an operator without a rule stops it, no more."""

import numpy as np
import pytest
from negengine.export.observe import count_flops
from negengine.export.passes.outputs import hoist_mask_row
from onnx import TensorProto

from ..conftest import Nodes, context, values_of

VOCABULARY, WIDTH, INNER, HEADS, LENGTH = 11, 8, 16, 2, 6


class Encoder(Nodes):
    """A small encoder of two layers, normalised after its blocks (as BERT) or before them (as later models)."""

    def __init__(self, *, before, unknown=False):
        super().__init__()
        x = self.add("Gather", [self.weight(VOCABULARY, WIDTH), "input_ids"])
        for layer in range(2):
            for block in (self.attention, self.feed_forward):
                normal = self.normalise(x) if before else x
                x = self.add("Add", [block(normal), x])
                x = x if before else self.normalise(x)
            if unknown and layer == 1:  # reverses the rows of a sentence: the mask's row is not where it was
                x = self.add("Slice", [x, *map(self.numbers, (-1, -LENGTH - 1, 1, -1))])
        self.add("MatMul", [self.normalise(x) if before else x, self.weight(WIDTH, VOCABULARY)], "logits")

    def linear(self, x, inner, outer):
        return self.add("Add", [self.weight(outer), self.add("MatMul", [x, self.weight(inner, outer)])])

    def normalise(self, x):
        return self.add("LayerNormalization", [x, self.weight(WIDTH), self.weight(WIDTH)], axis=-1)

    def attention(self, x):
        parts = [self.linear(x, WIDTH, WIDTH) for _ in range(3)]
        return self.linear(self.add("MultiHeadAttention", parts, domain="com.microsoft", num_heads=HEADS), WIDTH, WIDTH)

    def feed_forward(self, x):
        inner = self.add("Gelu", [self.linear(x, WIDTH, INNER)], domain="com.microsoft")
        return self.linear(inner, INNER, WIDTH)


def graph_of(encoder):
    return encoder.graph(TensorProto.INT32, VOCABULARY)


def hoisted(encoder):
    graph = graph_of(encoder)
    hoist_mask_row(graph, context())
    return graph


def sentences(n):
    random = np.random.default_rng(1)
    ids = random.integers(0, VOCABULARY, (n, LENGTH)).astype(np.int32)
    return {"input_ids": ids, "mask_position": random.integers(0, LENGTH, n).astype(np.int32)}


@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_the_logits_at_the_mask_are_the_same(before, unknown):
    feeds = sentences(5)
    encoder = Encoder(before=before, unknown=unknown)
    whole = values_of(graph_of(encoder), feeds, ["logits"])["logits"]
    found = values_of(hoisted(encoder), feeds, ["logits"])["logits"]
    np.testing.assert_allclose(found, whole[np.arange(5), feeds["mask_position"]], atol=1e-5)


@pytest.mark.parametrize("before", [False, True])
def test_in_the_last_layer_only_keys_and_values_are_computed_for_all_positions(before):
    """Counted by hand, 2 m k n for a product of m × k and k × n; L tokens, width H, feed-forward I, vocabulary V.

    A whole layer: 4 products L·H·H, two of the feed-forward L·H·I, scores and context L·L·H each.
    Hoisted: K and V for L rows; query, output, feed-forward for one row; one row of scores and context; V for one row.
    """
    n, h, i, v = LENGTH, WIDTH, INNER, VOCABULARY
    layer = 2 * (4 * n * h * h + 2 * n * h * i + 2 * n * n * h)
    last = 2 * (2 * n * h * h + 2 * h * h + 2 * h * i + 2 * n * h)
    encoder = Encoder(before=before)
    assert count_flops(graph_of(encoder), n) == 2 * layer + 2 * n * h * v
    assert count_flops(hoisted(encoder), n) == layer + last + 2 * h * v


def test_an_operator_without_a_rule_stops_the_hoist_where_it_stands():
    """Behind the reversal only the vocabulary is left: that alone is saved."""
    encoder = Encoder(before=False, unknown=True)
    whole = count_flops(graph_of(encoder), LENGTH)
    saved = 2 * (LENGTH - 1) * WIDTH * VOCABULARY
    assert count_flops(hoisted(encoder), LENGTH) == whole - saved
