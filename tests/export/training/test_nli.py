"""`negengine nli train` on a synthetic task: train, export, test by the engine, compare with and without negation."""

import json

import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.library.training_options import NliOptions
from negengine.engine.results.report.citation import cite
from negengine.export import needs
from negengine.export.training.folder import read_training
from negengine.export.training.nli import train_nli

from .conftest import SETTINGS

pytestmark = pytest.mark.long

QUICK = SETTINGS | {"epochs": 1, "batch_size": 64}


def rows(evaluated) -> dict[tuple[str, str], dict]:
    return {(row["condition"], row["split"]): row for row in evaluated.accuracies.to_dicts()}


def items(one, condition):
    return one.run.items.filter(pl.col("condition") == condition)


@pytest.mark.everything
def test_a_tiny_model_learns_the_task_and_only_the_pairs_with_negation_teach_their_rule(evaluated, negation):
    """The synthetic task is made so; Table 8's question can be answered on it. Held-out pairs are learned by none."""
    found = rows(evaluated)
    assert found["original", "all"]["original"] > 0.9
    assert found["new", "all"]["negation"] > 0.9
    row = found["new", "T-Hneg"]
    assert (row["original"] < 0.7, row["negation"] > 0.9) == (True, True)
    assert row["gain"] == pytest.approx(row["negation"] - row["original"])
    assert row["gain_n"] == row["n"]  # no held-out pair shares a sentence with an added pair
    assert (row["p"] <= row["p_holm"] < 0.05, row["p_seeds"]) == (True, 0.5)  # the smallest that two seeds can give
    for condition in ("original", "negation"):
        own = [items(one, "new")["accuracy"].mean() for one in evaluated.trained if one.condition == condition]
        assert found["new", "all"][condition] == pytest.approx(np.mean(own))
        assert found["new", "all"][f"{condition}_deviation"] == pytest.approx(np.std(own, ddof=1))
    held_out = [items(one, "new").select("text", "second").sort("text") for one in evaluated.trained]
    assert all(own.equals(held_out[0]) for own in held_out)
    assert len(held_out[0]) == 54  # 18 of 60 triples
    benchmark = {tuple(line.split("\t")[1:3]) for line in (negation / "RTE.txt").read_text("cp1252").splitlines()}
    assert set(held_out[0].iter_rows()) < benchmark
    records = [read_training(one.folder) for one in evaluated.trained]
    assert all(record.finished for record in records)
    given = [(record.identity["seed"], record.identity.get("negation")) for record in records]
    assert given == [(42, None), (42, 0.7), (43, None), (43, 0.7)]


@pytest.mark.everything
def test_pairs_of_dev_with_a_sentence_of_an_added_pair_are_left_out_of_the_gain_and_documents_say_it(evaluated):
    added = {side for pair in evaluated.pairs.negation.train for side in (pair.text, pair.hypothesis)}
    own = {"original": [], "negation": []}
    for one in evaluated.trained:
        kept = items(one, "original").filter(~pl.col("text").is_in(added) & ~pl.col("second").is_in(added))
        own[one.condition] += kept["accuracy"].to_list()
    row = rows(evaluated)["original", "all"]
    assert 0 < row["gain_n"] == len(own["original"]) / 2 < row["n"] == 60
    assert row["gain"] == pytest.approx(np.mean(own["negation"]) - np.mean(own["original"]))
    shared = evaluated.document()["shared_sentences"]
    assert (shared["dev"]["added"], shared["held out"]["added"]) == (60 - row["gain_n"], 0)
    assert set(evaluated.pairs.shared.sentences()) <= set(evaluated.tables()[0].notes)
    found = rows(evaluated)
    assert (found["new", "all"]["original_paper"], found["new", "all"]["negation_paper"]) == ("59.3-64.4", "83.8-88.2")
    assert found["original", "all"]["original_paper"] == "66.1"  # Table 7, BERT
    assert found["new", "T-Hneg"]["original_paper"] is None  # a cell that is not at hand
    document = json.loads(json.dumps(evaluated.document()))
    assert document["accuracy"][-1]["negation"] == found["new", "all"]["negation"]
    run = evaluated.trained[1].run
    assert run.methods("Hossain et al., 2020").startswith(
        "We fine-tuned encoder-whole on the original training split of RTE, with 70 % of the new pairs; the other new "
        "pairs are the test (transformers' Trainer; 4 epochs, batches of 16, learning rate 0.005, weight decay 0, at "
        "most 32 tokens, seed 42). We judged the pairs"
    )
    assert "wolf-etal-2020-transformers" in {reference.key for reference in cite(run).references}


