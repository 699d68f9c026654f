"""How a classifier was trained, as a sentence."""

import pytest
from negengine.engine.experiments.nli.nli_items import training_told

TRAINING = {
    "model": "bert-base-cased", "task": "RTE", "epochs": 50, "batch_size": 8, "learning_rate": 2e-5,
    "weight_decay": 0.0, "max_length": 128, "seed": 42,
}  # fmt: skip


def test_the_settings_are_told():
    assert training_told(TRAINING | {"limit": None}) == (
        "We fine-tuned bert-base-cased on the original training split of RTE (transformers' Trainer; 50 epochs, "
        "batches of 8, learning rate 2e-05, weight decay 0, at most 128 tokens, seed 42). "
    )


def test_what_was_drawn_is_told():
    said = training_told(TRAINING | {"limit": 1000, "negation": 0.7})
    assert "on 1,000 pairs of the original training split of RTE, with 70 % of the new pairs; the other" in said


@pytest.mark.parametrize("training", [None, {}, {"model": "m"}, "x", TRAINING | {"epochs": "many"}])
def test_nothing_is_told_that_is_not_known(training):
    assert training_told(training) == ""
