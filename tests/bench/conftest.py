"""What the tests of benchmarks share: a tiny shape, and a cache that holds it and the bundled model."""

import pytest
import torch
from negengine.bench.shapes import prepare
from negengine.bench.systems.system import Place
from negengine.engine.inference.device import CPU
from transformers import BertConfig

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
TINY = {"bert-base-shape": (BertConfig, SIZES | {"vocab_size": 13_000})}


@pytest.fixture(autouse=True)
def _threads_as_before():
    """Systems that run in this process set PyTorch's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_shapes():
    """A shape with the name of a real one."""
    return TINY


@pytest.fixture(scope="session")
def cache(once, mini):
    """Where checkpoints and exports made for measuring are kept; all that the tests need is there already."""

    def make(folder):
        (folder / "exported").mkdir(parents=True)
        (folder / "exported" / "mini").symlink_to(mini.folder)
        for name in TINY:
            prepare(name, folder, TINY)

    return once("bench", make)


@pytest.fixture(scope="session")
def tiny_place(cache):
    """Where systems of a tiny model run."""
    measured = prepare("bert-base-shape", cache, TINY)
    return Place(measured.checkpoint, measured.exported.folder, CPU, 1, cache)
