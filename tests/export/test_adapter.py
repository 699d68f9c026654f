"""A LoRA adapter is named as one, and merged with its base on request; whatever does not fit is refused."""

import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.exported import load_exported
from negengine.engine.results.verification.model import export_again
from negengine.export.build import build
from negengine.export.check import check
from negengine.export.checkpoint import load
from negengine.export.inventory import load_model
from negengine.export.reference import torch_reference
from negengine.export.source import locate
from negengine.export.tasks import FILL_MASK, TEXT_GENERATION
from transformers import AutoTokenizer

from .situations import PLAIN, QUERY, linear, save_adapter

EVA = {"init_lora_weights": "eva", "eva_config": {"rho": 2.0}}
BIAS = "bert.encoder.layer.1.output.dense.bias"
OF_GPT2 = "transformer.h.0.attn.c_attn"


def weights(reference, base=None, task=FILL_MASK):
    return load_model(load(locate(str(reference), base=base and str(base)), task.head), task.head).state_dict()


@pytest.mark.parametrize(("family", "is_rs"), [("bert", False), ("bert", True), ("gpt2", False)])
def test_what_is_merged_is_the_formula_of_lora(family, is_rs, checkpoint, causal_checkpoint, tmp_path):
    """A layer that was trained as a whole replaces that of the base; GPT-2 stores its layers the other way round."""
    base, layer, task = checkpoint("bert"), QUERY, FILL_MASK
    if family == "gpt2":
        base, layer, task = causal_checkpoint("gpt2"), OF_GPT2, TEXT_GENERATION
    before = weights(base, task=task)
    rows, columns = before[f"{layer}.weight"].shape[:: -1 if family == "gpt2" else 1]
    whole = {BIAS: before[BIAS].shape} if family == "bert" else {}
    own = save_adapter(tmp_path / "lora", linear(layer, columns, rows) | whole, use_rslora=is_rs)
    product = 6 / (2**0.5 if is_rs else 2) * own[f"{layer}.lora_B.weight"] @ own[f"{layer}.lora_A.weight"]
    product = product.T if family == "gpt2" else product
    expected = before | {f"{layer}.weight": before[f"{layer}.weight"] + product} | {name: own[name] for name in whole}
    torch.testing.assert_close(weights(tmp_path / "lora", base, task), expected)


def test_an_export_of_an_adapter_knows_its_base(checkpoint, tmp_path):
    base, lora = checkpoint("bert"), tmp_path / "lora"
    save_adapter(lora, linear(QUERY, *weights(base)[f"{QUERY}.weight"].shape))
    assert check(str(lora), base=str(base)).possible
    said = []
    exported = load_exported(build(str(lora), tmp_path / "out", base=str(base)))
    assert (exported.name, exported.info["origin"]) == ("lora", str(lora))
    assert f"negengine export {lora} --base {base} --output" in export_again(exported)
    build(str(lora), tmp_path / "out", base=str(base), say=said.append)
    other = f"the adapter was trained on lab/tiny, and is merged with {base}"
    assert said == [other, f"{tmp_path / 'out'} is up to date (--force builds it again)"]
    assert other in [finding.said for finding in check(str(lora), base=str(base)).findings]
    with pytest.raises(InputError, match="was exported from another checkpoint"):
        torch_reference(str(base), exported)


def test_an_adapter_alone_of_another_kind_or_cut_off_is_named(checkpoint, tmp_path, monkeypatch):
    base, lora = str(checkpoint("bert")), tmp_path / "lora"

    def refused(said, *reference, base=None):
        with pytest.raises(InputError, match=said):
            locate(*reference or [str(lora)], base=base)

    save_adapter(lora, linear(QUERY, 4, 4))
    refused("lora is a LoRA adapter of lab/tiny, not a model: give --base lab/tiny to")
    refused("bert is not the folder of a LoRA adapter", base, base=base)
    refused("give the revision of its base as --base lab/tiny@v1", str(lora), "v1", base="lab/tiny")
    file = lora / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    found = {one.what: one.said for one in check(str(lora), base=base).findings if not one.possible}
    assert "adapter_model.safetensors is damaged or cut off" in found["weights"]
    (lora / "adapter_config.json").write_text('{"lora_alpha": "six"}')
    refused(r"adapter_config\.json: not as peft writes it")
    found = lambda *_, revision: tmp_path / revision / "config.json"  # noqa: E731
    monkeypatch.setattr("huggingface_hub.hf_hub_download", found)
    save_adapter(lora, {})
    assert locate(str(lora), base="lab/tiny@v1").base == "lab/tiny@v1"


@pytest.mark.parametrize("first", [{"init_lora_weights": own} for own in (False, "gaussian", "orthogonal")] + [EVA])
def test_first_values_that_leave_the_base_as_it_is_are_those_of_a_plain_lora(first, checkpoint, tmp_path):
    save_adapter(tmp_path / "lora", linear(QUERY, 4, 4), **PLAIN | first)
    assert locate(str(tmp_path / "lora"), base=str(checkpoint("bert"))).adapter == tmp_path / "lora"


def test_the_tokenizer_of_an_adapter_is_used(checkpoint, tmp_path):
    base, lora = checkpoint("bert"), tmp_path / "lora"
    save_adapter(lora, linear(QUERY, *weights(base)[f"{QUERY}.weight"].shape))
    plain = load(locate(str(lora), base=str(base)), FILL_MASK.head).tokenizer
    own = AutoTokenizer.from_pretrained(base)
    token = own.convert_ids_to_tokens(7)
    own.add_tokens(["smurfing"], special_tokens=False)
    own.save_pretrained(lora)
    found = load(locate(str(lora), base=str(base)), FILL_MASK.head).tokenizer
    assert found.tokenize("smurfing") == ["smurfing"] != plain.tokenize("smurfing")
    assert found.convert_ids_to_tokens(7) == token


@pytest.mark.parametrize(
    ("trained", "revision", "is_said"),
    [
        ("lab/checkpoint-bert", None, False),
        ("lab/tiny", None, True),
        ("lab/checkpoint-bert", "v2", True),
        (None, None, False),
    ],
)
def test_another_base_than_the_adapter_names_is_said(trained, revision, is_said, checkpoint, tmp_path):
    said, base = [], checkpoint("bert")
    save_adapter(tmp_path / "lora", linear(QUERY, 4, 4), base_model_name_or_path=trained, revision=revision)
    locate(str(tmp_path / "lora"), None, said.append, str(base))
    name = f"{trained}@{revision}" if revision else trained
    assert said == [f"the adapter was trained on {name}, and is merged with {base}"] * is_said
