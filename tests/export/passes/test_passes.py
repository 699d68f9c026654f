"""Small models as PyTorch traces them: passes take operators away and put others there, and the logits stay.

In int8 and fp16, what decides stays fp32.
"""

import itertools

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.exported import CONVOLVED, FP16, load_exported
from negengine.export import observe as observing
from negengine.export.graph import Graph, dims, is_constant, reads, written_by
from negengine.export.observe import channel_peaks, count_flops, layouts, observe
from negengine.export.passes import COMMON, TEXT_GENERATION, gpu, masks, simplify, tables
from negengine.export.passes.context import run_passes
from negengine.export.passes.cpu import convolve, multiply_by_rows
from negengine.export.passes.fuse import fuse_operators
from negengine.export.passes.half import HEADROOM, LARGEST, halve
from negengine.export.passes.int8 import mask_row_values, quantize_vocabulary, quantized
from negengine.export.passes.outputs import add_decision_head, drop_hidden, hoist_mask_row
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


def relative(*, by_length=False):
    """Rows weighted by their distances in buckets, as in DeBERTa v2; `by_length`: a bucket has a share of the text."""

    def compute(ids):
        rows, places = WORDS[ids], positions(ids)
        distances = places[:, None] - places
        logarithms = distances.sign() * (distances.abs() + 1).float().log().ceil().long()
        buckets = (distances.abs() * 7 // ids.shape[1] if by_length else logarithms + 5).clamp(0, 10)
        scores = (rows @ POSITIONS[:11].T / torch.scalar_tensor(rows.shape[-1]).sqrt()).repeat(2, 1, 1)
        found = torch.gather(scores, -1, buckets.expand(*scores.shape[:2], -1))
        return (found.view(2, -1, *found.shape[1:]) @ rows).sum(0)

    return compute


SIMPLER = (simplify.fold_constants, masks.drop_neutral_masks, simplify.slice_position_tables)
SIMPLER = (*SIMPLER, simplify.fix_shapes, simplify.narrow_ids)
CAUSAL = (*TEXT_GENERATION, drop_hidden)
FUSED = {"RotaryEmbedding": 2, "MultiHeadAttention": 1, "Softmax": 0, "Trilu": 1}  # the last one of the mask's row
PLAIN = {"RotaryEmbedding": 0, "MultiHeadAttention": 1, "Softmax": 0}
CASES = {  # what the model is → the model, the passes, how many of some operators are left
    "a mask that is neutral at every length": (beyond(1000), SIMPLER, {"GreaterOrEqual": 0, "Add": 1, "Gather": 1}),
    "a mask of long sentences alone": (beyond(20), SIMPLER, {"GreaterOrEqual": 1, "Add": 2}),
    "a mask of ones": (lambda ids: torch.relu(WORDS[ids] * torch.ones(ids.shape)[..., None]), SIMPLER, {"Mul": 0}),
    "distances": (relative(), (*SIMPLER, tables.tabulate_shapes), {"Range": 0, "Log": 0, "Sqrt": 0, "Slice": 1}),
    "distances by length": (relative(by_length=True), (*SIMPLER, tables.tabulate_shapes), {"Range": 1, "Sqrt": 0}),
    "positions by two axes": (looked_up(lambda ids: positions(ids)[None]), SIMPLER, {"Gather": 1}),
    "one row by one axis": (looked_up(lambda ids: positions(ids) * 0 + 2), SIMPLER, {"Gather": 1}),
    "a feed-forward block": (
        lambda ids: functional.gelu(WORDS[ids] @ PRODUCT + BIAS) @ PRODUCT.T,
        (fuse_operators, convolve),
        {"Conv": 2, "Gelu": 1, "Transpose": 4, "Unsqueeze": 1},  # there, back, of two weights; none between
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


def test_a_table_that_is_looked_up_too_is_multiplied_by_as_it_lies():
    text = """(int64[batch, length] input_ids) => (float[length, tokens] logits) {
        rows = Gather (words, input_ids)  first = Gather <axis = 0> (rows, zero)
        turned = Transpose <perm = [1, 0]> (words)  product = MatMul (first, turned)  logits = Add (product, bias) }"""
    graph = graph_of(text, words=WORDS.numpy(), zero=np.array(0), bias=weight(TOKENS).numpy())
    feeds = {"input_ids": np.arange(10).reshape(2, 5)}
    wanted = values_of(graph, feeds)
    run_passes((multiply_by_rows,), graph, context())
    assert operators(graph) == {"Gather": 2, "Gemm": 1}
    np.testing.assert_allclose(values_of(graph, feeds), wanted, rtol=1e-6)


def test_shapes_that_follow_from_rules_are_those_of_a_run_and_no_weights_are_read_for_the_others(mini, monkeypatch):
    opened, open_session = [], observing.open_session
    monkeypatch.setattr(observing, "open_session", lambda *asked: opened.append(asked[1]) or open_session(*asked))
    files = [mini.graph, *(mini.folder / name for name in (CONVOLVED, FP16))]
    for graph in (rewritten(decoder(), CAUSAL), *map(Graph.open, files)):
        ruled = layouts(graph)
        nodes = onnx.load_from_string(opened.pop()).graph.node
        writers = {name: node.op_type for node in nodes for name in node.output}
        told_by_a_run = {writers[node.input[0]] for node in nodes if node.op_type == "Flatten"}
        assert not {"MatMul", "Gemm", "Conv", "MultiHeadAttention"} & told_by_a_run
        with monkeypatch.context() as without_rules:
            without_rules.setattr(observing, "infer_shapes", lambda asked, **_: asked)
            assert layouts(graph) == ruled


def test_distances_become_a_table_only_where_the_longest_input_is_compared():
    graph = traced(relative())
    run_passes((*SIMPLER, tables.tabulate_shapes), graph, context(longest=LONGEST, has_compared_all=False))
    assert operators(graph)["Range"] == 1


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
    rows, width = 600_000, 1024  # 2.46 GB of fp32
    path, last = tmp_path / "model.onnx_data", np.arange(width, dtype=np.float32)
    with path.open("wb") as stream:  # with a hole: only the last row is written
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


def test_only_what_a_value_needs_is_computed_to_observe_it():
    """The row beyond the table would be an error; what the branch of a choice reads is needed."""
    graph = graph_of(
        """(int32[B, L] input_ids) => (float[] logits) {
            x = Cast<to=1>(input_ids)
            wanted = If(yes) <
                then_branch = one () => (float[] same) { same = Neg(x) },
                else_branch = other () => (float[] other_same) { other_same = Identity(x) }>
            missing = Gather(table, input_ids)
            logits = Add(missing, wanted)
        }""",
        yes=np.array(True),
        table=np.zeros(2, np.float32),
    )
    feeds = {"input_ids": np.array([[1, 7]], np.int32)}
    wanted = next(node.outputs[0] for node in graph.nodes if node.op_type == "If")
    np.testing.assert_array_equal(observe(graph, [feeds], [wanted])[0][wanted], [[-1, -7]])
    with pytest.raises(InputError, match="out of data bounds"):
        values_of(graph, feeds)


def test_of_a_long_input_no_values_are_computed_for_their_shape_alone():
    """The row beyond the table would be an error. Each input has its own sizes, in whatever order they come."""
    graph = graph_of(
        """(int32[B, L] input_ids) => (int64[] logits) {
            rows = Gather(table, input_ids)
            turned = Transpose<perm = [1, 0, 2]>(rows)
            some = Shape<start = 0, end = 2>(turned)
            all = Shape(rows)
            logits = Concat<axis = 0>(some, all)
        }""",
        table=np.zeros((2, 3), np.float32),
    )
    long, longer, short = ({"input_ids": np.full(shape, 7, np.int32)} for shape in ((1, 100), (2, 300), (1, 5)))
    wanted = graph.outputs["logits"]
    found = observe(graph, [long, {"input_ids": short["input_ids"] * 0}, longer], [wanted])
    assert [own[wanted].tolist() for own in found] == [[100, 1, 1, 100, 3], [5, 1, 1, 5, 3], [300, 2, 2, 300, 3]]
    with pytest.raises(InputError, match="out of data bounds"):
        values_of(graph, short)


def test_products_over_all_positions_are_int8_or_convolutions_and_of_the_masks_row_that_with_the_vocabulary(exported):
    found = load_exported(exported("bert"))
    assert operators(Graph.open(found.folder / "model.cpu.onnx"))["Conv"] == 2 * 6 + 2
    int8 = Graph.open(found.folder / "model.int8.onnx")
    rows = mask_row_values(int8)
    products = [node for node in int8.nodes if node.op_type == "MatMulInteger"]
    of_rows = [node for node in products if node.outputs[0] in rows]
    assert len(products) - len(of_rows) == 2 * 6 + 2
    assert [dims(node.inputs[1])[1] for node in of_rows] == [found.vocab_size]


def test_a_matrix_is_quantized_in_seven_bits_so_that_no_processor_saturates():
    random = np.random.default_rng(0)
    for scale in (1e-3, 1, 1e3):
        weights = (random.normal(size=(48, 7)) * scale * 10.0 ** random.integers(-2, 3, 7)).astype(np.float32)
        weights[:, 3] = 0
        numbers, scales = quantized(weights)
        assert np.abs(numbers.astype(int)).max() == 64
        assert (np.abs(numbers * scales - weights) <= 0.501 * scales).all()


def test_many_small_chances_count_beside_one_large_one():
    """The logits of published causal models: one sum over them loses a share of 1e-5, each time with the same sign."""
    tokens = 20_001
    logits = np.random.default_rng(0).normal(-17, 1.5, (4, tokens)).astype(np.float32)
    logits[:, 7] = 3 * np.arange(4)
    table = torch.from_numpy(logits)
    graph = traced(lambda ids: table[ids])
    run_passes((hoist_mask_row, add_decision_head), graph, context(vocabulary=tokens))
    ids = np.arange(4, dtype=np.int32)
    feeds = {"input_ids": ids[:, None], "mask_position": 0 * ids, "expected_id": 0 * ids}
    (found,) = observe(graph, [feeds], [graph.outputs["decision_logits"]])
    wanted = np.logaddexp.reduce(logits.astype(np.float64), axis=1)
    np.testing.assert_allclose(found[graph.outputs["decision_logits"]][:, 3], wanted, atol=2e-6)


# ---------------------------------------------------------------- low precision
SENTENCES, MANY = 6, 400
TABLE = torch.from_numpy(np.random.default_rng(0).normal(size=(MANY, WIDTH)).astype(np.float32))
SLOPE = torch.linspace(-1, 1, MANY)


def decided(tied=True, bias=True, tokens=MANY, after=lambda logits: logits):
    """The finished graph of a model that looks words up and projects them to the vocabulary."""
    table = TABLE[:tokens]
    matrix = table.T.contiguous()

    def compute(ids):
        logits = TABLE[ids] @ (table.T if tied else matrix)
        return after(logits + SLOPE[:tokens] if bias else logits)

    graph = traced(compute)
    run_passes((hoist_mask_row, add_decision_head), graph, context())
    return graph


def logits_of(graph, expected=None):
    ids, position = np.arange(SENTENCES, dtype=np.int32)[:, None], np.zeros(SENTENCES, np.int32)
    feeds = {"input_ids": ids, "mask_position": position, "expected_id": position if expected is None else expected}
    return values_of(graph, feeds)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_the_highest_logits_and_the_expected_tokens_are_fp32_and_all_others_near(bias, tied):
    graph = decided(tied, bias)
    wanted = logits_of(graph)
    expected = wanted.argsort(axis=1)[:, MANY // 2].astype(np.int32)  # in the middle, not among the leaders
    run_passes((quantize_vocabulary,), graph, context())
    found = logits_of(graph, expected)
    leaders = np.c_[wanted.argsort(axis=1)[:, -8:], expected]  # half of those computed, as int8 may order them anew
    off = np.abs(found - wanted)
    np.testing.assert_allclose(np.take_along_axis(off, leaders, 1), 0, atol=1e-5)
    assert 0 < np.median(off) < 0.05 * wanted.std()
    assert (found.argmax(axis=1) == wanted.argmax(axis=1)).all()


def test_a_small_vocabulary_and_logits_that_are_changed_after_the_product_stay_fp32():
    for form in ({"tokens": 9}, {"after": torch.tanh}):  # nine tokens are fewer than the leaders
        graph = decided(**form)
        wanted, before = logits_of(graph), operators(graph)
        run_passes((quantize_vocabulary,), graph, context())
        np.testing.assert_allclose(logits_of(graph), wanted, atol=1e-5)
        assert (operators(graph) == before) == ("after" in form)


def test_all_products_of_the_bundled_model_are_fp16_and_its_decision_is_fp32(mini):
    fp16 = Graph.open(mini.folder / "model.fp16.onnx")
    products = [node for node in fp16.nodes if node.op_type in {"MatMul", "MultiHeadAttention"}]
    assert mini.info["fp16"] == {"products": len(products), "kept in fp32": []}
    assert {value.dtype for node in products for value in node.inputs if is_constant(value)} == {ir.DataType.FLOAT16}
    known, logits = layouts(fp16), fp16.outputs["logits"]
    behind = [node.outputs[0] for node in fp16.nodes if node.op_type in {"Exp", "Log", "Sub"}]
    (top,) = (node for node in fp16.nodes if node.op_type == "TopK")
    biased = written_by(top.inputs[0], "Add").inputs  # the bias of the vocabulary, too, is added in fp32
    assert all(known[value].is_float32 for value in (*behind, *biased, logits))


# ---------------------------------------------------------------- in fewer bytes
def test_of_queries_alone_a_bias_is_added_and_that_of_values_is_in_the_next_one(mini):
    """In the last layer, too, which is computed for the mask alone."""
    for graph in map(Graph.open, (mini.graph, mini.folder / "model.fp16.onnx")):
        layers = [node for node in graph.nodes if node.op_type == "MultiHeadAttention"]
        assert [len(node.inputs) for node in layers] == [3] * mini.info["layers"]
        for node in layers:
            queries = written_by(node.inputs[0], "Unsqueeze")
            assert written_by(queries.inputs[0] if queries else node.inputs[0], "Add")
            assert all(written_by(value, "MatMul") for value in node.inputs[1:])


@pytest.mark.parametrize(("tokens", "bias"), [(MANY, True), (MANY, False), (512, True), (40_000, True)])
def test_a_vocabulary_filled_up_gives_the_same_decisions_and_logits(tokens, bias):
    table = np.abs(np.random.default_rng(tokens).normal(size=(tokens, WIDTH))).astype(np.float32) + 0.5
    own, matrix, slope = torch.from_numpy(table), torch.from_numpy(-table.T.copy()), torch.full((tokens,), 0.1)
    graph = traced(lambda ids: own[ids] @ matrix + (slope if bias else 0))
    known = context(vocabulary=tokens)
    run_passes((hoist_mask_row, add_decision_head), graph, known)
    ids = np.array([1, 2, 3, tokens - 2], np.int32)
    feeds = {"input_ids": ids[:, None], "mask_position": 0 * ids, "expected_id": ids}
    names = ("decision_ids", "decision_logits", "logits")

    def decisions():
        (found,) = observe(graph, [feeds], [graph.outputs[name] for name in names])
        return [found[graph.outputs[name]] for name in names]

    wanted = decisions()
    assert (wanted[1][:, 0] < 0).all()  # a logit of 0 would be the best
    run_passes((gpu.fill_vocabulary,), graph, known)
    for one, other in zip(wanted, decisions(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    sizes = layouts(graph)
    assert [sizes[node.inputs[0]].shape[-1] % 256 for node in graph.nodes if node.op_type == "TopK"] == [0]
    assert operators(graph)["Pad"] == 0


def test_of_two_equal_logits_that_are_given_in_another_order_the_smaller_id_is_first():
    """As CUDA's TopK may give them: here the ids of both are turned around."""
    graph = decided(tokens=50)
    top = next(node for node in graph.nodes if node.op_type == "TopK")
    swapped = graph.add("Gather", [top.outputs[1], graph.numbers(1, 0)], "swapped", axis=1)
    for node in [node for node in top.outputs[1].consumers() if node is not swapped.producer()]:
        node.replace_input_with(list(node.inputs).index(top.outputs[1]), swapped)
    same = graph.add("Slice", [top.outputs[0], graph.numbers(0), graph.numbers(1), graph.numbers(1)], "same")
    equal = graph.add("Concat", [same, same], "equal", axis=1)
    for node in [node for node in top.outputs[0].consumers() if node is not same.producer()]:
        node.replace_input_with(list(node.inputs).index(top.outputs[0]), equal)
    graph.prune()
    ids = np.arange(SENTENCES, dtype=np.int32)
    feeds = {"input_ids": ids[:, None], "mask_position": 0 * ids, "expected_id": ids}
    (found,) = observe(graph, [feeds], [graph.outputs["decision_ids"], top.outputs[1]])
    np.testing.assert_array_equal(found[graph.outputs["decision_ids"]][:, 0], found[top.outputs[1]].min(axis=1))


FEEDS = {"input_ids": np.arange(6, dtype=np.int32).reshape(2, 3), "mask_position": np.array([0, 2], np.int32)}


def two_products(scale=1.0, shrink=None, *, measured=True):
    """The mask's row of two products, whose inner values are as large as `scale` says: before, after, what is told."""
    torch.manual_seed(0)
    words, second, bias = (0.5 + torch.rand(shape) / 2 for shape in ((9, 4), (4, 4), 4))
    factor = torch.tensor(1 / scale if shrink is None else shrink)
    graph = traced(lambda ids: (words[ids] @ (torch.eye(4) * scale)) * factor @ second + bias)
    run_passes((hoist_mask_row,), graph, context())
    before = values_of(graph, FEEDS)
    told = run_passes((halve,), graph, context(peaks=channel_peaks(graph, [FEEDS]) if measured else {}))
    return before, values_of(graph, FEEDS), told["fp16"]


def test_values_within_the_range_are_fp16_and_those_beyond_it_and_small_scalars_stay_fp32():
    for scale, products, kept in ((1.0, 2, []), (2 * LARGEST / HEADROOM, 1, ["MatMul", "Mul"])):
        before, after, told = two_products(scale)
        np.testing.assert_allclose(after, before, rtol=5e-3, atol=5e-3)
        assert (told["products"], [why.split()[0] for why in told["kept in fp32"]]) == (products, kept)
    (why,) = two_products(shrink=1e-12)[2]["kept in fp32"]
    assert (why[:4], why[-9:]) == ("Mul ", " is 1e-12")
    assert two_products(measured=False)[2]["products"] == 0
