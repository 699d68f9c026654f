"""The fp16 graph decides as the fp32 graph does, and keeps in fp32 what fp16 cannot hold."""

import numpy as np
import onnx_ir as ir
import pytest
from negengine.engine.inference.model import MaskedLM
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns
from negengine.export.graph import Graph, is_constant
from negengine.export.observe import channel_peaks, layouts
from negengine.export.passes.fuse import fuse_residuals
from negengine.export.passes.half import HEADROOM, LARGEST, halve
from onnx import TensorProto, helper

from ..conftest import context, graph_of, operators, values_of

PATTERNS = load_patterns().all


def by_length(tokenizer, n):
    """Random sentences of all patterns, the verb before the mask expected, a batch for each length."""
    lexicon, random = load_lexicon(), np.random.default_rng(2)
    sizes = [len(words) for words in (lexicon.names, lexicon.professions, lexicon.verbs)]
    groups = {}
    for pattern in PATTERNS:
        for name, profession, verb in random.integers(sizes, size=(n, 3)):
            fillers = {
                "NAME": lexicon.names[name],
                "PROF": lexicon.professions[profession],
                "ACT": lexicon.verbs[verb],
                "PRON": lexicon.pronouns[lexicon.genders[name]],
            }
            ids, expected = tokenizer.encode([pattern.text(fillers, tokenizer.mask_token), fillers["ACT"]])
            groups.setdefault(len(ids), []).append((ids, expected[1]))
    for group in groups.values():
        ids, expected = (np.array(each, np.int32) for each in zip(*group, strict=True))
        yield ids, np.argmax(ids == tokenizer.mask_id, axis=1).astype(np.int32), expected


@pytest.fixture(scope="module")
def fp16(mini):
    return Graph.open(mini.folder / "model.fp16.onnx")


@pytest.fixture(scope="module")
def deciders(mini):
    return MaskedLM(mini), MaskedLM(mini, graph=mini.folder / "model.fp16.onnx")


def test_decisions_of_the_bundled_model_survive_fp16_beyond_a_small_margin(deciders, mini_tokenizer):
    """On the CPU, fp16 is run by casts: every tensor is rounded as on a GPU, sums are in fp32."""
    exact, fast = deciders
    compared = 0
    for batch in by_length(mini_tokenizer, 60):
        single, halved = (model.decide(*batch) for model in (exact, fast))
        ids, position, expected = batch
        sentences = ids[:4], position[:4]
        np.testing.assert_allclose(fast.logits(*sentences), exact.logits(*sentences), atol=0.05)
        np.testing.assert_allclose(halved.logits, single.logits, atol=0.05)
        np.testing.assert_allclose(halved.margin(expected), single.margin(expected), atol=0.05)
        wide = np.abs(single.margin(expected)) > 0.05
        assert (halved.repeated(expected) == single.repeated(expected))[wide].all()
        assert wide.mean() > 0.8
        compared += len(expected)
    assert compared == 60 * len(PATTERNS)


def test_all_products_of_the_bundled_model_are_fp16(mini, fp16):
    assert mini.info["fp16"]["kept in fp32"] == []
    products = [node for node in fp16.nodes if node.op_type in {"MatMul", "MultiHeadAttention"}]
    assert mini.info["fp16"]["products"] == len(products) == 44
    assert {value.dtype for node in products for value in node.inputs if is_constant(value)} == {ir.DataType.FLOAT16}
    kinds = operators(fp16)  # residual sums and biases are fused
    assert (kinds["SkipLayerNormalization"], kinds["BiasGelu"], kinds.get("Gelu", 0)) == (12, 7, 0)
    single, half = (mini.folder / name for name in ("model.onnx_data", "model.fp16.onnx_data"))
    assert half.stat().st_size < 0.52 * single.stat().st_size


def test_the_decision_is_fp32_from_the_bias_of_the_vocabulary_on(fp16):
    known = layouts(fp16)
    behind = [node.outputs[0] for node in fp16.nodes if node.op_type in {"Exp", "Log", "TopK", "Sub"}]
    logits = fp16.outputs["logits"]
    assert all(known[value].is_float32 for value in (*behind, logits))
    (product,) = [value for value in logits.producer().inputs if not is_constant(value)]
    assert logits.producer().op_type == "Add"
    assert product.producer().op_type == "Cast"
    assert product.producer().inputs[0].producer().op_type == "MatMul"


