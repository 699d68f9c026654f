"""What CPUs compute faster in another form, of the finished fp32 graph."""

import onnx_ir as ir
from onnx import version_converter

from ..graph import Graph, attribute, bias_of, dims, given, is_constant, only_reader, written_by
from ..observe import PROBE, layouts
from .attention import before_repetition
from .context import Context

_ELSEWHERE = "negengine.conversion"
_BLOCK = 16  # channels: a vector of AVX-512
_ACTIVATIONS = ("Gelu", "FastGelu", "Relu", "Tanh")


def use_standard_attention(graph: Graph, _: Context) -> None:
    """Replace MultiHeadAttention by the Attention of the ONNX standard, faster on CPUs.

    MultiHeadAttention copies queries, keys and values into one matrix for each head; Attention reads them where they
    are, also those that several heads share: 0.9 ms instead of 2.7 for 28 sentences of 18 tokens, 12 heads of 64 (one
    core). Demands a finished graph; raises its operator set to 23, the first with Attention.
    """
    if not any(node.op_type == "MultiHeadAttention" for node in graph.nodes):
        return
    for node in graph.nodes:  # ONNX Runtime's own operator in the standard's domain, which the converter does not know
        if node.op_type == "SimplifiedLayerNormalization" and node.domain == "":
            node.domain = _ELSEWHERE
    graph.model.graph.opset_imports[_ELSEWHERE] = 1
    graph.become(version_converter.convert_version(graph.proto(), 23))
    graph.model.graph.opset_imports.pop(_ELSEWHERE, None)
    for node in graph.nodes:
        if node.domain == _ELSEWHERE:
            node.domain = ""
        if node.op_type == "MultiHeadAttention":
            graph.replace(node.outputs[0], _standard(graph, node))


def _standard(graph: Graph, node: ir.Node) -> ir.Value:
    projections, scores_bias = list(node.inputs[:3]), [*node.inputs[5:], None][0]
    heads = attribute(node, "num_heads")
    (key, times), (value, times_of_value) = map(before_repetition, projections[1:])
    if times == times_of_value:
        projections[1:] = [key, value]
    else:
        times = 1
    inputs = [*projections, *([scores_bias] if scores_bias is not None else [])]
    further = {"scale": attribute(node, "scale")} if "scale" in node.attributes else {}
    if attribute(node, "unidirectional", 0):
        further["is_causal"] = 1
    return graph.add("Attention", inputs, "context", q_num_heads=heads, kv_num_heads=heads // times, **further)


def multiply_by_rows(graph: Graph, _: Context) -> None:
    """Multiply by a table that is looked up, too, as it lies in the file; a session would transpose a copy of it.

    Demands a finished graph.
    """
    known = layouts(graph)
    for node in [node for node in graph.nodes if node.op_type == "MatMul" and len(known[node.outputs[0]].shape) == 2]:
        turned = written_by(node.inputs[1], "Transpose")
        if turned is None or not is_constant(turned.inputs[0]):
            continue
        output, bias = _with_bias(node.outputs[0])
        graph.replace(output, graph.add("Gemm", [node.inputs[0], turned.inputs[0], *bias], "product", transB=1))


def _with_bias(product: ir.Value) -> tuple[ir.Value, list[ir.Value]]:
    """What a product is with the bias that alone reads it, and the bias, if there is one."""
    add = only_reader(product, "Add")
    biased = bias_of(add)
    return (product, []) if add is None or biased is None else (add.outputs[0], [biased[1]])


def convolve(graph: Graph, _: Context) -> None:
    """Replace the products over all positions by 1 × 1 convolutions over the tokens as pixels.

    With AVX-512 on a core: 159 GFLOP/s, where MatMul reaches 131 and MKL 150 (504 × 768 by 768 × 3,072). The sums are
    the same, their order differs. A session transposes the weights once, so that they stay what they are on disk.
    Demands a finished graph.
    """
    known = layouts(graph)
    blocked: dict[ir.Value, ir.Value] = {}  # [batch, length, channels] -> the same as [1, channels, batch, length]
    kernels: dict[ir.Value, ir.Value] = {}  # [in, out] -> [out, in, 1, 1]
    first = graph.numbers(0, stem="axis")
    products = [node for node in graph.nodes if node.op_type == "MatMul" and len(dims(node.inputs[1])) == 2]
    products = [node for node in products if known[given(node.inputs[0])].shape[:-1] == PROBE]
    for node in [node for node in products if not any(size % _BLOCK for size in dims(node.inputs[1]))]:
        tokens, weights = map(given, node.inputs)
        if tokens not in blocked:
            image = graph.add("Unsqueeze", [tokens, first], "image")
            blocked[tokens] = graph.add("Transpose", [image], "channels", perm=[0, 3, 1, 2])
        if weights not in kernels:  # of four axes in the file: a session would copy what a node adds axes to
            pixels = graph.reshaped(weights, (*dims(weights), 1, 1), "pixels")
            kernels[weights] = graph.add("Transpose", [pixels], "kernel", perm=[1, 0, 2, 3])
        output, bias = _with_bias(node.outputs[0])
        result = graph.add("Conv", [blocked[tokens], kernels[weights], *bias], "convolved", kernel_shape=[1, 1])
        active = only_reader(output, *_ACTIVATIONS)
        if active is not None and len(active.inputs) == 1:
            result = graph.add(active.op_type, [result], "active", domain=active.domain)
            output = active.outputs[0]
        back = graph.add("Transpose", [result], "tokens", perm=[0, 2, 3, 1])
        back = graph.add("Squeeze", [back, first], "tokens")
        graph.replace(output, back)
        blocked[back] = result
