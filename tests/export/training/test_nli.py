"""`negengine nli train` on a synthetic task: train, export, test by the engine, compare with and without negation."""

import json

import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.library.training_options import NliOptions
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.report.citation import cite
from negengine.export.training.folder import read_training
from negengine.export.training.nli import train_nli

from .conftest import SETTINGS

pytestmark = pytest.mark.long

QUICK = SETTINGS | {"epochs": 1, "batch_size": 64}


def rows(training) -> dict[tuple[str, str], dict]:
    return {(row["condition"], row["split"]): row for row in training.document()["accuracy"]}


@pytest.mark.everything
def test_a_tiny_model_learns_the_task_and_only_the_pairs_with_negation_teach_their_rule(evaluated, negation):
    """The synthetic task is made so; Table 8's question can be answered on it, by `compare` on the held-out pairs."""
    found = {name: rows(own) for name, own in evaluated.items()}
    assert found["original"]["original", "all"]["value"] > 0.9
    assert found["negation"]["new", "all"]["value"] > 0.9
    of_kind = {name: own["new", "T-Hneg"]["value"] for name, own in found.items()}
    assert (of_kind["original"] < 0.7, of_kind["negation"] > 0.9) == (True, True)
    held_out = evaluated["negation"].run.items.filter(pl.col("condition") == "new").select("text", "second")
    assert (len(held_out), found["original"]["new", "all"]["n"]) == (54, 180)  # 18 of 60 triples
    benchmark = {tuple(line.split("\t")[1:3]) for line in (negation / "RTE.txt").read_text("cp1252").splitlines()}
    assert set(held_out.iter_rows()) < benchmark
    lines = compare(*(own.run for own in evaluated.values())).frame.filter(condition="new")
    assert lines.select("split", "n").rows() == [("all", 54), ("Tneg-H", 18), ("T-Hneg", 18), ("Tneg-Hneg", 18)]
    assert (lines["difference"][2] < -0.3, lines["p_holm"][2] < 0.05) == (True, True)
    given = [own.record.identity.get("negation") for own in evaluated.values()]
    assert (given, all(read_training(own.folder).finished for own in evaluated.values())) == ([None, 0.7], True)


@pytest.mark.everything
def test_what_is_shared_with_the_training_and_what_the_paper_prints_stand_beside_the_figures(evaluated):
    with_new, without = evaluated["negation"], evaluated["original"]
    shared = with_new.document()["shared_sentences"]
    assert (0 < shared["dev"]["added"] < 60, shared["held out"]["added"]) == (True, 0)
    trained, accuracy, *_ = with_new.tables()
    assert set(with_new.pairs.notes) <= set(trained.notes)
    said = "paper, Table 8, on all held-out pairs: 83.8-88.2 % with 70 % of the new pairs in the training, 59.3-64.4 % "
    assert [line.startswith(said) for line in with_new.remarks()] == [True]
    assert "paper" not in [column.heading for column in accuracy.columns]  # Table 7 is of other trainings
    dev = without.tables()[1].frame.filter(kind="dev")
    assert dev["published accuracy"].to_list() == [0.661]
    assert with_new.run.methods("Hossain et al., 2020").startswith(
        "We fine-tuned encoder-whole on the original training split of RTE, with 70 % of the new pairs; the other new "
        "pairs are the test (transformers' Trainer; 4 epochs, batches of 16, learning rate 0.005, weight decay 0, at "
        "most 32 tokens, seed 42). We judged the pairs"
    )
    assert "wolf-etal-2020-transformers" in {reference.key for reference in cite(with_new.run).references}


def trained(encoder, glue, folder, **given):
    plain = {"model": str(encoder), "output": folder, "task": "rte", "data": glue}
    return train_nli(NliOptions(**plain | QUICK | given))


def test_an_encoder_without_a_pooler_is_trained_with_a_new_one_on_request(encoder, glue, tmp_path):
    """One classifier goes to the folder itself."""
    folder, bare = tmp_path / "rte", encoder("without pooler")
    with pytest.raises(InputError, match=r"its weights lack the pooler \(bert.pooler.dense.bias\), .* --new-pooler"):
        trained(bare, glue, folder)
    assert [path.name for path in folder.iterdir()] == [".lock"]
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


def test_a_folder_with_other_files_is_refused(encoder, glue, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"holds 'notes.txt'.* choose another --output"):
        trained(encoder(), glue, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_an_accuracy_on_dev_whose_epoch_was_chosen_on_dev_says_so(encoder, glue, negation, tmp_path):
    said = "the epoch was chosen by its accuracy on dev, so this accuracy on dev is on average too high"
    found = trained(encoder(), glue, tmp_path / "chosen", patience=1, epochs=2, evaluate=True, negation_data=negation)
    assert said in found.training_table().notes
    assert said in found.remarks()
    assert "seed 42, the best epoch on dev with a patience of 1)" in found.run.methods("")


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
