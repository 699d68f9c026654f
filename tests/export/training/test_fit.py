"""What a training does beside resuming: epochs, early stopping, progress, a loss that is not a number."""

import math

import pytest
import trainings
from negengine.engine.errors import InputError
from negengine.export.training.folder import read_training


def test_patience_keeps_the_best_epoch(encoder, tmp_path):
    trainings.run(encoder(), tmp_path / "out", patience=1, epochs=8)
    result = read_training(tmp_path / "out").result
    assert result["score"] == max(entry["accuracy"] for entry in result["history"])
    assert result["epochs"] == len(result["history"]) < 8
    assert result["history"][-1]["accuracy"] <= result["history"][-2]["accuracy"]


def test_a_loss_that_is_not_a_number_ends_the_training(encoder, tmp_path):
    with pytest.raises(InputError, match=r"the loss is not a number any more after step .*; take a smaller --lr"):
        trainings.run(encoder(), tmp_path / "out", weights=math.nan)


def test_progress_and_scores_are_told(encoder, tmp_path, capsys):
    trainings.run(encoder(), tmp_path / "out", progress=True)
    said = capsys.readouterr().err
    assert "training it needs about" in said
    assert "20 steps of 8 pairs in 2 epochs, about" in said
    assert "epoch 2 of 2: accuracy" in said
    assert "test train: 20 of 20 steps (100 %)" in said