def small_graph(scale=1.0, epsilon=None):
    """Two products of a looked-up row, [B, L, 4] → [B, 4] at the mask; the inner tensor is as large as `scale` says."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("MatMul", ["rows", "first"], ["inner"]),
        helper.make_node("Mul", ["inner", "shrink"], ["small"]),
        helper.make_node("Unsqueeze", ["mask_position", "one"], ["index_narrow"]),
        helper.make_node("Cast", ["index_narrow"], ["index"], to=TensorProto.INT64),
        helper.make_node("GatherND", ["small", "index"], ["row"], batch_dims=1),
        helper.make_node("MatMul", ["row", "second"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["logits"]),
    ]
    random = np.random.default_rng(0)
    constants = {
        "table": random.uniform(0.5, 1, (9, 4)),
        "first": np.eye(4) * scale,
        "shrink": np.array(1 / scale if epsilon is None else epsilon),
        "second": random.normal(size=(4, 4)),
        "bias": random.normal(size=4),
    }
    constants = {name: values.astype(np.float32) for name, values in constants.items()}
    return graph_of(
        nodes,
        [("input_ids", TensorProto.INT32, ["batch", "length"]), ("mask_position", TensorProto.INT32, ["batch"])],
        [("logits", TensorProto.FLOAT, ["batch", 4])],
        constants | {"one": np.array([1], np.int64)},
    )


FEEDS = {"input_ids": np.arange(6, dtype=np.int32).reshape(2, 3), "mask_position": np.array([0, 2], np.int32)}


def run(graph):
    return values_of(graph, FEEDS, ["logits"])["logits"]


def halved(graph):
    """The graph in fp16, and what export.json says of it."""
    told = halve(graph, context(peaks=channel_peaks(graph, [FEEDS])))
    return graph, told["fp16"]


def test_values_within_the_range_are_fp16_and_those_beyond_it_stay_fp32_and_exact_in_size():
    for scale in (1.0, 2 * LARGEST / HEADROOM, 1e30):
        graph, told = halved(small_graph(scale))
        kept = [why.partition(":")[0] for why in told["kept in fp32"]]
        assert told["products"] == (2 if scale == 1 else 1)
        assert ("MatMul inner" in kept) == (scale > 1)
        assert np.isfinite(run(graph)).all()
        np.testing.assert_allclose(run(graph), run(small_graph(scale)), rtol=5e-3, atol=5e-3)


def test_a_scalar_that_fp16_would_lose_keeps_its_operator_in_fp32():
    _, told = halved(small_graph(epsilon=1e-12))
    assert [why.split(":")[0] for why in told["kept in fp32"]] == ["Mul small"]
    assert "is 1e-12" in told["kept in fp32"][0]
    assert halve(small_graph(), context())["fp16"]["products"] == 0  # nothing was measured


def normalised(*, twice):
    """LayerNormalization((x A + bias) + x); `twice`, the sum goes on beside it, as where blocks begin with it."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "matrix"], ["product"]),
        helper.make_node("Add", ["bias", "product"], ["biased"]),
        helper.make_node("Add", ["x", "biased"], ["sum"]),
        helper.make_node("LayerNormalization", ["sum", "gamma", "beta"], ["normal"], axis=-1, epsilon=1e-3),
        helper.make_node("Add", ["normal", "sum"] if twice else ["normal", "x"], ["end"]),
        helper.make_node("Identity", ["end"], ["logits"]),
    ]
    random = np.random.default_rng(1)
    shapes = {"table": (9, 4), "matrix": (4, 4), "bias": 4, "gamma": 4, "beta": 4}
    return graph_of(
        nodes,
        [("input_ids", TensorProto.INT32, ["batch", "length"])],
        [("logits", TensorProto.FLOAT, ["batch", "length", 4])],
        {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()},
    )


@pytest.mark.parametrize("twice", [False, True])
def test_a_fused_residual_sum_is_the_same_sum(twice):
    graph = normalised(twice=twice)
    wanted = run(graph)
    fuse_residuals(graph, context())
    kinds = operators(graph)
    assert kinds["SkipLayerNormalization"] == 1
    assert kinds["Add"] == 1
    np.testing.assert_allclose(run(graph), wanted, atol=1e-5)