def trained(encoder, glue, folder, **given):
    plain = {"model": str(encoder), "output": folder, "task": "rte", "data": glue}
    return train_nli(NliOptions(**plain | QUICK | given))


def test_an_encoder_without_a_pooler_is_trained_with_a_new_one_on_request(encoder, glue, tmp_path):
    """One classifier goes to the folder itself."""
    folder, bare = tmp_path / "rte", encoder("without pooler")
    with pytest.raises(InputError, match=r"its weights lack the pooler \(bert.pooler.dense.bias\), .* --new-pooler"):
        trained(bare, glue, folder)
    assert not folder.exists()
    trained(bare, glue, folder, new_pooler=True)
    assert list(json.loads((folder / "config.json").read_text())["id2label"].values()) == [
        "entailment",
        "not_entailment",
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"max_length": 100}, "--max-length 100: .* takes at most 40 tokens"),
        ({"epochs": 0}, "--epochs 0: give a number from 1"),
        ({"device": "cuda"}, "--device cuda: PyTorch .* finds no CUDA device"),
        ({"task": "qqp"}, "--task qqp: give rte, snli, mnli"),
        ({"negation": 0.7}, "run `negengine data get negation-nli`, or give --negation-data PATH"),
        ({"negation_data": "x"}, "--negation-data: give --negation too"),
    ],
)
def test_wrong_options_leave_nothing_behind(given, said, encoder, glue, tmp_path, monkeypatch):
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path / "data"))
    with pytest.raises(InputError, match=said):
        trained(encoder(), glue, tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_too_little_memory_or_disk_and_a_folder_with_other_files_are_refused(encoder, glue, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'notes.txt'.* choose another --output"):
        trained(encoder(), glue, tmp_path, seeds=2)
    monkeypatch.setattr(needs, "free_disk", lambda _: 0.0)
    with pytest.raises(InputError, match=r"of disk, but only 0.0 GB are free in"):
        trained(encoder(), glue, tmp_path / "out")
    monkeypatch.setattr(needs, "free_memory", lambda: 5e8)
    with pytest.raises(InputError, match=r"batches of 64 needs about .*, but only 0.5 GB of memory are free: take"):
        trained(encoder(), glue, tmp_path / "out")
    assert {path.name for path in tmp_path.rglob("*")} == {"notes.txt", "out", ".lock"}


def test_an_accuracy_on_dev_whose_epoch_was_chosen_on_dev_says_so(encoder, glue, negation, tmp_path):
    said = "the epoch was chosen by its accuracy on dev, so this accuracy on dev is on average too high"
    found = trained(encoder(), glue, tmp_path / "chosen", patience=1, epochs=2, evaluate=True, negation_data=negation)
    assert all(said in table.notes for table in (found.training_table(), found.accuracy_table()))
    assert said in found.trained[0].run.remarks()
    assert "seed 42, the best epoch on dev with a patience of 1)" in found.trained[0].run.methods("")


def test_the_command_tells_a_training_as_json_and_bad_input_in_one_line(encoder, glue, tmp_path, command):
    train = ("nli", "train", encoder(), "--task", "rte", "--data", glue, "--epochs=1", "--batch-size=64")
    train += ("--max-length=32", "--device=cpu", "--threads=1", "--json", "-o")
    done = command(*train, "rte")
    document = json.loads(done.out)
    assert (done.status, document["task"]) == (0, "RTE")
    assert (document["settings"]["batch_size"], document["settings"]["learning_rate"]) == (64, 2e-5)  # the paper's
    assert "rte: the classifier is written; next, `negengine export rte -o rte/onnx`" in done.err
    done = command(*train, "out", "--lr", "0")
    assert done.status == 2
    assert done.said.startswith("negengine: --lr 0.0: give a number above 0")
    assert not (tmp_path / "out").exists()
