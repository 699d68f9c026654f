"""Where ONNX Runtime would run the exported graphs on CUDA, shown without a GPU.

Its own CUDA provider starts on stand-in libraries (tests/stand_in) that compute nothing. Which nodes it takes, which
attention kernels it chooses is real; speed and numbers are not tested.
"""

import pytest
import torch
from few import few
from negengine.engine.inference.exported import load_exported
from negengine.export.build import build
from transformers import PreTrainedTokenizerFast, RobertaConfig, RobertaForMaskedLM

CUDA, LENGTHS = "CUDAExecutionProvider", [18, 27]
TOKENS = 16384  # in a batch


@pytest.fixture(scope="module")
def roberta_base(tmp_path_factory, small_tokenizers):
    """Two layers of roberta-base's shape, with random weights and a small vocabulary."""
    tokenizer = small_tokenizers["byte-level BPE"]
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend, mask_token=tokenizer.mask_token, pad_token="<pad>"
    )
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=len(wrapped), num_hidden_layers=2, max_position_embeddings=514)
    folder = tmp_path_factory.mktemp("roberta")
    RobertaForMaskedLM(config).save_pretrained(folder / "checkpoint")
    wrapped.save_pretrained(folder / "checkpoint")
    return load_exported(build(str(folder / "checkpoint"), folder / "exported"))


GRAPHS = {"single": "model.onnx", "half": "model.fp16.onnx"}


@pytest.mark.parametrize("precision", GRAPHS)
@pytest.mark.parametrize(("shape", "layers"), [("mini", 6), ("roberta_base", 2)])
def test_every_node_runs_on_cuda_and_attention_in_fp16_is_flash_attention(
    shape, layers, precision, request, place_on_cuda
):
    exported = request.getfixturevalue(shape)
    streams = place_on_cuda(exported.folder / GRAPHS[precision], TOKENS, LENGTHS)
    assert set(streams.operators) == {CUDA}
    kinds = streams.operators[CUDA]
    assert (kinds["MultiHeadAttention"], kinds["TopK"]) == (layers, 1)
    assert set(streams.kernels) == {"FLASH_ATTENTION" if precision == "half" else "MATH"}
    assert len(streams.kernels) % layers == 0
    if precision == "half":  # it normalises and activates by fused kernels
        assert (kinds["SkipLayerNormalization"], kinds["BiasGelu"]) == (2 * layers, layers + 1)
    assert (streams.options["use_tf32"], streams.options["device_id"]) == ("0", "1")
    assert int(streams.options["gpu_mem_limit"]) < 64 << 30


@pytest.mark.parametrize("precision", GRAPHS)
@pytest.mark.parametrize("family", few(["mpnet", "deberta-v3", "modernbert"], "modernbert"))
def test_other_families_leave_no_more_than_shape_arithmetic_to_the_cpu(family, precision, exported, place_on_cuda):
    placed = place_on_cuda(exported(family) / GRAPHS[precision], TOKENS, [18])
    on_cpu = set(placed.operators.get("CPUExecutionProvider", {}))
    assert not on_cpu & {"MatMul", "Gemm", "MultiHeadAttention", "Softmax", "LayerNormalization", "Gelu", "TopK"}
    assert placed.operators[CUDA]["MatMul"] > 10
