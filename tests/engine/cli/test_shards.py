"""A run that is divided: over devices, and over an array of tasks, with its state and its merge by default names."""

import json

import pytest
from negengine.engine.runs.record import read_run
from negengine.engine.runs.shard import Shard
from small_stages import work


def array(index, count, first=0):
    names = {"ID": index, "COUNT": count, "MIN": first, "MAX": first + count - 1, "STEP": 1}
    return {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in names.items()}


@pytest.fixture
def task(monkeypatch, command):
    """Runs a command as a task of a Slurm array."""

    def run(environment, *arguments):
        with monkeypatch.context() as own:
            for name, value in environment.items():
                own.setenv(name, value)
            return command(*arguments)

    return run


@pytest.fixture
def select(mini, small_lexicon):
    return ("select", mini.folder, "--lexicon", small_lexicon, "--precision", "fp32", "--shard", "auto")


def test_an_engineer_runs_an_array_adds_the_missing_task_merges_verifies_and_scores(
    task, command, select, selected_run, scored_run, tmp_path
):
    assert task(array(1, 2), *select).status == 0
    half = command("merge", "--status", "runs/mini", "--json")
    assert half.status == 3
    assert [one["state"] for one in json.loads(half.out)["shards"]] == ["missing", "finished"]
    told = command("merge", "--status", "runs/mini")
    assert "--shard 1/2 --output runs/mini-1-of-2" in told.out
    assert command("merge", "runs/mini").said == "negengine: merge needs all 2 shards; missing: 1/2"

    assert task(array(0, 2), *select).status == 0
    whole = command("merge", "--status", "runs")
    assert (whole.status, "negengine merge runs/mini" in whole.out) == (0, True)
    assert command("merge", "runs/mini").status == 0
    for name in ("triplets.parquet", "selection.json"):
        assert (tmp_path / "runs/mini" / name).read_bytes() == (selected_run / name).read_bytes()
    assert command("verify", "runs/mini", "--sample", 20).status == 0
    assert command("score", "runs/mini", "--precision", "fp32").status == 0
    assert (tmp_path / "runs/mini/rates.parquet").read_bytes() == (scored_run / "rates.parquet").read_bytes()


def test_the_output_of_a_task_gets_the_number_of_its_shard(task, select, tmp_path):
    done = task(array(4, 2, first=3), *select, "-o", "own/run")
    assert done.status == 0, done.err
    (session,) = read_run(tmp_path / "own/run-2-of-2").stages["select"].sessions
    assert session.command.endswith("--shard 2/2 --output own/run-2-of-2")


def test_a_part_of_an_array_that_is_submitted_again_is_refused(task, select, tmp_path):
    work(tmp_path / "runs/mini-1-of-8", shard=Shard(1, 8))
    done = task(array(3, 4, first=3), *select)
    assert done.status == 2
    assert "runs has shards of mini in 8, not all finished, and this array has 4 tasks" in done.said
    assert not (tmp_path / "runs/mini-1-of-4").exists()
