"""What a session records: machine, versions, time, work. Of a killed one too, of each shard, and of a merged run."""

import platform
import re
from datetime import UTC, datetime, timedelta

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.limits import cpu_threads
from negengine.engine.basics.versions import DECIDING, source_commit, versions
from negengine.engine.inference import tally
from negengine.engine.inference.cpu import CPU
from negengine.engine.runs import session as own
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.merge import merge
from negengine.engine.runs.processes import Processes
from negengine.engine.runs.record import read_run
from negengine.engine.runs.session import Session
from negengine.engine.runs.shard import Shard
from negengine.engine.runs.stage import Choices
from small_stages import Counted, hold, part, run


def sessions(folder, stage=Counted.name):
    return read_run(folder).stages[stage].sessions


def test_a_session_tells_versions_machine_and_workers(tmp_path):
    run(Counted(), tmp_path, session=Session(command="negengine squares"))
    (session,) = sessions(tmp_path)
    told = (session.command, session.python, session.source, session.machine["cores"])
    assert told == ("negengine squares", platform.python_version(), source_commit(), cpu_threads())
    assert re.fullmatch(r"[0-9a-f]{40}(\+changes)?", session.source or "0" * 40)
    assert session.packages == versions(DECIDING)
    assert {"numpy", "polars", "tokenizers", "scipy"} < set(session.packages)
    (worker,) = session.workers
    hardware = {"hardware": session.machine["processor"]} if "processor" in session.machine else {}
    assert worker == {"device": "cpu", "threads": cpu_threads(), **hardware}


def test_a_merged_run_has_the_sessions_of_its_shards_which_name_neither_host_nor_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shards = [run(Counted(), tmp_path / f"shard {i}", shard=Shard(i, 2)) for i in (1, 2)]
    merge(shards, tmp_path / "merged", {Counted.name: Counted.publish})
    first, second, merging = sessions(tmp_path / "merged")
    assert (first.sentences + second.sentences, merging.sentences) == (10, 0)
    assert first.workers == sessions(shards[0])[0].workers
    assert merging.merged == ["~/shard 1", "~/shard 2"]
    text = "".join(path.read_text() for path in (tmp_path / "merged").rglob("*.json"))
    assert platform.node() not in re.sub(r'"(host|source)": ".*"', "", text)
    assert str(tmp_path) not in text
    own.ended_early(first, InputError(f"{tmp_path}/x: no space left"))
    assert first.failed == "~/x: no space left"


@pytest.mark.parametrize("executor", [ThisProcess(CPU), Processes((CPU, CPU))])
def test_sentences_and_tokens_are_what_the_models_ran(tmp_path, executor):
    tally.count(1_000, 1_000)  # of something else in this process
    run(Counted(parts=4), tmp_path, executor)
    (session,) = sessions(tmp_path)
    assert {worker["device"] for worker in session.workers} == {"cpu"}
    assert len(session.workers) == len(getattr(executor, "devices", "1"))
    assert (session.parts, session.sentences, session.tokens) == (4, 1 + 2 + 3 + 4, 7 * (1 + 2 + 3 + 4))


def test_a_killed_session_lasted_until_its_last_part_and_any_other_until_its_process_ends(tmp_path, monkeypatch):
    """Nothing is written at the end of a killed process. Seconds count from the start of the command."""
    clock, seen, before = [1_000.0], [], datetime.now(UTC).replace(microsecond=0)
    monkeypatch.setattr(own.time, "monotonic", lambda: clock[0])
    with hold(tmp_path / "run", started=400.0) as held:
        for number in range(2):
            clock[0] += 60
            held.write_part(number, part(number))
            (session,) = sessions(tmp_path / "run", "select")
            seen.append((session.parts, session.seconds))
        clock[0] += 1_000.0004
    assert seen == [(1, 660.0), (2, 720.0)]
    (session,) = sessions(tmp_path / "run", "select")
    assert session.seconds == 1_720.0
    assert before <= datetime.fromisoformat(session.started) + timedelta(seconds=660) <= datetime.now(UTC)


def test_energy_is_that_of_the_devices_that_are_used(monkeypatch):
    monkeypatch.setattr(own.EnergyMeter, "joules", lambda _: {"cpu": 1.23456, "cuda:0": 2.0, "cuda:1": 3.0})
    for workers, joules in (
        ([], {"cpu": 1.235}),
        ([{"device": "cuda:1"}], {"cpu": 1.235, "cuda:1": 3.0}),  # others use the first one
        ([{"device": "cpu", "machine": {"cores": 64}, "workers": 8}], {}),  # on other machines
    ):
        own.Clock().read(session := Session(workers=workers))
        assert session.joules == joules


def test_the_precision_is_that_of_the_patterns_or_of_the_workers():
    for calibration, workers, told in (
        ({"Cp": {"precision": "mixed"}, "Cn": {"precision": "mixed"}, "Cv": {}}, [], "mixed"),
        ({"Cp": {"precision": "mixed"}, "Cn": {"precision": "fp32"}}, [], {"Cp": "mixed", "Cn": "fp32"}),
        ({}, [{"precision": "fp32"}, {"device": "cpu"}], "fp32"),
        ({}, [{"device": "webgpu:0", "precision": "webgpu"}] * 2, "webgpu"),
        ({"Cp": {"precision": "mixed"}}, [{"precision": "fp32"}], "mixed"),
        ({}, [], None),
    ):
        own.used_models(session := Session(), workers, Choices(calibration))
        assert session.precision == told
