"""Checkpoints of quantised weights: those that become floating numbers on any machine give the numbers they stand for.

The weights are quantised here as their authors define it, by plain loops over blocks, and the right logits are those of
a model that gets the numbers themselves.
"""

import json

import pytest
import torch
import transformers as hf
from causal_checkpoints import byte_level
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.exported import load_exported
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.checkpoint import UNQUANTISED, load
from negengine.export.inventory import load_counted
from negengine.export.source import locate
from negengine.export.tasks import TASKS
from safetensors.torch import load_file, save_file
from tiny_checkpoints import random_model, save

WEIGHTS, HEAD = "model.safetensors", TASKS["text-generation"].head
SIZES = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
SIZES |= {"max_position_embeddings": 130, "bos_token_id": 0, "eos_token_id": 0, "pad_token_id": None}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2, "num_key_value_heads": 2, "head_dim": 16}
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])  # OCP's microscaling formats


def fp8(weight, block=16):
    """DeepSeek's form: a scale for each square of a matrix. Returns what is stored, and the numbers."""
    stored, scales = torch.empty(weight.shape, dtype=torch.float8_e4m3fn), []
    for row in range(0, len(weight), block):
        scales.append([])
        for column in range(0, weight.shape[1], block):
            square = weight[row : row + block, column : column + block]
            scales[-1].append(square.abs().max() / 448)
            stored[row : row + block, column : column + block] = (square / scales[-1][-1]).to(stored.dtype)
    scales = torch.tensor(scales)
    each = scales.repeat_interleave(block, 0).repeat_interleave(block, 1)
    return {"weight": stored, "weight_scale_inv": scales}, stored.float() * each


def mxfp4(weight):
    """gpt-oss's form: a power of two for each 32 numbers of an expert's output, two numbers in a byte."""
    groups = weight.transpose(1, 2).unflatten(2, (-1, 32))
    powers = torch.floor(torch.log2(groups.abs().amax(-1) / 4))
    scale = torch.exp2(powers)[..., None]
    nearest = (groups[..., None] / scale[..., None] - E2M1).abs().argmin(-1)
    blocks = (nearest[..., 0::2] + 16 * nearest[..., 1::2]).to(torch.uint8)
    numbers = (E2M1[nearest] * scale).flatten(2).transpose(1, 2).contiguous()
    return {"_blocks": blocks, "_scales": (powers + 127).to(torch.uint8)}, numbers


FORMS = {
    "fp8": (hf.LlamaConfig, {}, "_proj.weight", "weight", fp8, {"weight_block_size": [16, 16], "fmt": "e4m3"}),
    "mxfp4": (hf.GptOssConfig, EXPERTS, ("gate_up_proj", "down_proj"), "", mxfp4, {}),
}


@pytest.fixture
def saved(tmp_path):
    """A model of the numbers that the quantised weights of a folder stand for, and the folder."""

    def make(method):
        family, sizes, quantised, ending, quantise, told = FORMS[method]
        words = byte_level()
        model = random_model(hf.AutoModelForCausalLM, family(vocab_size=len(words), **SIZES | sizes))
        folder = save(tmp_path / "tiny", model, words)
        tensors, numbers = {}, {}
        for name, own in load_file(folder / WEIGHTS).items():
            if name.endswith(quantised):
                stored, numbers[name] = quantise(own)
                tensors |= {name.removesuffix(ending) + key: value for key, value in stored.items()}
            else:
                tensors[name] = numbers[name] = own
        model.load_state_dict(numbers, strict=False)
        save_file(tensors, folder / WEIGHTS, {"format": "pt"})
        config = json.loads((folder / "config.json").read_text("utf-8"))
        config["quantization_config"] = {"quant_method": method, **told}
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
        return model, folder

    return make


def without(folder, ending):
    kept = {key: own for key, own in load_file(folder / WEIGHTS).items() if not key.endswith(ending)}
    save_file(kept, folder / WEIGHTS, {"format": "pt"})


@pytest.mark.parametrize("method", few(FORMS, "fp8"))
def test_the_numbers_that_quantised_weights_stand_for_are_read(method, saved, tmp_path):
    model, folder = saved(method)
    found, inventory = load_counted(load(locate(str(folder)), HEAD), HEAD)
    ids = torch.arange(1, 40)[None]
    with torch.inference_mode():
        wanted = model(input_ids=ids).logits
        torch.testing.assert_close(found(input_ids=ids).logits, wanted, rtol=0, atol=1e-5 * float(wanted.abs().max()))
    assert inventory.lines() == [f"its weights are quantised ({method}); the numbers that they stand for are the model"]
    assert check(str(folder)).possible
    exported = load_exported(build(str(folder), tmp_path / "out"))
    assert exported.info["parity"]["top1_agreement"] == 1
    assert "quantization_config" not in json.loads((exported.folder / "config.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("method", "ending"), [("fp8", "1.mlp.up_proj.weight_scale_inv"), ("mxfp4", "1.mlp.experts.down_proj_scales")]
)
def test_quantised_weights_without_their_scales_are_refused(method, ending, saved, tmp_path):
    _, folder = saved(method)
    without(folder, ending)
    with pytest.raises(InputError) as caught:
        build(str(folder), tmp_path / "out")
    (against,) = [finding.said for finding in check(str(folder)).findings if not finding.possible]
    assert str(caught.value).endswith(against)
    assert "\n" not in against
    assert against.endswith(f"without the scales of {method}): {UNQUANTISED}")
