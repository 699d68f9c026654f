"""What the tests of benchmarks share: tiny shapes, and a cache that holds them and the bundled model."""

import pytest
import torch
from negengine.bench.shapes import SHAPES, prepare
from negengine.bench.system import Place
from negengine.engine.inference.devices.cpu import CPU
from transformers import BertConfig, GPT2Config

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TINY = {
    "bert-base-shape": (BertConfig, SIZES | {"vocab_size": 13_000}),
    "gpt2-shape": (GPT2Config, {"vocab_size": 13_000, "n_embd": 32, "n_layer": 1, "n_head": 2}),
}


@pytest.fixture(autouse=True)
def _threads_as_before():
    """Systems that run in this process set PyTorch's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _tiny_shapes():
    """Tiny shapes with the names of real ones."""
    with pytest.MonkeyPatch.context() as patched:
        for name, shape in TINY.items():
            patched.setitem(SHAPES, name, shape)
        yield


@pytest.fixture(scope="session")
def cache(once, mini, _tiny_shapes):
    """Where checkpoints and exports made for measuring are kept; all that most tests need is there already."""

    def make(folder):
        (folder / "exported").mkdir(parents=True)
        (folder / "exported" / "mini").symlink_to(mini.folder)
        prepare("bert-base-shape", folder)

    return once("bench", make)


@pytest.fixture(scope="session")
def place_of(cache):
    """Where systems run a model."""
    return lambda measured: Place(measured.checkpoint, measured.exported.folder, CPU, 1, cache)
