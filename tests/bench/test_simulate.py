"""The simulated GPU: figures of others are predicted, work is that of the graph, and little fills batches up."""

import re
from itertools import starmap

import numpy as np
import pytest
from negengine.bench.gpu_model import ATTENTION, GPUS, HEAD, OTHERS, PRODUCTS, GraphKernels, Kernel, by_class, tiles
from negengine.bench.simulate import SimulatedGpu, simulate, table
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.negation.select import Selection
from negengine.engine.inference.batches import OUTPUTS, finished, sentences_in
from negengine.engine.inference.devices.cuda import Cuda
from negengine.engine.inference.gpu import Filled
from negengine.engine.inference.model import MaskedLM
from negengine.engine.inference.words import repeated_words
from negengine.engine.text.lexicon import load_lexicon
from negengine.engine.text.pattern_files import load_patterns

# GPU, layers, width, tokens, sentences, type, milliseconds: TensorRT's demo/BERT/README.md (commit 007c3470, averages),
# and FasterTransformer's docs/bert_guide.md (commit 4c014fba) in fp32
PUBLISHED = [
    ("a100", 12, 768, 128, 128, "fp16", 16.14),
    ("t4", 12, 768, 128, 128, "fp16", 144.20),
    ("a100", 12, 768, 128, 8, "fp16", 1.38),
    ("a100", 12, 768, 384, 64, "fp16", 26.11),
    ("a100", 24, 1024, 128, 64, "fp16", 26.20),
    ("t4", 24, 1024, 128, 64, "fp16", 241.35),
    ("t4", 12, 768, 128, 32, "fp32", 168.30),
]


def encoder(layers, hidden, length, batch, kind):
    """The kernels of an encoder as both fuse it: one product for queries, keys and values; no vocabulary."""
    rows, size = batch * length, 4 if kind == "fp32" else 2

    def product(k, n):
        return Kernel(PRODUCTS, 2 * rows * k * n, size * (rows * (k + n) + k * n), tiles(rows, n))

    scores = 4 * size * batch * (hidden // 64) * length**2 if kind == "fp32" else 0  # not fused there
    normalised = Kernel(OTHERS, 0, 3 * size * rows * hidden)
    attention = Kernel(ATTENTION, 4 * rows * length * hidden, 4 * size * rows * hidden + scores)
    gelu = Kernel(OTHERS, 0, 8 * size * rows * hidden)
    first = [product(hidden, 3 * hidden), attention, product(hidden, hidden), normalised]
    return layers * [*first, product(hidden, 4 * hidden), gelu, product(4 * hidden, hidden), normalised]


def predicted(gpu, layers, hidden, length, batch, kind, _):
    return 1e3 * sum(by_class(encoder(layers, hidden, length, batch, kind), GPUS[gpu], kind).values())


def test_figures_of_others_are_predicted_within_a_quarter_and_stand_in_the_documents(request):
    ours = list(starmap(predicted, PUBLISHED))
    np.testing.assert_allclose(ours, [own[-1] for own in PUBLISHED], rtol=0.25)
    table = (request.config.rootpath / "docs" / "measured" / "simulation.csv").read_text("utf-8")
    rows = re.findall(r'^"(?:A100|T4), .*",([0-9.]+),([0-9.]+),[+−0-9]+ %$', table, re.MULTILINE)
    told = [(f"{own[-1]:.2f}", f"{found:.2f}") for own, found in zip(PUBLISHED, ours, strict=True)]
    assert rows == told


def test_bytes_and_operations_are_those_of_the_graph(mini):
    """Of the bundled model: 6 layers, 384 wide, 1,536 inside; the last one for the mask's row alone."""
    n, length, hidden, vocabulary = 100, 17, 384, mini.vocab_size
    kernels = GraphKernels(mini.folder / "model.fp16.onnx", OUTPUTS)
    found = kernels.of(n, length)
    operations = {
        kind: sum(own.operations for own in found if own.kind == kind) for kind in (PRODUCTS, ATTENTION, HEAD)
    }
    rows, layer = n * length, 2 * hidden * hidden
    whole, last = 12 * layer * rows, layer * (2 * rows + 10 * n)  # of the last one keys and values for all tokens
    assert operations[PRODUCTS] == 5 * whole + last + layer * n  # and the product before the vocabulary's
    assert operations[ATTENTION] == 4 * rows * length * hidden * 5 + 4 * n * length * hidden
    assert operations[HEAD] >= 2 * n * hidden * vocabulary
    assert sum(kernel.bytes for kernel in kernels.of(2 * n, length)) < 2 * sum(kernel.bytes for kernel in found)


def test_a_selection_on_a_device_fills_up_less_than_a_half_percent(mini, monkeypatch):
    """Of the whole grid, whose batches are counted for some parts. The device computes nothing."""
    job, asked, computed = Selection.plan(mini, load_lexicon(), load_patterns()), [], []

    def counted(self, outputs, feeds, full):
        ids, _, expected = feeds.values()
        assert full == sentences_in(16_384, ids.shape[1])
        asked.append(ids.shape)
        computed.append(self._size(len(ids), full) * ids.shape[1])
        return [np.stack([expected + 1, expected], axis=1), np.zeros((len(ids), 4), np.float32)]

    monkeypatch.setattr(SimulatedGpu, "runner", lambda self, *_: Counted(self))
    monkeypatch.setattr(Filled, "filled", counted)
    model = MaskedLM(mini, SimulatedGpu())
    for number in range(0, len(job.sizes), len(job.sizes) // 6):
        finished(repeated_words(model, *job.prepare(number)))
    assert sum(computed) <= 1.005 * sum(n * length for n, length in asked)
    assert len(computed) >= 6 * 30
    assert sum(n for n, _ in asked) > 6 * 32_000


class Counted(Filled):
    def __init__(self, device):
        from unittest.mock import Mock

        super().__init__(Mock(get_outputs=list), device, 16_384, 3)


def test_a_selection_runs_on_a_gpu_that_is_not_there(cache):
    found = simulate("mini", "t4", [].append, folder=cache, seconds=0.5)
    assert found["sentences"] % 763 == 0
    assert 0 < found["device busy"] <= 1 + 1e-6
    assert found["computed over asked"] < 1.1
    assert set(found["device, µs a sentence"]) == {PRODUCTS, ATTENTION, OTHERS, HEAD, "close calls and audit, fp32"}
    assert min(found["device, µs a sentence"].values()) > 0
    assert "10.9 million" in " ".join(table(found).notes)
    assert Cuda.missing()  # it was not needed
    with pytest.raises(InputError, match=r"^--gpu b200: there are h100, h200, a100, l4, rtx4090, t4$"):
        simulate("mini", "b200", [].append, folder=cache)
