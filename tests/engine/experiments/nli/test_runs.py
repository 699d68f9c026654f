"""`ng.nli`, its commands, and what compare is told of its runs."""

import shutil
from pathlib import Path

import negengine as ng
import polars as pl
import pytest
from documented import documented
from lies import changed, copy_without_parts, damage, lie
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.basics.reading import file_sha256
from negengine.engine.experiments.experiment import options_of
from negengine.engine.experiments.nli.nli import Nli, nli
from negengine.engine.experiments.nli.nli_pairs import KINDS, read_sets
from negengine.engine.inference.exported import read_manifest, write_manifest
from negengine.engine.library.model import find_model
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.report.chapters import chapters
from negengine.engine.results.report.citation import cite
from negengine.engine.results.report.reproduction import reproduce

from .conftest import HEADS, LONGEST

COLUMNS = ["item", "condition", "premise", "hypothesis", "expected", "answer", "correct", "failed", "rank", "logprob"]


@pytest.fixture(scope="module")
def library_run(classifiers, data, tmp_path_factory):
    folder, original = str(classifiers["two-way"][1].folder), {"RTE": data / "dev.tsv"}
    output = tmp_path_factory.mktemp("run") / "nli"
    return nli(folder, data=data, source="RTE", original=original, max_length=LONGEST, output=output, progress=False)


def test_a_run_is_told_documented_cited_and_made_again(library_run, runs, tmp_path):
    for file, name in (("items.parquet", "items.parquet` of `nli"), ("summary.parquet", "summary.parquet")):
        assert documented(name) == list(pl.read_parquet_schema(library_run.folder / file))
    own = runs["two-way"].items.filter(pl.col("dataset") == "RTE")
    assert library_run.items.drop("probability").equals(own.drop("probability"))
    found = cite(library_run)
    assert "of Hossain et al., 2020 with the labels not_entailment, entailment" in found.methods[0]
    assert "Accuracy on the original dev sets: RTE" in found.methods[0]
    keys = {reference.key for reference in found.references}
    assert "wang-etal-2018-glue" in keys
    assert not {"bowman-etal-2015-large", "williams-etal-2018-broad"} & keys
    assert reproduce(library_run.folder, tmp_path / "again", progress=False).is_same


def test_wrong_options_are_refused_before_the_model_is_looked_for(classifiers, tmp_path):
    for options in ({"source": ["QNLI"]}, {"original": {"QNLI": "dev.tsv"}}):
        with pytest.raises(InputError, match=rf"--{next(iter(options))} QNLI: did you mean 'SNLI'. Give RTE"):
            nli("there is no such model", **options)
    with pytest.raises(InputError, match=r"--labels maybe: 1 labels, but .* has 2"):
        nli(str(classifiers["two-way"][1].folder), labels="maybe", data=tmp_path / "missing")
    original = options_of(Nli)["original"]
    assert original.from_command(["RTE=dev.tsv"]) == {"RTE": Path("dev.tsv")}
    with pytest.raises(InputError, match=r"^--original dev\.tsv: give SOURCE=FILE, such as RTE=dev\.tsv$"):
        original.from_command(["dev.tsv"])


def test_every_pair_has_its_texts_and_a_wrong_label_fails(finished, data):
    rows = finished.sentences()
    sets = read_sets(data, {"RTE": data / "dev.tsv"}, ("RTE", "SNLI"))
    texts = [(pair.text, pair.hypothesis) for own in sets for pair in own.pairs]
    assert rows.columns[: len(COLUMNS)] == COLUMNS
    assert rows.select("premise", "hypothesis").rows() == texts
    assert (rows["failed"] != rows["correct"]).all()
    assert (rows["correct"] == (rows["expected"] == rows["answer"])).all()


def test_mixed_precision_gives_the_labels_of_fp32_and_its_report_says_so(classifiers, library_run, data, tmp_path):
    """From the export's own int8 graph, audit and record included."""
    model = find_model(classifiers["two-way"][1].folder, Opening(precision="mixed"), task="text-classification")
    mixed = nli(model, data=data, source="RTE", max_length=LONGEST, output=tmp_path / "run")
    changing = ("probability", "precision")
    assert mixed.items.drop(changing).equals(library_run.items.filter(condition="new").drop(changing))
    assert set(mixed.items["precision"]) <= {"fp32", "int8"}
    assert mixed.record.counts["decided"] == len(mixed.items)
    assert mixed.record.calibration["pairs"]["precision"] == "mixed"
    assert "Mixed precision: " in str(mixed)
    assert "Mixed precision" not in str(library_run)


