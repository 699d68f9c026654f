"""The synthetic task as files, and one whole command on it: two seeds, with and without pairs with negation."""

from pathlib import Path

import pytest
from negengine.engine.commands.train_command import TrainingOptions
from negengine.export.training.nli.result import NliTraining
from negengine.export.training.nli.run import train_nli
from synthetic_glue import write_glue, write_negation

SETTINGS = {
    "epochs": 4,
    "batch_size": 16,
    "learning_rate": 5e-3,
    "max_length": 32,
    "device": "cpu",
    "threads": 1,
    "progress": False,
}


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
        options = TrainingOptions(output=folder / "out", seeds=2, **SETTINGS)
        return train_nli(
            str(encoder()), options, task="rte", data=glue, negation=0.7, negation_data=negation, evaluate=True
        )

    return make(once("nli-trained", make))
