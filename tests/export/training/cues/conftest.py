"""A detector that a tiny encoder has learned from a synthetic corpus, trained once for all tests."""

from pathlib import Path

import pytest
import synthetic_cues
from negengine.engine.commands.train_command import TrainingOptions
from negengine.export.training.cues.train import train_cues
from tiny_encoder import save_encoder

QUICK = {"epochs": 8, "learning_rate": 3e-3, "max_length": 16, "device": "cpu", "threads": 1, "progress": False}


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

    def run(folder: Path, *, evaluate=True, files=None, test=None, **options):
        given = TrainingOptions(output=folder, **{**QUICK, **options})
        return train_cues(
            given,
            files if files is not None else [corpus / "train.txt"],
            encoder=str(words_encoder),
            test=[corpus / "test.txt"] if test is None else test,
            evaluate=evaluate,
        )

    return run


@pytest.fixture(scope="session")
def trained(once, train):
    """The folder of a trained and evaluated detector; tests do not change it."""
    return once("trained-cues", train)
