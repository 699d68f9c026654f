"""What CUDA computes in fewer bytes, of the finished fp32 graph: log-sum-exp without a copy.

Counted for bert-base (28,996 tokens) on an H200, where a sentence takes 9.1 µs in fp16, and not built:

- `select` without rank and log-sum-exp, by outputs that are not fetched, would save 1.2 MB a sentence (the logits in
  fp32, six times), 0.6 µs. But `answers.parquet` has both for the kept triplets. They would run a second time: 20 verbs
  of 18,200 pairs are 3.3 % of all sentences, 0.3 µs.
- One product for queries, keys and values has the operations of three, and on an H200 as many rounds of tiles: by the
  simulation 0 µs, on an A100 0.3 of 3.3. It saves 24 kernels of a batch, 0.1 µs of a thread that launches them.
- The best logits once more in fp32, as int8 has it, would lower 0.64 % of close calls to 0.51 % (margins rounded to
  fp16), 0.08 µs. It costs five columns of the vocabulary's matrix for each sentence, 120 kB in pieces, 0.03 µs, and
  five more kernels a batch, 0.03 µs.
- TF32 for close calls is 3.1 times as fast as fp32 (measured), but its products have 11 significant bits, as fp16's: it
  cannot decide what fp16 cannot.
- Fewer audits in fp32 would save at most 0.15 % of the sentences, 0.9 s in all, and cost the bound of 0.02 %.
- FP8 would double the products of an H100 and save at most 2.4 µs. Its error is about 100 times that of fp16, so more
  than 8 % of the decisions would be close calls, which cost 0.7 µs for each 1 %. Only TensorRT's provider has it.
"""

import numpy as np

from ..graph import Array, Graph, array, bias_of, dims, given, is_constant, like, only_reader, written_by
from .context import Context
from .outputs import ADDED_AT_ONCE

LOWEST = -8000.0  # logit of what is not a token: below all logits, and within the range of fp16


def fill_vocabulary(graph: Graph, context: Context) -> None:
    """Fill the vocabulary up to whole rows of 256, for faster products and a log-sum-exp without a copy.

        logits = x W + b    ->   x [W 0] + [b LOWEST]

    A column that is not a token is never the best, counts in no rank, and adds nothing to the sum. Kernels of products
    in fp16 want multiples of 8 columns, which 28,996 and 50,265 tokens are not. Demands the finished graph of a
    language model, whose logits are a product with a constant, and perhaps a bias.
    """
    logits = graph.outputs["logits"]
    value, bias = bias_of(written_by(logits, "Add")) or (logits, None)
    product, tokens = written_by(value, "MatMul"), context.vocabulary
    if product is None or tokens < ADDED_AT_ONCE or (value is not logits and len(value.consumers()) > 1):
        return
    row, weight = map(given, product.inputs)
    transpose = written_by(weight, "Transpose")
    table = given(transpose.inputs[0]) if transpose is not None else weight
    if not is_constant(table) or dims(table)[0 if transpose is not None else -1] != tokens:
        return
    width, filled = dims(table)[1 if transpose is not None else 0], tokens + -tokens % ADDED_AT_ONCE

    def widened() -> Array:
        rows = np.zeros((filled, width), np.float32)  # as most tables lie: else each number would be fetched alone
        rows[:tokens] = array(table) if transpose is not None else array(table).T
        return rows.T

    columns = graph.later(widened, table, (width, filled), "vocabulary")
    lowest = np.full(filled, LOWEST, np.float32)
    lowest[:tokens] = array(bias) if bias is not None else 0
    wider = graph.add("MatMul", [row, columns], "products")
    like(wider, value)
    every = graph.add("Add", [wider, graph.constant(lowest, "bias")], "all_logits")
    like(every, value)
    plain = graph.add("Slice", [every, *map(graph.numbers, (0, tokens, -1))], "logits")
    graph.replace(logits, plain)
    for node in list(plain.consumers()):
        node.replace_input_with(list(node.inputs).index(plain), every)
        added = only_reader(node.outputs[0], "Exp") if node.op_type == "Sub" else None
        whole = only_reader(added.outputs[0], "Pad") if added is not None else None
        if whole is not None:
            graph.replace(whole.outputs[0], given(whole.inputs[0]))
