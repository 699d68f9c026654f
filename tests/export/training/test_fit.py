"""A training that was stopped goes on from its last complete checkpoint, and ends with the same weights."""

import math
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import trainings
from few import few
from negengine.engine.basics.errors import InputError
from negengine.export.training.folder import CHECKPOINTS, complete, read_training
from safetensors.torch import load_file


def test_a_loss_that_is_not_a_number_ends_the_training(encoder, tmp_path):
    with pytest.raises(InputError, match=r"the loss is not a number any more after step .*; take a smaller --lr"):
        trainings.run(encoder(), tmp_path / "out", weights=math.nan)


def test_progress_and_scores_are_told(encoder, tmp_path, capsys):
    trainings.run(encoder(), tmp_path / "out", progress=True)
    said = capsys.readouterr().err
    assert "training it needs about" in said
    assert "20 steps of 8 pairs in 2 epochs on cpu" in said
    assert "epoch 2 of 2: accuracy" in said
    assert "test train: 20 of 20 steps (100 %)" in said


pytestmark = pytest.mark.long


def same(one: Path, other: Path) -> bool:
    first, second = (load_file(folder / "model.safetensors") for folder in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.fixture(scope="module")
def undisturbed(encoder, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    trainings.run(encoder(), folder)
    return folder


def resumed(encoder, folder, undisturbed, **options):
    """Go on; the result is that of the undisturbed training."""
    trainings.run(encoder(), folder, **options)
    assert same(folder, undisturbed)
    assert read_training(folder).result == read_training(undisturbed).result


def interrupted(encoder, folder, **options):
    with pytest.raises(KeyboardInterrupt):
        trainings.run(encoder(), folder, **options)


@pytest.mark.everything
def test_a_killed_training_ends_with_the_same_weights(encoder, undisturbed, tmp_path):
    """Killed in the second epoch, two steps after a checkpoint, in a process of its own."""
    folder = tmp_path / "out"
    command = [sys.executable, trainings.__file__, encoder(), folder, "15"]
    done = subprocess.run(command, check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert not (folder / "config.json").exists()
    assert complete(folder / CHECKPOINTS)[0].name == "checkpoint-12"
    resumed(encoder, folder, undisturbed)


STOPS = {f"at step {step}": {"at": (step, trainings.interrupt)} for step in (2, 11, 20)}  # 10 steps are an epoch
STOPS |= {f"scoring epoch {n}": {"scored": (n, trainings.interrupt), "save_steps": 10} for n in (1, 2)}


@pytest.mark.parametrize("stop", few(STOPS, "scoring epoch 1", "scoring epoch 2"))
def test_an_interrupted_training_ends_with_the_same_weights_also_where_it_was_moved_to(
    stop, encoder, undisturbed, tmp_path
):
    """Also while an epoch is scored at whose last step a checkpoint is due."""
    interrupted(encoder, tmp_path / "first", **STOPS[stop])
    shutil.move(tmp_path / "first", tmp_path / "second")
    resumed(encoder, tmp_path / "second", undisturbed, save_steps=STOPS[stop].get("save_steps", 3))


def test_a_checkpoint_that_was_not_written_to_its_end_does_not_count(encoder, undisturbed, tmp_path):
    folder = tmp_path / "out"
    interrupted(encoder, folder, at=(14, trainings.interrupt))
    (folder / CHECKPOINTS / "checkpoint-12" / "optimizer.pt").write_bytes(b"cut")
    assert complete(folder / CHECKPOINTS)[0].name == "checkpoint-10"
    resumed(encoder, folder, undisturbed)


@pytest.mark.parametrize("damaged", [False, True])
def test_a_training_that_is_stopped_after_its_best_epoch_keeps_that_epoch(damaged, encoder, tmp_path):
    """Stopped in the third of four epochs; the second one is the best. If its checkpoint is cut off, it begins anew."""
    whole, folder = tmp_path / "whole", tmp_path / "out"
    accuracies = [0.5, 0.9, 0.6, 0.7]
    given = {"patience": 4, "epochs": 4, "save_steps": 4}
    trainings.run(encoder(), whole, accuracies=accuracies, **given)
    assert read_training(whole).result["score"] == 0.9
    interrupted(encoder, folder, accuracies=accuracies, at=(27, trainings.interrupt), **given)
    if damaged:
        (folder / CHECKPOINTS / "checkpoint-20" / "model.safetensors").write_bytes(b"cut")
    resumed(encoder, folder, whole, accuracies=accuracies if damaged else accuracies[2:], **given)


@pytest.mark.everything
def test_a_training_that_stopped_early_is_not_trained_further(encoder, tmp_path):
    """Killed between its last checkpoint and its result."""
    whole, folder = tmp_path / "whole", tmp_path / "out"
    trainings.run(encoder(), whole, patience=1, epochs=8)
    result = read_training(whole).result
    accuracies = [entry["accuracy"] for entry in result["history"]]
    assert result["score"] == max(accuracies)  # the best epoch is kept
    assert result["epochs"] == len(accuracies) < 8
    assert accuracies[-1] <= accuracies[-2]
    interrupted(encoder, folder, patience=1, epochs=8, saved=trainings.interrupt)
    resumed(encoder, folder, whole, patience=1, epochs=8)


def test_a_finished_training_is_not_trained_again_and_other_settings_are_refused(encoder, undisturbed):
    trainings.run(encoder(), undisturbed, at=(1, trainings.interrupt))
    with pytest.raises(InputError, match=r"was trained with epochs 2, now 3: choose another --output"):
        trainings.run(encoder(), undisturbed, epochs=3)
