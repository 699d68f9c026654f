"""What the tests of likelihoods share: the bundled model, and a small causal model."""

import pytest
import torch
from negengine.engine.basics.option import Opening
from negengine.engine.library.model import find_model
from negengine.export.build import build
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

SENTENCES = (
    "Anna is happy to smoke.",
    "John is a dancer who likes to argue about unbelievable stories.",
    "The doctor isn't happy.",
    "Unsurprisingly, nobody's architects whispered.",
)


@pytest.fixture(scope="session")
def model(mini):
    return find_model(mini.folder, Opening("cpu"))


@pytest.fixture(scope="session")
def causal_folder(once, request):
    """A checkpoint of GPT-2's kind with random weights and the bundled model's tokenizer, and its export."""

    def make(folder):
        tokenizer = AutoTokenizer.from_pretrained(request.config.rootpath / "export" / "mini")
        torch.manual_seed(0)
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 48}
        network = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes)).eval()
        for own in (network, tokenizer):
            own.save_pretrained(folder / "checkpoint")
        build(str(folder / "checkpoint"), folder / "export", task="text-generation")

    return once("likelihood-gpt2", make)


@pytest.fixture(scope="session")
def causal_model(causal_folder):
    return find_model(causal_folder / "export", Opening("cpu"))
