"""A training that was stopped goes on from its last complete checkpoint, and ends with the same weights."""

import copy
import json
import math
import os
import shutil
import signal

import pytest
import torch
import trainings
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_words import LABELS
from negengine.engine.experiments.nli.nli_pairs import scheme_of
from negengine.export.tasks import TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION
from negengine.export.training.base import Base
from negengine.export.training.folder import CHECKPOINTS, RECORD, SEAL, TrainingFolder, is_complete, read_training, seal
from safetensors.torch import load_file
from tiny_checkpoints import permuted, save_classifier


def test_a_loss_that_is_not_a_number_ends_the_training(encoder, tmp_path):
    with pytest.raises(InputError, match=r"the loss is not a number any more after step .*; take a smaller --lr"):
        trainings.run(encoder(), tmp_path / "out", weights=math.nan)


pytestmark = pytest.mark.long


def test_the_weights_are_those_of_a_plain_loop_over_the_same_batches(encoder, tmp_path):
    """The loop has PyTorch's AdamW, a rate that falls linearly to zero, and gradients clipped at a norm of 1."""
    first, batches = [], []

    def opened(model):
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0  # it would draw other numbers
        first.append(copy.deepcopy(model))

    trainings.run(encoder(), tmp_path / "out", opened=opened, learns=batches.append)
    (model,), batches = first, [batch for batch in batches if len(batch["labels"]) == trainings.DEFAULTS["batch_size"]]
    assert len(batches) == 20
    rate = trainings.DEFAULTS["learning_rate"]
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.0)
    model.train()
    for step, batch in enumerate(batches):
        optimiser.param_groups[0]["lr"] = rate * (1 - step / len(batches))
        optimiser.zero_grad()
        logits = model(**{name: own for name, own in batch.items() if name != "labels"}).logits
        torch.nn.functional.cross_entropy(logits, batch["labels"]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
    found = load_file(tmp_path / "out" / "model.safetensors")
    for name, own in model.state_dict().items():
        torch.testing.assert_close(found[name], own, rtol=1e-4, atol=1e-5, msg=name)


@pytest.fixture(scope="module")
def undisturbed(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed") / "out"
    trainings.run(encoder(), folder)
    return folder


def resumed(encoder, folder, undisturbed, **options):
    """Go on; the result is that of the undisturbed training, to the byte."""
    trainings.run(encoder(), folder, **options)
    weights, wanted = ((one / "model.safetensors").read_bytes() for one in (folder, undisturbed))
    assert (weights == wanted, read_training(folder).result) == (True, read_training(undisturbed).result)
    assert read_training(folder).files == read_training(undisturbed).files


def interrupted(encoder, folder, **options):
    with pytest.raises(KeyboardInterrupt):
        trainings.run(encoder(), folder, **options)


@pytest.mark.everything
def test_a_killed_training_ends_with_the_same_weights(python, encoder, undisturbed, tmp_path):
    """Killed in the second epoch, two steps after a checkpoint, in a process of its own."""
    folder = tmp_path / "out"
    done = python(trainings.__file__, encoder(), folder, "15")
    assert done.status == -signal.SIGKILL, done.err
    assert not (folder / "config.json").exists()
    assert is_complete(folder / CHECKPOINTS / "checkpoint-12")
    resumed(encoder, folder, undisturbed)


@pytest.mark.parametrize("epoch", [1, 2])
def test_an_interrupted_training_ends_with_the_same_weights_in_another_place(epoch, encoder, undisturbed, tmp_path):
    """While an epoch is scored at whose last step a checkpoint is due."""
    interrupted(encoder, tmp_path / "first", scored=(epoch, trainings.interrupt), save_steps=10)
    shutil.move(tmp_path / "first", tmp_path / "second")
    resumed(encoder, tmp_path / "second", undisturbed, save_steps=10)


def test_a_checkpoint_that_was_not_written_to_its_end_does_not_count(encoder, undisturbed, tmp_path):
    folder = tmp_path / "out"
    interrupted(encoder, folder, at=(14, trainings.interrupt))
    (folder / CHECKPOINTS / "checkpoint-12" / "optimizer.pt").write_bytes(b"cut")
    assert [is_complete(folder / CHECKPOINTS / f"checkpoint-{step}") for step in (10, 12)] == [True, False]
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
def test_a_training_that_stopped_early_is_not_trained_further(encoder, tmp_path, monkeypatch):
    """Stopped between its last checkpoint and its result."""
    whole, folder = tmp_path / "whole", tmp_path / "out"
    trainings.run(encoder(), whole, patience=1, epochs=8)
    assert read_training(whole).result["epochs"] < 8
    with monkeypatch.context() as patched:
        patched.setattr(TrainingFolder, "publish", lambda *_: trainings.interrupt())
        interrupted(encoder, folder, patience=1, epochs=8)
    resumed(encoder, folder, whole, patience=1, epochs=8)


def test_the_tokenizer_of_a_result_does_not_remember_its_last_use(encoder, undisturbed):
    """Else a training with nothing left to learn has another one, and `tokenizers` would cut texts at 32 tokens."""
    found = json.loads((undisturbed / "tokenizer.json").read_bytes())
    assert (found["truncation"], found["padding"]) == (None, None)


def test_a_finished_training_is_not_trained_again_and_other_settings_are_refused(encoder, undisturbed):
    trainings.run(encoder(), undisturbed, at=(1, trainings.interrupt))
    with pytest.raises(InputError, match=r"was trained with epochs 2, now 3: choose another --output"):
        trainings.run(encoder(), undisturbed, epochs=3)


def test_a_new_layer_has_the_labels_and_what_the_encoder_lacks_is_named(encoder, tmp_path):
    """Also where there was a layer for other labels."""
    copy = shutil.copytree(encoder(), tmp_path / "tiny")

    def find(*labels):
        return Base.find(str(copy), TEXT_CLASSIFICATION.head, labels)

    find("a", "b", "c").open().save_pretrained(copy)
    assert find("yes", "no").config.id2label == {0: "yes", 1: "no"}
    assert find("yes", "no").open().classifier.out_features == 2
    config = copy / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"num_hidden_layers": 3}))
    with pytest.raises(InputError, match=r"tiny: its weights lack bert.encoder.layer.2.attention.output"):
        find("yes", "no").open()


