"""Memory and disk of a training, estimated before it begins."""

import pytest
from negengine.engine.errors import InputError
from negengine.engine.runs.progress import Reporter
from negengine.export.needs import Needs
from negengine.export.training import needs
from negengine.export.training.settings import Place, Settings
from transformers import BertConfig

SETTINGS = Settings(epochs=1, batch_size=8, learning_rate=1e-5, max_length=128)
BASE = BertConfig()  # BERT base
WEIGHTS = 440e6
CPU = Place("cpu", 1)


def test_weights_cost_sixteen_bytes_each():
    more = needs.estimate(2 * WEIGHTS, BASE, SETTINGS).memory - needs.estimate(WEIGHTS, BASE, SETTINGS).memory
    assert more == pytest.approx(16 * WEIGHTS / 4)


def test_activations_are_those_of_the_cited_formula():
    """12 layers, s b h (34 + 5 a s / h) values, of 4 bytes in fp32 where the formula counts 2."""
    in_half = 12 * 128 * 8 * 768 * (34 + 5 * 12 * 128 / 768)
    assert needs.activations(BASE, SETTINGS) == pytest.approx(2 * in_half)
    assert needs.activations(BASE, Settings(1, 8, 1e-5, precision="bf16")) == pytest.approx(in_half)


def test_too_little_disk_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(needs, "free_disk", lambda _: 1e9)
    with pytest.raises(InputError, match=r"bert: training it needs 4.4 GB of disk, but only 1.0 GB are free in "):
        needs.check("bert", Needs(0, 4.4e9), CPU, tmp_path, SETTINGS, Reporter(silent=True))


def test_what_is_needed_is_said(tmp_path, capsys):
    needs.check("bert", Needs(1.1e9, 2.2e9), CPU, tmp_path, SETTINGS, Reporter())
    assert capsys.readouterr().err == "bert: training it needs about 2.0 GB of memory and 2.2 GB of disk\n"
