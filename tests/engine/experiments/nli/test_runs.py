"""Judgements against transformers, in fp32 and mixed precision; comparisons; summaries of hand-made items."""

from dataclasses import replace

import negengine as ng
import numpy as np
import polars as pl
import pytest
import torch
from asked_stages import cell, published
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.cues.cue_words import has_cue
from negengine.engine.experiments.nli.nli import Nli, NliRun, nli
from negengine.engine.experiments.nli.nli_pairs import KINDS
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.library.model import find_model
from negengine.engine.results.comparison.compare import compare
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.stage import changed
from negengine.engine.statistics.clusters import clustered_mean, proportion_interval
from scipy import stats
from transformers import AutoTokenizer, BertForSequenceClassification

from ..conftest import HEADER, HEADS

LONGEST, NEUTRAL = 16, pl.lit("neutral")


@pytest.fixture(scope="module")
def runs(classifiers, nli_data, tmp_path_factory):
    """Head → a finished run of all pairs, in six parts."""
    found, folder = {}, tmp_path_factory.mktemp("run")
    for head, (_, exported) in classifiers.items():
        asked = Nli(data=nli_data, original={"RTE": nli_data / "dev.tsv"}, source=("RTE", "SNLI"), max_length=LONGEST)
        stage = changed(asked, requests_per_part=40).stage(exported)
        opening = Opening(batch_tokens=100, threads=1)
        run_stage(stage, folder / head, Execution(ThisProcess(CPU), opening, reporter=Reporter(silent=True)))
        found[head] = NliRun.open(folder / head)
    return found


@pytest.mark.parametrize("head", HEADS)
def test_items_equal_a_slow_reference(classifiers, head, nli_data, runs):
    checkpoint, items = classifiers[head][0], runs[head].items
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = BertForSequenceClassification.from_pretrained(checkpoint).eval()
    files = [("RTE", "original", "dev.tsv"), ("RTE", "new", "RTE.txt"), ("SNLI", "new", "SNLI.txt")]
    rows, probabilities, logits, texts = [], [], [], []
    for source, condition, name in files:
        for line in (nli_data / name).read_text("cp1252").strip().split("\n")[1:]:
            index, text, hypothesis, gold = line.split("\t")
            texts.append((text, hypothesis))
            whole = tokenizer(text, hypothesis)["input_ids"]
            cut = tokenizer(text, hypothesis, truncation="longest_first", max_length=LONGEST, return_tensors="pt")
            with torch.inference_mode():
                chances = model(**cut).logits.softmax(-1)[0]
            label = model.config.id2label[int(chances.argmax())]
            two_way = source == "RTE" or head == "two-way"
            scored = [one if one == "entailment" or not two_way else "not_entailment" for one in (gold, label)]
            negation = has_cue(text) or has_cue(hypothesis)
            splits = ["all", KINDS[int(index) % 3]] if condition == "new" else ["all", *["negation"] * negation]
            given = (gold, label, scored[0], scored[0] == scored[1])
            rows.append((source, condition, splits, index, negation, *given, len(whole) > LONGEST))
            probabilities.append(chances.max().item())
            logits.append(model(**cut).logits[0].tolist())
    columns = ["dataset", "condition", "splits", "item", "negation", "gold", "label", "expected", "accuracy"]
    assert items.select(*columns, "truncated").rows() == rows
    assert items["probability"].to_list() == pytest.approx(probabilities, abs=5e-5)
    found = items.select(f"logit_{name}" for name in model.config.id2label.values())
    assert found.to_numpy() == pytest.approx(np.array(logits), abs=2e-4)
    assert 0 < items["truncated"].sum() < len(items)
    assert items["label"].n_unique() > 1
    shown = runs[head].sentences()
    assert shown.select("premise", "hypothesis").rows() == texts
    assert (shown["failed"] != shown["correct"]).all()
    assert (shown["correct"] == (shown["answer"] == shown["expected"])).all()


def test_what_cannot_be_judged_is_refused_before_a_model_is_opened(classifiers, nli_data, tmp_path):
    exported = classifiers["three-way"][1]
    assert Nli(data=nli_data, source="RTE").kind(exported).max_length == 40  # its own, which is below the paper's 128
    (tmp_path / "RTE.txt").write_text(f"type\t{HEADER}Tneg-H\t0\tthe man\tthe [PAD] man\tentailment\r\n")
    exported = replace(exported, padding_id=0)  # as of a family that counts positions by its padding token
    stage = Nli(data=tmp_path, source="RTE").stage(exported)
    with pytest.raises(InputError, match=r"RTE\.txt:2: it contains the padding token"):
        stage.check(lambda _: None)


