"""The tiny encoder that trainings start from, the synthetic tasks as files, and one finished training of each kind."""

from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic_cues
from negengine.engine.cli.train_commands import CueOptions, NliOptions
from negengine.export.training.cues import train_cues
from negengine.export.training.nli import train_nli
from negengine.export.training.nli_tables import NliTraining
from synthetic_pairs import write_glue, write_negation
from tiny_encoder import save_encoder


@pytest.fixture(scope="session")
def encoder(once) -> Callable[[str], Path]:
    """A folder with a tiny checkpoint: `whole`, or `without pooler`."""

    def make(kind: str = "whole") -> Path:
        return once(f"encoder-{kind}", lambda folder: save_encoder(folder, pooler=kind == "whole"))

    return make


HERE = {"device": "cpu", "threads": 1, "progress": False}
SETTINGS = HERE | {"epochs": 4, "batch_size": 16, "learning_rate": 5e-3, "max_length": 32}


@pytest.fixture(scope="session")
def glue(once) -> Path:
    """GLUE's folder of the synthetic task."""
    return once("synthetic-glue", write_glue)


@pytest.fixture(scope="session")
def negation(once) -> Path:
    """The benchmark's folder of the synthetic task."""
    return once("synthetic-negation", write_negation)


@pytest.fixture(scope="session")
def evaluated(once, encoder, glue, negation) -> NliTraining:
    """Two seeds in both conditions, evaluated by the engine; tests do not change it."""

    def make(folder: Path) -> NliTraining:
        given = {"negation": 0.7, "negation_data": negation, "evaluate": True, "seeds": 2, **SETTINGS}
        return train_nli(NliOptions(model=str(encoder()), task="rte", data=glue, output=folder / "out", **given))

    return make(once("nli-trained", make))


QUICK = HERE | {"epochs": 8, "learning_rate": 3e-3, "max_length": 16}


@pytest.fixture(scope="session")
def words_encoder(once) -> Path:
    """A tiny encoder that knows the words of the synthetic task."""
    return once("words-encoder", lambda folder: save_encoder(folder, words=synthetic_cues.tokenizer()))


@pytest.fixture(scope="session")
def corpus(once) -> Path:
    """A folder with train.txt (240 sentences) and test.txt (120 others)."""

    def write(folder: Path) -> None:
        folder.mkdir()
        synthetic_cues.write_corpus(folder / "train.txt", 240)
        synthetic_cues.write_corpus(folder / "test.txt", 120, seed=1)

    return once("synthetic-cues", write)


@pytest.fixture(scope="session")
def train(words_encoder, corpus):
    """Train on the synthetic corpus: (folder, options) → the result."""

    def run(folder: Path, **options):
        given = {"encoder": str(words_encoder), "files": [corpus / "train.txt"], "test": [corpus / "test.txt"]}
        return train_cues(CueOptions(output=folder, **{**given, "evaluate": True, **QUICK, **options}))

    return run


@pytest.fixture(scope="session")
def trained(once, train):
    """The folder of a trained and evaluated detector; tests do not change it."""
    return once("trained-cues", train)
