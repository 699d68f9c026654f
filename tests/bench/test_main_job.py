"""Every baseline of the main job finds the top-1 of the authors' program."""

import shutil

import numpy as np
import pytest
import torch
from negengine.bench.baselines import AtMask, AuthorsScoring, AuthorsSelection, Optimum, Pipeline, baselines
from negengine.bench.main_job import LowPrecision, MixedPrecision, Reference, candidates, main_job
from negengine.bench.openvino import OpenVino
from negengine.bench.system import Place
from negengine.bench.torch_models import MaskRow
from negengine.engine.inference.device import Device
from negengine.engine.inference.exported import load_exported
from transformers import (
    AlbertConfig,
    AutoModelForMaskedLM,
    BertConfig,
    DebertaV2Config,
    DistilBertConfig,
    ElectraConfig,
    MPNetConfig,
    RobertaConfig,
)

pytestmark = pytest.mark.long

N = 21


@pytest.fixture(scope="module")
def sentences(tiny_place):
    return candidates(main_job(load_exported(tiny_place.exported)), N)


def answers(system, place, sentences, number=0):
    assert system.missing(place) is None
    system.make(place)
    system.open(place)
    system.settle(sentences)
    choice = system.choices(place)[number]
    assert system.about(choice)
    return system.run(sentences, choice)


@pytest.fixture(scope="module")
def reference(tiny_place, sentences):
    return answers(AuthorsSelection(), tiny_place, sentences)


@pytest.mark.parametrize(
    "system", [AuthorsScoring(), AtMask("fp32"), Pipeline(), Optimum(), Reference()], ids=lambda system: system.name
)
def test_systems_in_fp32_give_the_same_top1(system, tiny_place, sentences, reference):
    np.testing.assert_array_equal(answers(system, tiny_place, sentences), reference)


@pytest.mark.parametrize("number", [0, -1], ids=["weights in bf16", "autocast"])
def test_pytorch_in_bf16_gives_nearly_the_same(number, tiny_place, sentences, reference):
    assert np.mean(answers(AtMask("bf16"), tiny_place, sentences, number) == reference) > 0.5


@pytest.mark.everything
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_a_compiled_model_gives_the_same_top1_also_in_a_batch_of_one(tiny_place, sentences, reference):
    system = AtMask("fp32", compiled=True)
    system.open(tiny_place)
    np.testing.assert_array_equal(system.run(sentences, {"batch": 20}), reference)


def test_openvino_in_fp32_gives_the_same_top1(tiny_place, sentences, reference):
    pytest.importorskip("openvino")
    system = OpenVino("fp32")
    system.open(tiny_place)
    for streams in (1, 2):
        np.testing.assert_array_equal(system.run(sentences, {"batch": 8, "streams": streams}), reference)


@pytest.mark.parametrize("kind", ["", "static"])
def test_openvino_in_int8_runs(kind, tiny_place, sentences):
    """Random weights leave the logits close together, so that int8 may find another top-1."""
    pytest.importorskip("nncf")
    found = answers(OpenVino("int8", kind, calibrated=4), tiny_place, sentences)
    assert found.shape == (N,)
    assert found.min() >= 0


def test_ours_at_low_precision_and_mixed_run_and_mixed_says_how_many_calls_were_close(tiny_place, sentences):
    mixed = MixedPrecision()
    for system in (LowPrecision("cpu"), mixed):
        assert answers(system, tiny_place, sentences).shape == (N,)
    assert 0 <= mixed.found()["close calls"] <= 1


def test_names_differ_and_a_baseline_that_does_not_run_on_a_device_says_so(tiny_place):
    names = [system.name for system in baselines()]
    assert len(set(names)) == len(names)
    assert names[:2] == ["authors, selection", "authors, scoring"]
    cuda = Place(tiny_place.checkpoint, tiny_place.exported, Device("cuda"), 1, tiny_place.cache)
    assert OpenVino("fp32").missing(cuda) == "OpenVINO is measured on the CPU"
    assert AtMask("fp16").missing(tiny_place) == "PyTorch in fp16 is for CUDA"
    assert AtMask("fp16").missing(cuda) is None


def test_texts_and_ids_are_the_same_sentences(mini, mini_tokenizer):
    work = candidates(main_job(mini), 300)
    encoded = mini_tokenizer.encode(work.texts)
    seen = []
    for piece in work.head(100).encoded.buckets:
        for row, ids in zip(piece.rows, piece.ids, strict=True):
            np.testing.assert_array_equal(ids, encoded[row])
            seen.append(row)
    assert sorted(seen) == list(range(100))
    assert work.length == pytest.approx(np.mean([len(ids) for ids in encoded]))
    assert sum(len(rows) for rows, _, _ in work.batches(7)) == 300


SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 50}
CONFIGS = [
    *(config(**SIZES) for config in (BertConfig, DebertaV2Config, MPNetConfig, RobertaConfig)),
    *(config(**SIZES, embedding_size=8) for config in (AlbertConfig, ElectraConfig)),
    DistilBertConfig(dim=16, n_layers=2, n_heads=2, hidden_dim=32, vocab_size=50),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.model_type)
def test_the_head_at_the_mask_alone_gives_the_logits_that_the_whole_model_gives_there(config):
    torch.manual_seed(0)
    model = AutoModelForMaskedLM.from_config(config).eval()
    ids, position = torch.randint(3, 50, (4, 6)), torch.tensor([0, 5, 2, 2])
    with torch.inference_mode():
        whole = model(ids).logits
        cut = MaskRow(model)(ids, position)
    torch.testing.assert_close(cut, whole[torch.arange(4), position], atol=1e-5, rtol=1e-4)