def test_the_exports_own_int8_graph_gives_the_labels_of_fp32(classifiers, runs, nli_data, tmp_path):
    model = find_model(classifiers["two-way"][1].folder, Opening(precision="mixed"), task="text-classification")
    mixed = nli(model, data=nli_data, source="RTE", max_length=LONGEST, output=tmp_path / "run")
    changing = ("probability", "precision", "logit_entailment", "logit_not_entailment")
    exact = runs["two-way"].items.filter(dataset="RTE", condition="new")
    assert mixed.items.drop(changing).equals(exact.drop(changing))
    assert set(mixed.items["precision"]) <= {"fp32", "int8"}
    assert mixed.record.calibration["pairs"]["precision"] == "mixed"
    assert "Mixed precision: " in str(mixed)
    assert not ng.verify(mixed, sample=90).damage


def test_a_two_way_accuracy_stands_beside_no_three_way_figure_of_the_paper(runs):
    """The tests' classifiers are a BERT, one of the paper's families; RTE is two-way for every model."""
    for head, beside in (("three-way", {"RTE", "SNLI"}), ("two-way", {"RTE"})):
        run = runs[head]
        table = run.tables()[0].frame
        shown = {row["dataset"] for row in table.to_dicts() if row.get("published accuracy") is not None}
        assert (shown, set(table["dataset"])) == (beside, {"RTE", "SNLI"})
        assert any("SNLI: accuracy is two-way" in line for line in run.remarks()) is (head == "two-way")


def test_two_models_are_compared_where_they_are_scored_alike(runs):
    """On SNLI a two-way model is not asked the question of a three-way model, so only RTE is compared."""
    found = compare(runs["three-way"], runs["two-way"]).frame
    assert set(found["dataset"]) == {"RTE"}
    sizes = {("original", "all"): 60, ("new", "all"): 90} | {("new", kind): 30 for kind in KINDS}
    assert found.select("condition", "split", "n").rows() == [(*key, n) for key, n in sizes.items()]
    three, two = (runs[head].items.filter(dataset="RTE", condition="new")["accuracy"].mean() for head in HEADS)
    [difference] = found.filter(condition="new", split="all")["difference"]
    assert difference == pytest.approx(three - two)


def test_the_graphs_of_a_classifier_are_compared_with_each_other_and_with_pytorch(classifiers):
    checkpoint, exported = classifiers["two-way"]
    found = ng.verify(exported.folder, sample=8, torch=str(checkpoint))
    assert [(check.of, check.what, str(check.outcome)) for check in found.checks if check.n == 8] == [
        ("model.onnx", "equal to PyTorch within rounding", "ok"),
        ("model.cpu.onnx", "equal to model.onnx within rounding", "ok"),
        ("model.int8.onnx", "close to model.onnx", "ok"),
        ("model.fp16.onnx", "close to model.onnx", "ok"),
    ]


def summary_of(original, triples):
    """Of SNLI, three-way: whether original pairs are right, and each of a triple of new pairs."""
    rows = [("original", str(i), None, ["all"], right) for i, right in enumerate(original)]
    rows += [("new", str(i), str(i), ["all", KINDS[k]], right) for i, own in enumerate(triples)
             for k, right in enumerate(own)]  # fmt: skip
    names = ("condition", "item", "cluster", "splits", "right")
    given = pl.DataFrame(rows, schema=names, orient="row", schema_overrides={"cluster": pl.String})
    label = pl.when("right").then(NEUTRAL).otherwise(pl.lit("entailment"))
    own = given.with_columns(dataset=pl.lit("SNLI"), pair="item", gold=NEUTRAL, expected=NEUTRAL, label=label)
    no = pl.lit(value=False)
    return published(Nli, own.with_columns(truncated=no, negation=no, two_way=no))[1]


def test_the_drops_interval_combines_both_with_a_triple_as_one_draw():
    """Eight original pairs, six right; five triples of which 3, 3, 1, 0 and 2 pairs are right."""
    original = [i < 6 for i in range(8)]
    triples = [(True, True, True), (True, True, True), (True, False, False), (False, False, False), (True, True, False)]
    row = cell(summary_of(original, triples[:4]), "SNLI", "new", "all", "accuracy_drop")
    assert (row["low"], row["high"], row["clusters"]) == (None, None, 4)
    row = cell(summary_of(original, triples), "SNLI", "new", "all", "accuracy_drop")
    wilson = stats.binomtest(6, 8).proportion_ci(method="wilson")
    low, high = proportion_interval(clustered_mean(np.array([3, 3, 1, 0, 2]), np.full(5, 3)))
    below, above = np.hypot(6 / 8 - wilson.low, high - 9 / 15), np.hypot(wilson.high - 6 / 8, 9 / 15 - low)
    assert (row["low"], row["high"]) == pytest.approx((row["value"] - below, row["value"] + above))
    assert row["clusters"] == 5
    assert row["value"] == pytest.approx(6 / 8 - 9 / 15)
    none_right = summary_of(original, [(False,) * 3] * 3)
    for split in (*KINDS, "all"):
        row = cell(none_right, "SNLI", "new", split, "relative_drop")
        assert (row["value"], row["low"], row["high"]) == (1.0, None, None)
    assert not none_right.select(pl.col("value", "low", "high").is_nan().any()).row(0).count(True)
