"""Every stage of one kind in every way to run it: resumed, sharded, in two processes. Always the same bytes."""

import os
import pickle
import shutil
from pathlib import Path

import pytest
from asked_stages import lama_stage
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.items import ITEMS_FILE, SUMMARY_FILE
from negengine.engine.experiments.lama.facts import Fact, Facts
from negengine.engine.experiments.probe.probe_sentences import Columns
from negengine.engine.experiments.probe.probe_stage import OwnStimuli
from negengine.engine.experiments.vocabulary import Ranked
from negengine.engine.inference.cpu import CPU
from negengine.engine.inference.model import MaskedLM
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.merge import merge
from negengine.engine.runs.processes import Processes
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.engine.text.user_table import open_table
from small_stages import InterruptedAfter


def lama(exported, change=""):
    """Five facts in three parts; one of them does not count."""
    answers = {"France": "paris", "Italy": "rome", "Spain": "unspeakableness", "England": f"london{change}"}
    texts = {land: (f"The capital of {land} is [MASK] .", f"{land} is not [MASK] .") for land in answers}
    facts = [Fact("TREx", "P36", land, answers[land], *texts[land], {}, "", "f:1") for land in answers]
    ice = "Ice is [MASK] ."
    primed = Fact("SQuAD", "Squad", "ice", "water", ice, None, {"low": f"Fire? {ice}"}, "", "f:2")
    return lama_stage(exported, Facts((*facts, primed), {}), facts_per_part=2)


def own_stimuli(exported, change=""):
    """Five rows with two targets each in three parts; one row is skipped, and one has a target of several tokens."""
    data = {
        "sentence": [f"{name} is a [MASK]." for name in ("A robin", "A trout", "He", "She")] + [f"no mask{change}"],
        "target": ["bird", "fish", "woodpecker", "dancer", "dancer"],
        "other": ["dog"] * 5,
        "group": ["animal", "animal", "person", "person", None],
    }
    columns = Columns("sentence", ("target", "other"), groups=("group",))
    table = open_table(data).scan(columns.needed, skip_bad=True, rows_per_part=2)
    return OwnStimuli(exported, table, columns, Ranked(), top=2, skip_bad=True)


@pytest.fixture(scope="module", params=[lama, own_stimuli])
def make(request):
    return request.param


@pytest.fixture(scope="module")
def stage(make, mini):
    found = make(mini)
    assert len(found.sizes) == 3
    return found


def run(stage, folder, executor=None, shard="1/1"):
    quiet = Reporter(silent=True)
    run_stage(stage, folder, Execution(executor or ThisProcess(CPU), shard=Shard.parse(shard), reporter=quiet))
    return folder


def contents(folder):
    return {name: (folder / name).read_bytes() for name in (ITEMS_FILE, SUMMARY_FILE)}


@pytest.fixture(scope="module")
def whole(stage, tmp_path_factory):
    return run(stage, tmp_path_factory.mktemp("runs") / "whole")


def test_a_finished_run_opens_no_model_and_is_not_that_of_other_data(make, mini, stage, whole):
    before = {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")}
    run(stage, whole, executor=object())
    with pytest.raises(InputError, match="was made with data sha256 "):
        run(make(mini, change="x"), whole)
    assert {path: path.stat().st_mtime_ns for path in whole.rglob("*.parquet")} == before


def test_a_resumed_run_merged_shards_and_two_processes_have_the_same_bytes(stage, whole, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        run(stage, tmp_path / "resumed", InterruptedAfter(1))
    assert contents(run(stage, tmp_path / "resumed")) == contents(whole)
    shards = [run(stage, tmp_path / f"shard-{i}", shard=f"{i}/2") for i in (2, 1)]
    merge(shards, tmp_path / "merged", {stage.name: stage.publish})
    assert contents(tmp_path / "merged") == contents(whole)
    assert contents(run(stage, tmp_path / "run", Processes((CPU, CPU)))) == contents(whole)


def test_a_stage_reads_its_files_in_other_places(stage, whole, mini, tmp_path):
    """As on a machine that got a copy of them: no other place is read, and the results are the same."""
    places = {name: Path(shutil.copytree(path, tmp_path / name)) for name, path in stage.files().items()}
    moved = stage.with_files(places)
    assert moved.identity == stage.identity
    assert os.fsencode(mini.folder) not in pickle.dumps(moved)
    assert contents(run(moved, tmp_path / "run")) == contents(whole)


def test_progress_counts_what_the_parts_are(stage, mini):
    """Each part tells as much as its size says, however many of its facts count."""
    model, told = MaskedLM(mini), []
    for number, size in enumerate(stage.sizes):
        told.clear()
        stage.decide(model, number, None, lambda done, _sentences: told.append(done))
        assert sum(told) == size
