"""`negengine nli train` on a synthetic task: train, export, test by the engine, compare with and without negation."""

import json
import sys

import numpy as np
import polars as pl
import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.cli import main
from negengine.engine.cli.train_commands import TrainingOptions
from negengine.engine.results.report.citation import cite
from negengine.engine.runs.lock import locked
from negengine.export.training import settings as needs
from negengine.export.training.folder import read_training
from negengine.export.training.nli import paper_settings, train_nli
from negengine.export.training.settings import Settings
from tiny_encoder import tokenizer
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    FNetConfig,
    FNetModel,
    XLNetConfig,
    XLNetModel,
)

from .conftest import SETTINGS

pytestmark = pytest.mark.long

QUICK = SETTINGS | {"epochs": 1, "batch_size": 64}


def rows(evaluated) -> dict[tuple[str, str], dict]:
    return {(row["condition"], row["split"]): row for row in evaluated.accuracies.to_dicts()}


def items(one, condition):
    return one.run.items.filter(pl.col("condition") == condition)


@pytest.mark.everything
def test_a_tiny_model_learns_the_task_and_only_the_pairs_with_negation_teach_their_rule(evaluated):
    """The synthetic task is made so; Table 8's question can be answered on it."""
    found = rows(evaluated)
    assert found["original", "all"]["original"] > 0.9
    assert found["new", "all"]["negation"] > 0.9
    row = found["new", "T-Hneg"]
    assert row["original"] < 0.7
    assert row["negation"] > 0.9
    assert row["gain"] == pytest.approx(row["negation"] - row["original"])
    assert row["p"] < row["p_holm"] < 0.05
    assert row["p_seeds"] == 0.5  # the smallest that two seeds can give
    for condition in ("original", "negation"):
        own = [items(one, "new")["correct"].mean() for one in evaluated.trained if one.condition == condition]
        assert found["new", "all"][condition] == pytest.approx(np.mean(own))
        assert found["new", "all"][f"{condition}_deviation"] == pytest.approx(np.std(own, ddof=1))


@pytest.mark.everything
def test_all_are_tested_on_the_same_held_out_pairs_of_which_none_was_learned(evaluated, negation):
    held_out = [items(one, "new").select("item", "premise", "hypothesis").sort("item") for one in evaluated.trained]
    assert len(held_out) == 4
    assert all(own.equals(held_out[0]) for own in held_out)
    assert len(held_out[0]) == 54  # 18 of 60 triples
    benchmark = {tuple(line.split("\t")[1:3]) for line in (negation / "RTE.txt").read_text("cp1252").splitlines()}
    assert set(held_out[0].select("premise", "hypothesis").iter_rows()) < benchmark
    assert (
        items(evaluated.trained[0], "original")["negation"].sum() == rows(evaluated)["original", "negation"]["n"] == 6
    )


@pytest.mark.everything
def test_each_classifier_has_its_own_seed_and_record(evaluated):
    seeds = [(one.condition, one.seed) for one in evaluated.trained]
    assert seeds == [("original", 42), ("negation", 42), ("original", 43), ("negation", 43)]
    for one in evaluated.trained:
        record = read_training(one.folder)
        assert record.finished
        assert record.identity["seed"] == one.seed
        assert record.identity.get("negation") == (0.7 if one.condition == "negation" else None)
        assert not (one.folder / "checkpoints").exists()


@pytest.mark.everything
def test_tables_document_and_methods_say_the_same_and_the_papers_ranges_stand_beside_ours(evaluated):
    found = rows(evaluated)
    assert (found["new", "all"]["original_paper"], found["new", "all"]["negation_paper"]) == ("59.3-64.4", "83.8-88.2")
    assert found["original", "all"]["original_paper"] == "66.1"  # Table 7, BERT
    assert found["new", "T-Hneg"]["original_paper"] is None  # a cell that is not at hand
    text = str(evaluated)
    assert "Accuracy on RTE after training" in text
    assert "What the new pairs add" in text
    document = json.loads(json.dumps(evaluated.document()))
    assert len(document["classifiers"]) == 4
    assert document["accuracy"][-1]["negation"] == found["new", "all"]["negation"]
    assert "next, `negengine show" in evaluated.closing()
    run = evaluated.trained[1].run
    assert run.methods("Hossain et al., 2020").startswith(
        "We fine-tuned encoder-whole on the original training split of RTE, with 70 % of the new pairs; the other new "
        "pairs are the test (transformers' Trainer; 4 epochs, batches of 16, learning rate 0.005, weight decay 0, at "
        "most 32 tokens, seed 42). We judged the pairs"
    )
    assert "wolf-etal-2020-transformers" in {reference.key for reference in cite(run).references}


