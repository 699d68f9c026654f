"""What a training starts from and needs: the checkpoint, memory and disk."""

import json
import shutil

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.runs.progress import Reporter
from negengine.export.needs import Needs
from negengine.export.tasks import TEXT_CLASSIFICATION
from negengine.export.training import settings
from negengine.export.training.base import Base
from negengine.export.training.settings import Place, Settings, check_needs

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


SETTINGS = Settings(epochs=1, batch_size=8, learning_rate=1e-5, max_length=128)


def test_what_is_needed_is_said_and_too_little_disk_is_refused(tmp_path, capsys, monkeypatch):
    check_needs("bert", Needs(1.1e9, 2.2e9), Place("cpu", 1), tmp_path, SETTINGS, Reporter())
    assert capsys.readouterr().err == "bert: training it needs about 2.0 GB of memory and 2.2 GB of disk\n"
    monkeypatch.setattr(settings, "free_disk", lambda _: 1e9)
    with pytest.raises(InputError, match=r"bert: training it needs 4.4 GB of disk, but only 1.0 GB are free in "):
        check_needs("bert", Needs(0, 4.4e9), Place("cpu", 1), tmp_path, SETTINGS, Reporter(silent=True))
