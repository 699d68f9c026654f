"""Every experiment in every way to run it: resumed, sharded, in two processes, elsewhere. Always the same bytes."""

import shutil
from pathlib import Path

import negengine as ng
import polars as pl
import pytest
from fake_models import files
from few import few
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments import experiment as module
from negengine.engine.experiments.cues.cue_texts import TextFile
from negengine.engine.experiments.cues.cues import CueStage
from negengine.engine.experiments.registry import experiment, stages
from negengine.engine.requests.stage import RequestStage
from negengine.engine.runs.record import read_run

from .conftest import CHOICES, EVERY, OWN, PAIRS

OTHERS = {  # data of other content, or other options that they follow from
    **{name: {"data": pl.DataFrame(rows)[:-1]} for name, rows in (("likelihood", PAIRS), ("choice", CHOICES))},
    "probe": {"data": pl.DataFrame(OWN)[:-1]},
    "lama": {"with_p159": True},
    "diagnostics": {"draws": 3},
    "nli": {"original": None},
    "gh22": {"seed": 1},
    "cues": {"files": __file__},
}


@pytest.fixture
def small_parts(monkeypatch):
    """Runs have several parts."""
    for kind in {*stages().values(), *map(experiment, EVERY)}:
        for name, size in (("requests_per_part", 4), ("rows_per_part", 2)):
            if hasattr(kind, name):
                monkeypatch.setattr(kind, name, size)
    monkeypatch.setattr(TextFile.scan.__func__, "__defaults__", (10,))


@pytest.mark.parametrize("name", few(EVERY, "probe", "nli", "cues"))
@pytest.mark.usefixtures("small_parts")
def test_a_resumed_run_merged_shards_and_two_processes_have_the_same_bytes(name, call, monkeypatch, tmp_path):
    whole, done, last = call(name, tmp_path / "whole").folder, [], read_run(tmp_path / "whole").stages[name]
    assert last.parts >= 2
    with monkeypatch.context() as patch:
        for kind in (RequestStage, CueStage):

            def decide(stage, *given, own=kind.decide):
                done.append(stage)
                if len(done) == 2:
                    raise KeyboardInterrupt
                return own(stage, *given)

            patch.setattr(kind, "decide", decide)
        with pytest.raises(KeyboardInterrupt):
            call(name, tmp_path / "resumed")
    assert files(call(name, tmp_path / "resumed").folder) == files(whole)
    shards = [call(name, tmp_path / f"shard-{i}", shard=f"{i}/2").folder for i in (2, 1)]
    ng.merge(shards, tmp_path / "merged")
    assert files(tmp_path / "merged") == files(whole)
    assert files(call(name, tmp_path / "run", device="cpu,cpu").folder) == files(whole)


@pytest.mark.parametrize("name", EVERY)
def test_a_finished_run_decides_nothing_and_is_not_that_of_other_data(name, call, made, monkeypatch, tmp_path):
    folder = Path(shutil.copytree(made(name).folder, tmp_path / "run"))
    before = files(folder)
    for kind in (RequestStage, CueStage):
        monkeypatch.setattr(kind, "decide", None)
    call(name, folder)
    with pytest.raises(InputError, match="was made with "):
        call(name, folder, **OTHERS[name])
    assert files(folder) == before


@pytest.mark.parametrize("name", ["probe", "likelihood", "choice", "nli", "cues"])
def test_a_stage_reads_its_files_in_other_places(name, call, made, monkeypatch, tmp_path):
    def run_elsewhere(stage, *given):
        places = {}
        for file, path in stage.files().items():
            copy = shutil.copytree if path.is_dir() else shutil.copy
            places[file] = Path(copy(path, tmp_path / file))
        moved = stage.with_files(places)
        assert moved.identity == stage.identity
        assert moved.files() == places
        run_stage(moved, *given)

    whole, run_stage = files(made(name).folder), module.run_stage
    monkeypatch.setattr(module, "run_stage", run_elsewhere)
    assert files(call(name, tmp_path / "run").folder) == whole
