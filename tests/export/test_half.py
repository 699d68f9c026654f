"""The fp16 twin decides as the fp32 graph does, and keeps in fp32 what fp16 cannot hold."""

import numpy as np
import onnx
import pytest
from negengine.engine.inference.model import MaskedLM
from negengine.engine.sentences.lexicon import load_lexicon
from negengine.engine.sentences.patterns import load_patterns
from negengine.export.graph import Graph, observe, save
from negengine.export.passes.half import HEADROOM, LARGEST, half
from negengine.export.passes.residual import fuse_residuals
from onnx import TensorProto, helper, numpy_helper

PATTERNS = load_patterns().all


def by_length(tokenizer, n, seed):
    """Random sentences of all patterns, the verb before the mask expected, a batch for each length."""
    lexicon, random = load_lexicon(), np.random.default_rng(seed)
    groups = {}
    for pattern in PATTERNS:
        for _ in range(n):
            name = random.integers(len(lexicon.names))
            verb = lexicon.verbs[random.integers(len(lexicon.verbs))]
            fillers = {
                "NAME": lexicon.names[name],
                "PROF": lexicon.professions[random.integers(len(lexicon.professions))],
                "ACT": verb,
                "PRON": "she" if lexicon.genders[name] == "f" else "he",
            }
            ids, expected = tokenizer.encode([pattern.text(fillers, tokenizer.mask_token), verb])
            groups.setdefault(len(ids), []).append((ids, expected[1]))
    batches = []
    for group in groups.values():
        ids = np.stack([ids for ids, _ in group]).astype(np.int32)
        position = np.argmax(ids == tokenizer.mask_id, axis=1).astype(np.int32)
        expected = np.array([token for _, token in group], np.int32)
        batches.append({"input_ids": ids, "mask_position": position, "expected_id": expected})
    return batches


@pytest.fixture(scope="module")
def low_precision(mini, mini_tokenizer):
    return half(Graph(onnx.load(mini.graph)), by_length(mini_tokenizer, 10, seed=1))


@pytest.fixture(scope="module")
def deciders(mini, twin, tmp_path_factory):
    (path,) = save(twin.graph.model, tmp_path_factory.mktemp("half") / "model.fp16.onnx")
    return MaskedLM(mini), MaskedLM(mini, graph=path)


def test_decisions_of_the_bundled_model_survive_fp16_beyond_a_small_margin(deciders, mini_tokenizer):
    """On the CPU, fp16 is run by casts: every tensor is rounded as on a GPU, sums are in fp32."""
    exact, fast = deciders
    compared = 0
    for batch in by_length(mini_tokenizer, 60, seed=2):
        single, halved = (model.decide(*batch.values()) for model in (exact, fast))
        expected = batch["expected_id"]
        np.testing.assert_allclose(halved.logits, single.logits, atol=0.05)
        np.testing.assert_allclose(halved.margin(expected), single.margin(expected), atol=0.05)
        wide = np.abs(single.margin(expected)) > 0.05
        assert (halved.repeated(expected) == single.repeated(expected))[wide].all()
        assert wide.mean() > 0.8
        compared += len(expected)
    assert compared == 60 * len(PATTERNS)


def test_logits_are_as_close_as_fp16_rounds(deciders, mini_tokenizer):
    exact, fast = deciders
    batch = by_length(mini_tokenizer, 4, seed=3)[0]
    ids, position = batch["input_ids"], batch["mask_position"]
    np.testing.assert_allclose(fast.logits(ids, position), exact.logits(ids, position), atol=0.05)


def test_all_products_of_the_bundled_model_are_fp16(twin):
    assert twin.kept == ()
    products = [node for node in twin.graph.nodes if node.op_type in {"MatMul", "MultiHeadAttention"}]
    assert twin.products == len(products) == 44
    constants = [name for node in products for name in node.input if name in twin.graph.constants]
    assert {twin.graph.constants[name].data_type for name in constants} == {TensorProto.FLOAT16}