@pytest.mark.everything
def test_the_engine_answers_as_pytorch(evaluated):
    """The same checkpoint in transformers, pair by pair."""
    one = evaluated.trained[-1]
    model = AutoModelForSequenceClassification.from_pretrained(one.folder).eval()
    encode = AutoTokenizer.from_pretrained(one.folder)
    for item in one.run.items.head(20).iter_rows(named=True):
        with torch.inference_mode():
            logits = model(**encode(item["premise"], item["hypothesis"], return_tensors="pt")).logits[0]
        assert model.config.id2label[int(logits.argmax())] == item["predicted"]


def test_one_classifier_goes_to_the_folder_itself(encoder, glue, tmp_path):
    folder = tmp_path / "rte"
    found = train_nli(str(encoder()), TrainingOptions(output=folder, **QUICK), task="rte", data=glue)
    labels = json.loads((folder / "config.json").read_text())["id2label"]
    assert labels == {"0": "entailment", "1": "not_entailment"}
    assert found.closing().endswith(f"negengine export {folder} -o {folder}/onnx`")
    changed = TrainingOptions(output=folder, **QUICK | {"learning_rate": 1e-3})
    with pytest.raises(InputError, match=r"rte: was trained with learning_rate 0.005, now 0.001: choose another"):
        train_nli(str(encoder()), changed, task="rte", data=glue)


@pytest.mark.parametrize(
    ("changed", "given", "said"),
    [
        ({"max_length": 100}, {}, "--max-length 100: .* takes at most 40 tokens"),
        ({"epochs": 0}, {}, "--epochs 0: give a number from 1"),
        ({"learning_rate": float("nan")}, {}, "--lr nan: give a number above 0"),
        ({"device": "cuda"}, {}, "--device cuda: PyTorch .* finds no CUDA device"),
        ({"device": "cuda:1"}, {}, "--device cuda:1: give auto, cpu or cuda"),
        ({"precision": "mixed"}, {}, "--precision mixed: a training computes in mixed precision on a GPU only"),
        ({"seeds": 10**6}, {}, "--seeds 1000000: give at most 1,000"),
        ({}, {"task": "qqp"}, "--task QQP: give RTE, SNLI, MNLI"),
        ({}, {"task": "mnli"}, "unknown label 'not_entailment'; MNLI has entailment, contradiction, neutral"),
        ({}, {"negation": 1.5}, "--negation 1.5: give a fraction between 0 and 1"),
        ({}, {"negation": 0.7}, "run `negengine data get negation-nli`, or give --negation-data PATH"),
        ({}, {"negation_data": "x"}, "--negation-data: give --negation too"),
    ],
)
def test_wrong_options_leave_nothing_behind(changed, given, said, encoder, glue, tmp_path, monkeypatch):
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path / "data"))
    options = TrainingOptions(output=tmp_path / "out", **SETTINGS | changed)
    with pytest.raises(InputError, match=said):
        train_nli(str(encoder()), options, **{"task": "rte", "data": glue} | given)
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_without_a_pooler_is_refused(encoder, glue, tmp_path):
    options = TrainingOptions(output=tmp_path / "out", **QUICK)
    with pytest.raises(InputError, match=r"its weights lack the pooler \(bert.pooler.dense.bias\), .* --new-pooler"):
        train_nli(str(encoder("without pooler")), options, task="rte", data=glue)
    assert not (tmp_path / "out").exists()
    found = train_nli(str(encoder("without pooler")), options, task="rte", data=glue, new_pooler=True)
    assert found.trained[0].record.finished


def test_too_little_memory_is_said_before_the_training(encoder, glue, tmp_path, monkeypatch):
    monkeypatch.setattr(needs, "free_memory", lambda: 5e8)
    options = TrainingOptions(output=tmp_path / "out", **QUICK)
    said = r"batches of 64 needs about .* GB of memory, but only 0.5 GB are free: take a"
    with pytest.raises(InputError, match=said):
        train_nli(str(encoder()), options, task="rte", data=glue)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {".lock"}


