"""Small models as PyTorch traces them: passes take operators away and put others there, and the logits stay."""

import itertools

import numpy as np
import onnx_ir as ir
import pytest
import torch
from negengine.export.graph import Graph, reads
from negengine.export.observe import channel_peaks, count_flops, layouts
from negengine.export.passes import COMMON, TEXT_GENERATION, masks, simplify
from negengine.export.passes.context import run_passes
from negengine.export.passes.cpu import convolve
from negengine.export.passes.fuse import fuse_operators
from negengine.export.passes.outputs import drop_hidden, hoist_mask_row
from torch.nn import functional

from ..conftest import context, graph_of, operators, traced, values_of

TOKENS, HEADS, D, LONGEST = 50, 4, 8, 40
WIDTH, INNER = HEADS * D, 48
LENGTH = 9


def weight(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng([*shape, seed]).normal(0, 0.3, shape).astype(np.float32))


WORDS, POSITIONS = weight(TOKENS, WIDTH), weight(LONGEST, WIDTH)
PRODUCT, BIAS, SCALE = weight(WIDTH, INNER), weight(INNER), weight(WIDTH)


def positions(ids):
    return torch.arange(ids.shape[1])


def beyond(window):
    """A mask that is 1 from so many tokens on."""
    return lambda ids: torch.relu(WORDS[ids] + POSITIONS[positions(ids)] + (positions(ids) >= window).float()[:, None])


def looked_up(indices):
    """Rows by indices of one axis or two, in operators that want as many axes."""
    return lambda ids: WORDS[ids] + POSITIONS[indices(ids)].transpose(-1, -2).neg().transpose(-1, -2)


def read_twice(ids):
    product = WORDS[ids] @ PRODUCT
    return (product + BIAS) * product


def attend(heads, mask=0):
    query, key, value = heads
    scores = query @ key.transpose(2, 3) * 0.35 + mask
    return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)


def divided(rows):
    return rows.view(*rows.shape[:2], HEADS, -1).transpose(1, 2)


def encoder(*, before, unknown=False):
    """Two layers, normalised before the blocks or behind them; if `unknown`, the rows are reversed at the end."""

    def compute(ids):
        seeds = itertools.count()

        def linear(x, inner, outer):
            seed = next(seeds)
            return x @ weight(inner, outer, seed=seed) + weight(outer, seed=seed)

        def attention(x):
            return linear(attend([divided(linear(x, WIDTH, WIDTH)) for _ in range(3)]), WIDTH, WIDTH)

        def feed_forward(x):
            return linear(functional.gelu(linear(x, WIDTH, INNER)), INNER, WIDTH)

        def normal(x):
            return functional.layer_norm(x, [WIDTH], SCALE, SCALE)

        x = WORDS[ids]
        for block in (attention, feed_forward, attention, feed_forward):
            x = block(normal(x)) + x if before else normal(block(x) + x)
        return (x.flip(1) if unknown else normal(x) if before else x) @ weight(WIDTH, TOKENS)

    return compute