def test_the_decision_is_fp32_from_the_bias_of_the_vocabulary_on(twin, mini_tokenizer):
    graph = twin.graph
    behind = [node.output[0] for node in graph.nodes if node.op_type in {"Exp", "Log", "TopK", "Sub"}]
    values = observe(graph.model, by_length(mini_tokenizer, 1, seed=4)[0], [*behind, "logits"])
    assert {array.dtype for array in values.values()} == {np.dtype(np.float32)}
    assert graph.producer["logits"].op_type == "Add"
    (product,) = [name for name in graph.producer["logits"].input if name in graph.producer]
    cast = graph.producer[product]
    assert cast.op_type == "Cast"
    assert graph.producer[cast.input[0]].op_type == "MatMul"


def test_residual_sums_and_biases_are_fused_in_the_twin(twin):
    kinds = [node.op_type for node in twin.graph.nodes]
    assert kinds.count("SkipLayerNormalization") == 12
    assert kinds.count("BiasGelu") == 7
    assert "Gelu" not in kinds


def test_the_twin_is_half_as_large(mini, twin):
    assert twin.graph.model.ByteSize() < 0.52 * sum(path.stat().st_size for path in mini.folder.glob("model.onnx*"))


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
    initializers = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()]
    initializers.append(numpy_helper.from_array(np.array([1], np.int64), "one"))
    inputs = [
        helper.make_tensor_value_info("input_ids", TensorProto.INT32, ["batch", "length"]),
        helper.make_tensor_value_info("mask_position", TensorProto.INT32, ["batch"]),
    ]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 4])]
    graph = helper.make_graph(nodes, "small", inputs, outputs, initializers)
    return Graph(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


FEEDS = {"input_ids": np.arange(6, dtype=np.int32).reshape(2, 3), "mask_position": np.array([0, 2], np.int32)}


def run(graph):
    return observe(graph.model, FEEDS, ["logits"])["logits"]


def test_values_within_the_range_are_fp16():
    graph = small_graph()
    found = half(graph, [FEEDS])
    assert found.kept == ()
    assert found.products == 2
    np.testing.assert_allclose(run(found.graph), run(graph), rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("scale", [2 * LARGEST / HEADROOM, 1e6, 1e30])
def test_values_near_or_beyond_the_range_stay_fp32_and_exact_in_size(scale):
    graph = small_graph(scale)
    found = half(graph, [FEEDS])
    assert any(why.startswith("MatMul inner") for why in found.kept)
    assert found.products == 1
    result = run(found.graph)
    assert np.isfinite(result).all()
    np.testing.assert_allclose(result, run(graph), rtol=5e-3, atol=5e-3)


def test_a_scalar_that_fp16_would_lose_keeps_its_operator_in_fp32():
    graph = small_graph(epsilon=1e-12)
    found = half(graph, [FEEDS])
    assert [why.split(":")[0] for why in found.kept] == ["Mul small"]
    assert "is 1e-12" in found.kept[0]


def test_the_graph_given_is_not_changed():
    graph = small_graph()
    before = graph.model.SerializeToString()
    half(graph, [FEEDS])
    assert graph.model.SerializeToString() == before


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
    constants = [numpy_helper.from_array(random.normal(size=s).astype(np.float32), k) for k, s in shapes.items()]
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT32, ["batch", "length"])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "length", 4])]
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "normalised", inputs, outputs, constants)
    return Graph(helper.make_model(graph, opset_imports=domains, ir_version=8))


@pytest.mark.parametrize("twice", [False, True])
def test_a_fused_residual_sum_is_the_same_sum(twice):
    graph = normalised(twice=twice)
    wanted = run(graph)
    fuse_residuals(graph)
    kinds = [node.op_type for node in graph.nodes]
    assert kinds.count("SkipLayerNormalization") == 1
    assert kinds.count("Add") == 1
    np.testing.assert_allclose(run(graph), wanted, atol=1e-5)
