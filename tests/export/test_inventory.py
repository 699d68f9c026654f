"""Checkpoints as people have them: what is read is what was saved, or one line says why not, the same for --check.

Each case changes a tiny checkpoint as a program that people use leaves it. The right numbers are those of the model in
memory before it was saved, which no code of this project has read.
"""

import json
import logging
import shlex
import sys
import warnings
from contextlib import suppress

import pytest
import torch
import transformers as hf
from negengine.engine.basics.errors import InputError
from negengine.engine.inference.exported import load_exported
from negengine.export.build import build
from negengine.export.checkpoint import load, load_config, load_tokenizer
from negengine.export.families import padding_id
from negengine.export.inventory import load_counted
from negengine.export.known_keys import refuse_unread
from negengine.export.quiet import quiet
from negengine.export.source import locate
from negengine.export.tasks import FILL_MASK, task_of
from tokenizers import Tokenizer
from transformers.utils import logging as transformers_logging

from .situations import READ, bert, roberta


def logits_of(model):
    ids = torch.tensor([[1, 7, 3, 9, 6, 2]])
    with torch.inference_mode():
        return model(input_ids=ids).logits


def read(folder):
    """The model as an export reads it; and what it says of it."""
    source = locate(str(folder))
    task = task_of(load_config(source))
    return load_counted(load(source, task.head), task.head)


@pytest.mark.parametrize("case", READ)
def test_what_is_read_is_what_was_saved(case, saved):
    own = READ[case]
    model, folder = saved(own.family, **own.sizes)
    own.change(folder)
    found, inventory = read(folder)
    torch.testing.assert_close(logits_of(found), logits_of(model), rtol=1e-5, atol=1e-5)
    assert inventory.is_untied == case.startswith("a head of its own")
    if inventory.is_untied:
        assert "its head has weights of its own" in inventory.lines()[0]
    if inventory.unused:
        assert {"bert.pooler.dense.weight", "cls.seq_relationship.weight", "cls.species.bias"} <= {*inventory.unused}
        assert inventory.lines()[-1].endswith(f"not needed for the task, such as {inventory.unused[0]}")


# What the config.json of a published checkpoint holds beside the keys of its class.
PUBLISHED = {
    "albert-base-v2": (
        "albert",
        {"down_scale_factor": 1, "gap_size": 0, "net_structure_type": 0, "num_memory_blocks": 0},
    ),
    "gpt2": ("gpt2", {"n_ctx": 1024, "summary_type": "cls_index", "summary_use_proj": True}),
    "EleutherAI/gpt-j-6b": ("gptj", {"rotary": True, "scale_attn_weights": True, "gradient_checkpointing": False}),
    "bigscience/bloom-560m": (
        "bloom",
        {"seq_length": 2048, "offset_alibi": 100, "masked_softmax_fusion": True, "skip_bias_add": True, "n_embed": 1024}
        | {"bias_dropout_fusion": True, "skip_bias_add_qkv": False, "attention_softmax_in_fp32": True},
    ),
    "microsoft/deberta-base": ("deberta", {"padding_idx": 0, "pooler_dropout": 0, "position_biased_input": False}),
    "allenai/longformer-base-4096": ("longformer", {"attention_mode": "longformer", "ignore_attention_mask": False}),
    "HuggingFaceTB/SmolLM2-135M": ("llama", {"is_llama_config": True, "rope_interleaved": False}),
    "flaubert/flaubert_base_cased": ("flaubert", {"bptt": 512, "lgs": "fr", "max_vocab": -1, "share_inout_emb": True}),
    "cross-encoder/nli-roberta-base": (
        "roberta",
        {"sentence_transformers": {"version": "4.1.0"}, "gradient_checkpointing": 0},
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_keys_of_published_checkpoints_that_change_nothing_are_known(name):
    kind, written = PUBLISHED[name]
    refuse_unread(name, hf.AutoConfig.for_model(kind), written)


@pytest.mark.everything
def test_each_key_that_the_installed_transformers_writes_is_known():
    kinds = {kind for head in (hf.AutoModelForMaskedLM, hf.AutoModelForCausalLM) for kind in head._model_mapping}
    made = []
    for kind in kinds:
        with suppress(Exception):  # some have no defaults
            made.append(kind())
    assert len(made) > 150
    for config in made:
        refuse_unread(config.model_type, config, json.loads(config.to_json_string(use_diff=False)))


# ---------------------------------------------------------------- tokenizers
def test_merges_are_not_left_out_at_random(saved, small_tokenizers):
    """A BPE with dropout, which is meant for its training, gives other tokens each time."""
    _, folder = saved(roberta)
    whole = small_tokenizers["byte-level BPE"].backend
    own = Tokenizer.from_str(whole.to_str())
    own.model.dropout = 0.9
    own.save(str(folder / "tokenizer.json"))
    source, text = locate(str(folder)), "She is happy to dance."
    found = load_tokenizer(source, load_config(source), FILL_MASK.head).backend_tokenizer
    assert len({tuple(own.encode(text).ids) for _ in range(9)}) > 1
    assert {tuple(found.encode(text).ids) for _ in range(9)} == {tuple(whole.encode(text).ids)}


def test_warnings_that_say_something_of_numbers_are_said_once_in_one_line(capsys):
    heard = []
    transformers_logging.set_verbosity_error()  # as a training leaves it
    with quiet(heard.append):
        for _ in range(2):
            warnings.warn("It uses the byte fallback option,\nwhich is not implemented. More.", stacklevel=1)
            logging.getLogger("transformers.x").warning("Unrecognized keys in `rope_scaling`: {'a'}")
        logging.getLogger("transformers.x").warning("Some weights are newly initialized")
        warnings.warn("deprecated", FutureWarning, stacklevel=1)
        sys.stdout.write("noise")
    assert heard == [
        "transformers warns: It uses the byte fallback option, which is not implemented.",
        "transformers warns: Unrecognized keys in `rope_scaling`: {'a'}",
    ]
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------- the whole way
def test_the_padding_id_matters_only_where_positions_count_by_it(saved, tmp_path, command):
    _, folder = saved(bert, pad_token_id=7)  # a word
    out = tmp_path / "it's mine"
    assert f"next, `negengine select {shlex.quote(str(out))}`" in command("export", folder, "-o", out).err
    exported = load_exported(out)
    assert exported.padding_id is None
    assert exported.info["inventory"] == read(folder)[1].digest


@pytest.mark.parametrize(("kind", "wanted"), [(hf.FlaubertConfig, 7), (hf.XLMConfig, 7), (hf.BertConfig, None)])
def test_a_text_ends_at_its_padding_in_families_whose_model_counts_tokens_up_to_it(kind, wanted):
    """FlauBERT and XLM mask what follows the padding token: transformers computes lengths from it."""
    assert padding_id(kind(pad_token_id=7)) == wanted


def test_a_graph_that_is_read_wrong_is_not_proved_right(saved, tmp_path, monkeypatch):
    """The comparison loads with the same library: whatever that changes, the files say."""
    _, folder = saved(bert)
    whole = hf.BertForMaskedLM.from_pretrained

    def off(*given, **named):
        model, *report = whole(*given, **named)
        if model.device.type == "cpu":
            model.bert.encoder.layer[1].output.dense.weight.data *= 1.01
        return model, *report

    monkeypatch.setattr(hf.BertForMaskedLM, "from_pretrained", off)
    with pytest.raises(
        InputError, match=r"loads other numbers than model.safetensors holds as bert\.encoder\.layer\.1"
    ):
        build(str(folder), tmp_path / "out")
