"""Published models from their packages, and what transformers says of one sentence in fp32 (`make real`)."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

TOLERANCE = 1e-4  # of a log-probability, relative to max(1, |log-probability|)


@pytest.fixture(scope="session")
def installed():
    """Gives the folder of a package that is installed; the package is not imported."""

    def folder(package):
        found = find_spec(package)
        if found is None:
            pytest.skip(f"{package} is not installed: `make real` does it")
        return Path(found.submodule_search_locations[0])

    return folder


@pytest.fixture(scope="session")
def command():
    """Runs the program and gives its output; --json is read."""

    def run(*words):
        program = [sys.executable, "-m", "negengine.engine.cli", *map(str, words)]
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout) if "--json" in words else done.stdout

    return run


@pytest.fixture(scope="session")
def close_to():
    """Whether a log-probability is another one."""
    return lambda found, wanted: abs(found - wanted) <= TOLERANCE * max(1.0, abs(wanted))


@pytest.fixture(scope="session")
def log_softmax():
    """Gives the log-probabilities of a network for one sentence's ids, fp32 [tokens, vocabulary]."""

    def logprobs(network, ids, **options):
        with torch.inference_mode():
            return network(input_ids=torch.tensor([ids]), **options).logits[0].log_softmax(-1)

    return logprobs
