"""The tiny encoder that trainings start from, the synthetic tasks as files, and one finished training of each kind."""

import pytest
import synthetic_cues
from negengine.engine.experiments.cues.cue_words import TEST_FILES, TRAIN_FILES
from negengine.engine.library.training_options import CueOptions, NliOptions
from negengine.export.training.cues import train_cues
from negengine.export.training.nli import train_nli
from synthetic_pairs import write_glue, write_negation
from tiny_checkpoints import save_encoder


@pytest.fixture(scope="session")
def encoder(once):
    """A folder with a tiny checkpoint: `whole`, or `without pooler`."""

    def make(kind="whole"):
        return once(f"encoder-{kind}", lambda folder: save_encoder(folder, pooler=kind == "whole"))

    return make


HERE = {"device": "cpu", "threads": 1, "progress": False}
SETTINGS = HERE | {"epochs": 4, "batch_size": 16, "learning_rate": 5e-3, "max_length": 32}


@pytest.fixture(scope="session")
def glue(once):
    return once("synthetic-glue", write_glue)


@pytest.fixture(scope="session")
def negation(once):
    return once("synthetic-negation", write_negation)


@pytest.fixture(scope="session")
def evaluated(once, encoder, glue, negation):
    """A training without pairs with negation, and one with them, evaluated by the engine; tests do not change them."""

    def make(folder):
        given = {"negation_data": negation, "evaluate": True, "task": "rte", "data": glue, **SETTINGS}
        shares = {"original": None, "negation": 0.7}
        return {
            name: train_nli(NliOptions(model=str(encoder()), output=folder / name, negation=share, **given))
            for name, share in shares.items()
        }

    return make(once("nli-trained", make))


@pytest.fixture(scope="session")
def train(once):
    """Train on a synthetic corpus of cues, with a tiny encoder that knows its words: (folder, options) → the result.

    The corpus has the four files of CD-SCO.
    """

    def write(folder):
        folder.mkdir()
        for seed, (name, n) in enumerate(zip((*TRAIN_FILES, *TEST_FILES), (200, 40, 60, 60), strict=True)):
            synthetic_cues.write_corpus(folder / name, n, seed)

    corpus = once("synthetic-cues", write)
    encoder = once("words-encoder", lambda folder: save_encoder(folder, words=synthetic_cues.tokenizer()))
    plain = {"encoder": str(encoder), "data": corpus}
    plain |= HERE | {"evaluate": True, "epochs": 8, "learning_rate": 3e-3, "max_length": 16}
    return lambda folder, **options: train_cues(CueOptions(output=folder, **plain | options))