THREE = ("entailment", "contradiction", "neutral")


@pytest.mark.parametrize(
    ("family", "head", "labels"),
    [
        ("bert", TEXT_CLASSIFICATION.head, THREE),
        ("roberta", TEXT_CLASSIFICATION.head, THREE),
        ("distilbert", TEXT_CLASSIFICATION.head, ("entailment", "not_entailment")),
        ("bert", TOKEN_CLASSIFICATION.head, LABELS),
    ],
)
def test_copies_of_a_classifier_with_other_orders_of_labels_begin_alike(family, head, labels, tmp_path):
    """The layer belongs to the checkpoint's names; names that nobody can translate get a new layer."""
    classifier = save_classifier(tmp_path / "own", family, labels, task=str(head.task))
    parse = scheme_of if labels != LABELS else lambda names: names
    own = head.loader.from_pretrained(classifier).eval()
    inputs = {"input_ids": torch.tensor([[2, 7, 9, 3]])}
    n, said = len(labels), []
    for number, order in enumerate((range(n), (*range(1, n), 0), range(n)[::-1])):
        spelled = [labels[own].upper().replace("_", "-") if labels != LABELS else labels[own] for own in order]
        copy = permuted(tmp_path / str(number), classifier, order, spelled)
        model = Base.find(str(copy), head, labels, parse).open(said.append).eval()
        assert list(model.config.id2label.values()) == list(labels)
        assert torch.equal(model(**inputs).logits, own(**inputs).logits)
    assert len(said) == 3
    assert said[1].endswith(f"its last layer goes on, in the order of the data ({', '.join(labels)})")
    drawn = []
    for number, names in enumerate(([f"LABEL_{i}" for i in range(n)], [f"sense {i}" for i in range(n)])):
        copy = permuted(tmp_path / f"new {number}", classifier, range(n)[::-1], names)
        torch.manual_seed(1)
        drawn.append(Base.find(str(copy), head, labels, parse).open(said.append).eval()(**inputs).logits)
        assert said[-1].endswith("they are not those of the data, so its last layer is replaced by a new one")
    assert torch.equal(*drawn)
    assert not torch.allclose(drawn[0], own(**inputs).logits)


RESULT = {"steps": 1, "epochs": 1, "score": 1.0}


def held(folder):
    return TrainingFolder.hold(folder, "nli train", {"model": "m", "seed": 1})


def test_a_result_that_cannot_be_written_leaves_no_checkpoint_and_one_that_was_changed_is_not_finished(tmp_path):
    def save(folder):
        (folder / "config.json").write_text("{}")

    def fail(folder):
        save(folder)
        raise OSError(28, "No space left on device")

    with held(tmp_path) as training:
        training.write_record()
        with pytest.raises(InputError, match="no space left"):
            training.publish(fail, {})
        assert ((tmp_path / "config.json").exists(), read_training(tmp_path).finished) == (False, False)
        training.publish(save, RESULT)
        assert training.is_finished
    (tmp_path / "config.json").write_text("{ }")
    with held(tmp_path) as training:
        assert not training.is_finished


def test_the_weights_are_on_the_disk_before_the_record_and_before_the_checkpoints_go(tmp_path, monkeypatch):
    """And the files of a checkpoint before its seal."""
    flushed, checkpoints = [], tmp_path / CHECKPOINTS  # inodes, and whether there were checkpoints then
    monkeypatch.setattr(os, "fsync", lambda own: flushed.append((os.fstat(own).st_ino, checkpoints.exists())))

    def save(folder):
        for name in ("model.safetensors", "config.json"):
            (folder / name).write_text(name)

    def order(*paths):
        return [[inode for inode, _ in flushed].index(path.stat().st_ino) for path in paths]

    with held(tmp_path) as training:
        checkpoints.mkdir()
        (checkpoints / "optimizer.pt").write_text("momentum")
        seal(checkpoints)
        state, sealed = order(checkpoints / "optimizer.pt", checkpoints / SEAL)
        assert state < sealed
        flushed.clear()
        training.publish(save, RESULT)
    *before, record = order(*(tmp_path / name for name in ("model.safetensors", "config.json", ".", RECORD)))
    assert max(before) < record
    assert flushed[record + 1 :] == [(tmp_path.stat().st_ino, True)]  # the name of the record, before they go
    assert not checkpoints.exists()


def test_nothing_is_written_or_removed_behind_a_link(tmp_path):
    mine, folder = tmp_path / "mine" / "checkpoint-1", tmp_path / "out"
    mine.mkdir(parents=True)
    with held(folder) as training:
        training.write_record()
    (folder / CHECKPOINTS).symlink_to(mine.parent)
    with pytest.raises(InputError, match="a link, not a folder, so nothing is written there"), held(folder):
        pass
    assert mine.is_dir()