def test_a_folder_with_other_files_or_in_use_is_refused(encoder, glue, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for seeds in (None, 2):
        options = TrainingOptions(output=tmp_path, seeds=seeds, **QUICK)
        with pytest.raises(InputError, match=r"holds 'notes.txt'.* choose another --output"):
            train_nli(str(encoder()), options, task="rte", data=glue)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "out").mkdir()
    with locked(tmp_path / "out"), pytest.raises(InputError, match="in use by process"):
        train_nli(str(encoder()), TrainingOptions(output=tmp_path / "out", **QUICK), task="rte", data=glue)


def saved(kind, config, folder):
    kind(config(vocab_size=len(tokenizer()))).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def small(kind, **sizes):
    return lambda **given: kind(**sizes, **given)


def test_an_evaluation_that_is_not_possible_is_refused_before_the_training(glue, tmp_path):
    """Optimum does not export FNet."""
    config = small(FNetConfig, hidden_size=16, num_hidden_layers=1, intermediate_size=16)
    options = TrainingOptions(output=tmp_path / "out", **QUICK)
    with pytest.raises(InputError, match="fnet: Optimum has no text-classification export for the family fnet"):
        train_nli(saved(FNetModel, config, tmp_path / "fnet"), options, task="rte", data=glue, evaluate=True)
    assert not (tmp_path / "out").exists()


@pytest.mark.everything
def test_xlnet_is_trained(glue, tmp_path):
    """tests/export has its export."""
    config = small(XLNetConfig, d_model=16, n_layer=1, n_head=2, d_inner=16, pad_token_id=0)
    options = TrainingOptions(output=tmp_path / "out", **QUICK)
    found = train_nli(saved(XLNetModel, config, tmp_path / "xlnet"), options, task="rte", data=glue)
    assert found.trained[0].record.finished


@pytest.mark.parametrize(
    ("source", "family", "epochs", "batch_size", "learning_rate", "weight_decay"),
    [
        ("RTE", "roberta", 10, 16, 2e-5, 0.0),
        ("RTE", "xlnet", 50, 8, 2e-5, 0.0),
        ("RTE", "bert", 50, 8, 2e-5, 0.0),
        ("RTE", "electra", 50, 8, 2e-5, 0.0),
        ("SNLI", "roberta", 3, 32, 1e-5, 0.1),
        ("SNLI", "bert", 3, 32, 1e-5, 0.1),
        ("MNLI", "xlnet", 3, 32, 2e-5, 0.0),
    ],
)
def test_settings_are_those_of_the_scripts(source, family, epochs, batch_size, learning_rate, weight_decay):
    found = Settings(**paper_settings(source, family))
    assert found == Settings(epochs, batch_size, learning_rate, weight_decay, warmup=0.0, max_length=128, seed=42)


def test_the_command_tells_a_training_as_json_and_bad_input_in_one_line(encoder, glue, tmp_path, monkeypatch, capfd):
    options = ("--epochs", "1", "--batch-size", "64", "--max-length", "32", "--device", "cpu", "--threads", "1")

    def run(*arguments):
        words = ["nli", "train", encoder(), "--task", "rte", "--data", glue, "-o", *arguments, *options, "--json"]
        monkeypatch.setattr(sys, "argv", ["negengine", *map(str, words)])
        capfd.readouterr()
        return main.run(), *capfd.readouterr()

    monkeypatch.chdir(tmp_path)
    status, out, err = run("rte")
    document = json.loads(out)
    assert (status, document["task"]) == (0, "RTE")
    assert (document["settings"]["batch_size"], document["settings"]["learning_rate"]) == (64, 2e-5)  # the paper's
    assert "rte: the classifier is written; next, `negengine export rte -o rte/onnx`" in err
    status, _, err = run("out", "--lr", "0")
    assert status == 2
    assert err.splitlines()[-1].startswith("negengine: --lr 0.0: give a number above 0")
    assert not (tmp_path / "out").exists()


def test_a_stopped_training_names_the_command_that_resumes_it(monkeypatch, capsys):
    for command in ("nli", "cues"):
        monkeypatch.setattr(sys, "argv", ["negengine", command, "train", "model", "-o", "out"])
        main.say_interrupted()
        assert f"To resume: negengine {command} train model -o out" in capsys.readouterr().err
