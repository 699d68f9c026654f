"""What the tests of likelihoods share: the bundled model, a small causal model, and plain PyTorch beside them."""

import pytest
import torch
from negengine.engine.basics.option import Opening
from negengine.engine.library.model import find_model
from transformers import AutoModelForMaskedLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

SENTENCES = (
    "Anna is happy to smoke.",
    "John is a dancer who likes to argue about unbelievable stories.",
    "The doctor isn't happy.",
    "Unsurprisingly, nobody's architects whispered.",
)


@pytest.fixture(scope="session")
def model(mini):
    """The bundled model."""
    return find_model(mini.folder, Opening("cpu"))


@pytest.fixture(scope="session")
def causal_checkpoint(once, request):
    """A checkpoint of GPT-2's kind with random weights and the tokenizer of the bundled model."""

    def make(folder):
        tokenizer = AutoTokenizer.from_pretrained(request.config.rootpath / "export" / "mini")
        torch.manual_seed(0)
        sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 48}
        GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), **sizes)).eval().save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    return once("likelihood-gpt2", make)


@pytest.fixture(scope="session")
def causal_model(once, causal_checkpoint):
    """The same, exported."""

    def export(folder):
        from negengine.export.build import build

        build(str(causal_checkpoint), folder, task="text-generation")

    return find_model(once("likelihood-gpt2-export", export), Opening("cpu"))


@pytest.fixture(scope="session")
def torch_masked(request):
    """The bundled model in PyTorch: ids with masks, position → log-probabilities, float64 [V]."""
    network = AutoModelForMaskedLM.from_pretrained(request.config.rootpath / "export" / "mini").eval()

    @torch.inference_mode()
    def logprobs(ids, position):
        return network(input_ids=torch.tensor([ids])).logits[0, position].double().log_softmax(-1).numpy()

    return logprobs
