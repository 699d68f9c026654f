"""What a training starts from and needs: the checkpoint, memory and disk."""

import json
import shutil

import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.runs.progress import Reporter
from negengine.export.needs import Needs
from negengine.export.tasks import TEXT_CLASSIFICATION
from negengine.export.training import settings
from negengine.export.training.base import Base
from negengine.export.training.settings import Place, Settings, activations, check_needs, estimate
from safetensors.torch import load_file
from transformers import BertConfig

LABELS = ("entailment", "not_entailment")


@pytest.fixture
def copy(encoder, tmp_path):
    return shutil.copytree(encoder(), tmp_path / "tiny")


def find(folder, **options):
    return Base.find(str(folder), TEXT_CLASSIFICATION.head, LABELS, **options)


def test_a_new_layer_has_the_labels_also_where_there_was_one_for_others(encoder, copy):
    Base.find(str(encoder()), TEXT_CLASSIFICATION.head, ("a", "b", "c")).open().save_pretrained(copy)
    base = find(copy)
    assert base.config.id2label == {0: "entailment", 1: "not_entailment"}
    assert base.open().classifier.out_features == 2


def changed(copy, name, **content):
    path = copy / name
    path.write_text(json.dumps(json.loads(path.read_text()) | content))


def test_weights_that_the_encoder_lacks_are_named_and_a_tokenizer_without_padding_is_refused(copy):
    changed(copy, "config.json", num_hidden_layers=3)
    with pytest.raises(InputError, match=r"tiny: its weights lack bert.encoder.layer.2.attention.output"):
        find(copy).open()
    changed(copy, "tokenizer_config.json", pad_token=None)
    (copy / "special_tokens_map.json").unlink(missing_ok=True)
    with pytest.raises(InputError, match="tiny: its tokenizer has no padding token"):
        find(copy)


def test_pickled_weights_are_read_only_if_they_are_allowed(copy):
    torch.save(load_file(copy / "model.safetensors"), copy / "pytorch_model.bin")
    (copy / "model.safetensors").unlink()
    with pytest.raises(InputError, match="has no safetensors weights; --allow-pickle"):
        find(copy).open()
    assert find(copy, allow_pickle=True).open() is not None


SETTINGS = Settings(epochs=1, batch_size=8, learning_rate=1e-5, max_length=128)
BASE = BertConfig()  # BERT base
WEIGHTS = 440e6
CPU = Place("cpu", 1)


def test_weights_cost_sixteen_bytes_each_and_activations_what_the_cited_formula_says():
    """12 layers, s b h (34 + 5 a s / h) values, of 4 bytes in fp32 where the formula counts 2."""
    more = estimate(2 * WEIGHTS, BASE, SETTINGS).memory - estimate(WEIGHTS, BASE, SETTINGS).memory
    assert more == pytest.approx(16 * WEIGHTS / 4)
    in_half = 12 * 128 * 8 * 768 * (34 + 5 * 12 * 128 / 768)
    assert activations(BASE, SETTINGS) == pytest.approx(2 * in_half)
    assert activations(BASE, Settings(1, 8, 1e-5, precision="bf16")) == pytest.approx(in_half)


def test_what_is_needed_is_said_and_too_little_disk_is_refused(tmp_path, capsys, monkeypatch):
    check_needs("bert", Needs(1.1e9, 2.2e9), CPU, tmp_path, SETTINGS, Reporter())
    assert capsys.readouterr().err == "bert: training it needs about 2.0 GB of memory and 2.2 GB of disk\n"
    monkeypatch.setattr(settings, "free_disk", lambda _: 1e9)
    with pytest.raises(InputError, match=r"bert: training it needs 4.4 GB of disk, but only 1.0 GB are free in "):
        check_needs("bert", Needs(0, 4.4e9), CPU, tmp_path, SETTINGS, Reporter(silent=True))