def decoder(*, rotated=D, neighbours=False, tokens_first=False, unequal=False):
    """A causal layer with rotary positions of channels of each head; `neighbours` and `tokens_first` as in GPT-J."""

    def pairs(one, other):
        return torch.stack([one, other], -1).flatten(-2) if neighbours else torch.cat([one, other], -1)

    def rotate(x, cos, sin):
        own, half = x[..., :rotated], rotated // 2
        turned = pairs(-own[..., 1::2], own[..., ::2]) if neighbours else pairs(-own[..., half:], own[..., :half])
        result = own * cos + turned * sin
        return result if rotated == D else torch.cat([result, x[..., rotated:]], -1)

    def compute(ids):
        x = WORDS[ids]
        angles = positions(x)[None, :, None] * 0.3 ** torch.arange(rotated // 2)
        angles = pairs(angles, angles * 1.5 if unequal else angles).unsqueeze(2 if tokens_first else 1)
        heads = [divided(x @ weight(WIDTH, WIDTH, seed=i)) for i in range(3)]
        if tokens_first:
            heads = [each.transpose(1, 2) for each in heads]
        heads[:2] = [rotate(each, angles.cos(), angles.sin()) for each in heads[:2]]
        if tokens_first:
            heads = [each.transpose(1, 2) for each in heads]
        return (x + attend(heads, torch.full([ids.shape[1]] * 2, -1e9).triu(1))) @ weight(WIDTH, TOKENS)

    return compute


SIMPLER = (simplify.fold_constants, masks.drop_neutral_masks, simplify.slice_position_tables)
SIMPLER = (*SIMPLER, simplify.fix_reshapes, simplify.narrow_ids)
CAUSAL = (*TEXT_GENERATION, drop_hidden)
FUSED = {"RotaryEmbedding": 2, "MultiHeadAttention": 1, "Softmax": 0, "Trilu": 1}  # the last one of the mask's row
PLAIN = {"RotaryEmbedding": 0, "MultiHeadAttention": 1, "Softmax": 0}
CASES = {  # what the model is → the model, the passes, how many of some operators are left
    "a mask that is neutral at every length": (beyond(1000), SIMPLER, {"GreaterOrEqual": 0, "Add": 1, "Gather": 1}),
    "a mask of long sentences alone": (beyond(20), SIMPLER, {"GreaterOrEqual": 1, "Add": 2}),
    "positions by two axes": (looked_up(lambda ids: positions(ids)[None]), SIMPLER, {"Gather": 1}),
    "one row by one axis": (looked_up(lambda ids: positions(ids) * 0 + 2), SIMPLER, {"Gather": 1}),
    "a feed-forward block": (
        lambda ids: functional.gelu(WORDS[ids] @ PRODUCT + BIAS) @ PRODUCT.T,
        (fuse_operators, convolve),
        {"Conv": 2, "Gelu": 1, "Transpose": 4},  # there, back, of two weights; none between
    ),
    "a product that is read twice": (read_twice, (convolve,), {"Conv": 1, "Add": 1}),
    "24 channels, no whole vectors": (lambda ids: WORDS[ids] @ PRODUCT[:, :24].contiguous(), (convolve,), {"Conv": 0}),
    "tokens of all sentences in one axis": (
        lambda ids: torch.relu(torch.addmm(BIAS, WORDS[ids].view(-1, WIDTH), PRODUCT)).view(*ids.shape, INNER),
        (simplify.keep_tokens_apart,),
        {"Gemm": 0, "Reshape": 0, "MatMul": 1, "Add": 1},
    ),
    **{
        f"an encoder, {before=}, {unknown=}": (
            encoder(before=before, unknown=unknown),
            (*COMMON, hoist_mask_row),
            {"MultiHeadAttention": 2, "Gelu": 2, "GatherND": 1 + (before and not unknown)},
        )
        for before in (False, True)
        for unknown in (False, True)
    },
    "rotated heads": (decoder(), CAUSAL, FUSED),
    "neighbouring channels": (decoder(neighbours=True), CAUSAL, FUSED),
    "those of heads behind tokens": (decoder(neighbours=True, tokens_first=True, rotated=4), CAUSAL, FUSED),
    "halves of a table that differ": (decoder(unequal=True), CAUSAL, PLAIN),
    "neighbours in a table that differ": (decoder(unequal=True, neighbours=True), CAUSAL, PLAIN),
}


def rewritten(compute, passes):
    graph = traced(compute)
    run_passes(passes, graph, context(vocabulary=TOKENS, longest=LONGEST))
    return graph


@pytest.mark.parametrize("model", CASES)
def test_passes_change_operators_and_no_logit(model):
    compute, passes, operators_left = CASES[model]
    graph = rewritten(compute, passes)
    kinds = operators(graph)
    assert {kind: kinds[kind] for kind in operators_left} == operators_left
    for length in (1, 19, LONGEST):
        ids, position = np.random.default_rng(length).integers(0, TOKENS, (3, length)), np.arange(3) % length
        feeds = {"input_ids": ids, "mask_position": position, "expected_id": ids[:, 0]}
        wanted = compute(torch.from_numpy(ids)).numpy()
        wanted = wanted[range(3), position] if "mask_position" in graph.inputs else wanted
        np.testing.assert_allclose(values_of(graph, feeds), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("before", [False, True])
def test_in_the_last_layer_only_keys_and_values_are_computed_for_all_positions(before):
    """Counted by hand, 2 m k n for a product of m × k and k × n."""
    n, h, i, v = LENGTH, WIDTH, INNER, TOKENS
    layer = 2 * (4 * n * h * h + 2 * n * h * i + 2 * n * n * h)
    last = 2 * (2 * n * h * h + 2 * h * h + 2 * h * i + 2 * n * h)
    compute = encoder(before=before)
    assert count_flops(traced(compute), n) == 2 * layer + 2 * n * h * v
    assert count_flops(rewritten(compute, (*COMMON, hoist_mask_row)), n) == layer + last + 2 * h * v
    stopped = encoder(before=before, unknown=True)  # behind the reversal, only the vocabulary's product is left
    saved = count_flops(traced(stopped), n) - count_flops(rewritten(stopped, (*COMMON, hoist_mask_row)), n)
    assert saved == 2 * (n - 1) * h * v


def test_weights_beyond_two_gibibytes_are_observed_and_saved(tmp_path):
    """Beyond protobuf's limit of 2 GiB, in a file with holes: only the last row is written."""
    rows, width = 600_000, 1024  # 2.46 GB of fp32
    path, last = tmp_path / "model.onnx_data", np.arange(width, dtype=np.float32)
    with path.open("wb") as stream:
        stream.seek((rows - 1) * width * 4)
        last.tofile(stream)
    graph = graph_of(
        "(int32[B, L] input_ids) => (float[] logits) { found = Gather(table, input_ids) logits = Neg(found) }",
        table=np.zeros((2, width), np.float32),
    )
    (table,), shape = graph.initializers, ir.Shape([rows, width])
    where = {"shape": shape, "name": "table", "base_dir": tmp_path}
    table.const_value = ir.ExternalTensor(path.name, 0, rows * width * 4, ir.DataType.FLOAT, **where)
    table.shape = shape
    feeds = {"input_ids": np.array([[0, rows - 1]], np.int32)}
    np.testing.assert_array_equal(values_of(graph, feeds)[0, 1], -last)
    np.testing.assert_array_equal(channel_peaks(graph, [feeds])["logits"], last)
    (path,) = graph.save(tmp_path / "model.onnx")
    assert path.stat().st_size < 10_000
    again = Graph.open(path)
    assert layouts(again)[again.outputs["logits"]].shape == (2, 5, width)


def test_what_a_graph_inside_a_node_reads_counts_as_read():
    branches = "then_branch = one () => (float[] b) {b = Neg(x)}, else_branch = two () => (float[] c) {c = Identity(x)}"
    computed = f"{{ x = Cast <to = 1> (input_ids) logits = If (condition) <{branches}> }}"
    graph = graph_of(f"(int32[B, L] input_ids) => (float[] logits) {computed}", condition=np.array(True))
    choice = next(node for node in graph.nodes if node.op_type == "If")
    assert "x" in {value.name for value in reads(choice)}
    assert choice.outputs[0] not in graph.from_constants()
    graph.prune()
    assert operators(graph) == {"Cast": 1, "If": 1}
