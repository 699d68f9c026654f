"""Every stage of one kind in every way to run it: resumed, sharded, in two processes. Always the same bytes."""

import os
import pickle
import shutil
from functools import partial
from pathlib import Path

import pytest
from asked_stages import lama_stage
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.cues.cue_texts import TextFile
from negengine.engine.experiments.cues.cues import CueStage
from negengine.engine.experiments.lama.facts import Fact, Facts
from negengine.engine.experiments.likelihood.likelihood import Likelihood
from negengine.engine.experiments.nli.nli import Nli
from negengine.engine.experiments.probe.probe import OwnSentences
from negengine.engine.inference.devices.cpu import CPU
from negengine.engine.requests.items import ITEMS_FILE, SUMMARY_FILE
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.merge import merge
from negengine.engine.runs.processes import Processes
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import changed
from small_stages import InterruptedAfter


def lama(exported, change=""):
    """Five facts in three parts; one of them does not count."""
    answers = {"France": "paris", "Italy": "rome", "Spain": "unspeakableness", "England": f"london{change}"}
    texts = {land: (f"The capital of {land} is [MASK] .", f"{land} is not [MASK] .") for land in answers}
    facts = [Fact("TREx", "P36", land, answers[land], *texts[land], {}, "", "f:1") for land in answers]
    ice = "Ice is [MASK] ."
    primed = Fact("SQuAD", "Squad", "ice", "water", ice, None, {"low": f"Fire? {ice}"}, "", "f:2")
    return lama_stage(exported, Facts((*facts, primed), {}), requests_per_part=4)


def own_stimuli(exported, change="", **options):
    """Five rows with two targets each in three parts; one row is skipped, and one has a target of several tokens."""
    data = {
        "sentence": [f"{name} is a [MASK]." for name in ("A robin", "A trout", "He", "She")] + [f"no mask{change}"],
        "target": ["bird", "fish", "woodpecker", "dancer", "dancer"],
        "other": ["dog"] * 5,
        "group": ["animal", "animal", "person", "person", None],
    }
    asked = OwnSentences(data, target=["target", "other"], skip_bad=True, **{"top": 2, **options})
    return changed(asked, rows_per_part=2).stage(exported)


def likelihoods(exported, change=""):
    data = {"text": [f"He smokes{change}.", "She isn't happy.", "It rains.", "Nobody whispers.", "[MASK]"]}
    return changed(Likelihood(data, per_word=True, skip_bad=True), rows_per_part=2).stage(exported)


@pytest.fixture(scope="module", params=["lama", "own_stimuli", "likelihoods", "judgements", "cues"])
def make(request, tmp_path_factory):
    """The stage, on other data if `change` is given."""
    if request.param in {"lama", "own_stimuli", "likelihoods"}:
        return partial(globals()[request.param], request.getfixturevalue("mini"))
    folder = tmp_path_factory.mktemp("data")

    def of_folder(change=""):
        if request.param == "judgements":
            data = Path(shutil.copytree(request.getfixturevalue("nli_data"), folder / change, dirs_exist_ok=True))
            if change:
                (data / "RTE.txt").write_text(
                    "type\tindex\tText\tHypothesis\tgold_label\nTneg-H\t0\ta\tb\tentailment\n"
                )
            exported = request.getfixturevalue("classifiers")["two-way"][1]
            asked = Nli(data=data, original={"RTE": data / "dev.tsv"}, source=("RTE", "SNLI"), max_length=16)
            return changed(asked, requests_per_part=40).stage(exported)
        text = folder / f"text{change}.txt"
        text.write_text(f"I don't know. It rained.\n\nNobody came{change}.\nShe was careless.\n")
        return CueStage(request.getfixturevalue("detector"), (TextFile.scan(text, 10),))

    return of_folder


@pytest.fixture(scope="module")
def stage(make):
    return make()


def run(stage, folder, executor=None, shard="1/1", opening=None):
    quiet = Reporter(silent=True)
    execution = Execution(executor or ThisProcess(CPU), opening or Opening(), Shard.parse(shard), quiet)
    run_stage(stage, folder, execution)
    return folder


def contents(folder):
    return {name: (folder / name).read_bytes() for name in (ITEMS_FILE, SUMMARY_FILE)}


@pytest.fixture(scope="module")
def whole(stage, tmp_path_factory):
    return run(stage, tmp_path_factory.mktemp("runs") / "whole")


def test_a_finished_run_opens_no_model_and_is_not_that_of_other_data(make, stage, whole):
    assert len(stage.sizes) >= 3
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")}
    run(stage, whole, executor=object())
    with pytest.raises(InputError, match=r"was made with other .* \(sha256 .*, now .*\)"):
        run(make(change="x"), whole)
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")} == before


def test_a_resumed_run_merged_shards_and_two_processes_have_the_same_bytes(stage, whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(stage, tmp_path / "resumed", InterruptedAfter(1))
    assert contents(run(stage, tmp_path / "resumed")) == contents(whole)
    shards = [run(stage, tmp_path / f"shard-{i}", shard=f"{i}/2") for i in (2, 1)]
    merge(shards, tmp_path / "merged", {stage.name: stage.publish})
    assert contents(tmp_path / "merged") == contents(whole)
    assert contents(run(stage, tmp_path / "run", Processes((CPU, CPU)))) == contents(whole)


def test_a_stage_reads_its_files_in_other_places(stage, whole, tmp_path):
    places = {}
    for name, path in stage.files().items():
        copy = shutil.copytree if path.is_dir() else shutil.copy
        places[name] = Path(copy(path, tmp_path / name))
    moved = stage.with_files(places)
    assert moved.identity == stage.identity
    assert os.fsencode(stage.exported.folder) not in pickle.dumps(moved)
    assert contents(run(moved, tmp_path / "run")) == contents(whole)
