"""A model whose numbers are not finite for a text says nothing about it, and about others what it says without it."""

import numpy as np
import onnx
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.batches import finished
from negengine.engine.inference.free_text import encode_texts, reduce_logits
from negengine.engine.inference.model import MaskedLM
from negengine.engine.text.token_ids import in_buckets
from onnx import numpy_helper

SENTENCES = ["A dancer is a [MASK].", "A doctor is a [MASK].", "A bird is a [MASK]."]


@pytest.fixture(scope="module")
def damaged(mini, tmp_path_factory):
    """The bundled model with an embedding that is not a number."""
    graph = onnx.load(mini.folder / "model.onnx")
    [weights] = [own for own in graph.graph.initializer if own.name.endswith("word_embeddings.weight")]
    rows = numpy_helper.to_array(weights).copy()
    rows[mini.tokenizer.backend.token_to_id("doctor")] = np.nan
    graph.graph.initializer.append(numpy_helper.from_array(rows, "damaged"))
    [read] = [node for node in graph.graph.node if node.op_type == "Gather" and node.input[0] == weights.name]
    read.input[0] = "damaged"  # the decoder, which has the same weights, stays as it is
    path = tmp_path_factory.mktemp("damaged") / "model.onnx"
    onnx.save(graph, path)
    return MaskedLM(mini, graph=path)


def test_a_text_with_numbers_that_are_not_finite_is_refused_by_its_words(mini, damaged):
    tokenizer, sound = mini.tokenizer, MaskedLM(mini)
    message = r"^mini computes numbers that are not finite \(NaN or infinite\) for .*doctor.*, which say nothing: "
    for texts in (SENTENCES, SENTENCES[1:2]):
        encoded = encode_texts(mini, tokenizer, texts)
        [bucket] = in_buckets(encoded, tokenizer.mask_id)
        asked = bucket.ids, bucket.mask_position, np.zeros(len(bucket.ids), np.int32)
        for ask in (
            lambda asked=asked: finished(damaged.deciding(*asked)),
            lambda asked=asked: damaged.logits(*asked[:2]),
            lambda own=encoded: reduce_logits(damaged, own, tokenizer.mask_id, lambda _, logits: logits),
        ):
            with pytest.raises(InputError, match=message) as told:
                ask()
            assert "doctor" in str(told.value)
    [bucket] = in_buckets(encode_texts(mini, tokenizer, [SENTENCES[0], SENTENCES[2]]), tokenizer.mask_id)
    asked = bucket.ids, bucket.mask_position, np.zeros(2, np.int32)
    np.testing.assert_allclose(damaged.logits(*asked[:2]), sound.logits(*asked[:2]), rtol=0, atol=1e-4)