# ---------------------------------------------------------------- comparisons


def test_two_models_are_compared_where_they_are_scored_alike(runs):
    """On SNLI a two-way model is not asked the question of a three-way model, so only RTE is compared."""
    found = compare(runs["three-way"], runs["two-way"]).frame
    assert set(found["dataset"]) == {"RTE"}
    sizes = {("original", "all"): 60, ("new", "all"): 90} | {("new", kind): 30 for kind in KINDS}
    assert found.select("condition", "split", "n").rows() == [(*key, n) for key, n in sizes.items()]
    three, two = (runs[head].items.filter(dataset="RTE", condition="new")["correct"].mean() for head in HEADS)
    [difference] = found.filter(condition="new", split="all")["difference"]
    assert difference == pytest.approx(100 * (three - two))


def test_a_finished_run_has_no_damage(finished, classifier):
    checkpoint, _ = classifier
    found = ng.verify(finished, sample=len(finished.items), torch=str(checkpoint))
    assert not found.damage
    samples = {check.what.partition(" again by ")[2]: check.n for check in found.checks if " again by " in check.what}
    assert samples == dict.fromkeys(("the reference model", "PyTorch"), len(finished.items))


def test_the_graphs_of_a_classifier_are_compared_with_each_other_and_with_pytorch(classifiers, tmp_path):
    checkpoint, exported = classifiers["two-way"]
    found = ng.verify(exported.folder, sample=8, torch=str(checkpoint))
    assert [(check.of, check.what, str(check.outcome)) for check in found.checks if check.n == 8] == [
        ("model.onnx", "equal to PyTorch within rounding", "ok"),
        ("model.cpu.onnx", "equal to model.onnx within rounding", "ok"),
        ("model.int8.onnx", "close to model.onnx", "ok"),
        ("model.fp16.onnx", "close to model.onnx", "ok"),
    ]
    folder = shutil.copytree(exported.folder, tmp_path / "other")
    shutil.copy(folder / "model.int8.onnx", folder / "model.cpu.onnx")
    info = read_manifest(folder)[1] | {"content_sha256": None}
    info["files"]["model.cpu.onnx"] = file_sha256(folder / "model.cpu.onnx")
    write_manifest(folder, {key: value for key, value in info.items() if value is not None})
    assert damage(ng.verify(folder, sample=8)) == ["equal to model.onnx within rounding"]


def test_lies_about_a_pair_or_an_accuracy_are_found(runs, tmp_path):
    """By plain recounts; a probability that could be one, by the model."""
    folder = copy_without_parts(runs["three-way"].folder, tmp_path / "run")
    items, summary = (pl.read_parquet(folder / name) for name in ("items.parquet", "summary.parquet"))
    answer = items["answer"][0]
    other = next(label for label in items["predicted"].unique() if (label == "entailment") != (answer == "entailment"))
    for column, value, what in (
        ("correct", not items["correct"][0], "a pair is right where both labels are the same"),
        ("probability", 0.1, "the label given is the most probable one"),
        ("predicted", other, "answer follows from predicted"),
    ):
        lie(folder, "nli", "items.parquet", changed(items, 0, **{column: value}))
        assert what in damage(ng.verify(folder, sample=0))
    lie(folder, "nli", "items.parquet", changed(items, 0, probability=(1 + items["probability"][0]) / 2))
    assert not ng.verify(folder, sample=0).damage
    assert damage(ng.verify(folder, sample=len(items))) == ["pairs decided again by the reference model"]
    lie(folder, "nli", "items.parquet", items)
    row = int((summary["metric"] == "accuracy").arg_max())
    lie(folder, "nli", "summary.parquet", changed(summary, row, value=summary["value"][row] + 0.01))
    found = damage(ng.verify(folder, sample=0))
    assert "accuracies and drops of summary.parquet are those of the items" in found
    assert "tables follow from items.parquet" in found


def test_where_runs_stand_side_by_side_a_baseline_keeps_its_name(runs):
    """It was drawn as a second accuracy of its run."""
    together = chapters(list(runs.values()))[0]
    data = together.sections[0].figures[0].plot.data
    series = [f"{name}{other}" for name in runs for other in ("", ", majority baseline", ", paper")]
    assert data["model"].unique(maintain_order=True).to_list() == series
    assert data.group_by("model", "dataset", "place").len()["len"].max() == 1
