"""What runs have used is the sum over their sessions."""

import pytest
from negengine.engine.results.report.usage import usage
from negengine.engine.runs.record import StageRecord
from negengine.engine.runs.session import Session

GPU = {"device": "cuda:0", "hardware": "NVIDIA H200", "memory GiB": 139.8, "driver": "580.95", "batch tokens": 16384}
CPU = {"device": "cpu", "hardware": "A CPU", "threads": 2, "batch tokens": 512}
MACHINE = {"system": "Linux x86_64", "cores": 4, "memory GiB": 24.0}


def session(*workers, **more):
    return Session(workers=list(workers), machine=MACHINE, **more)


def used(*sessions):
    return usage([StageRecord(identity={}, parts=1, sessions=list(sessions))])


def test_hours_are_those_of_all_gpus_and_all_cores():
    found = used(session(GPU, GPU, seconds=3600.0), session(CPU, seconds=1800.0))
    assert (found.gpu_hours, found.core_hours, found.hours) == (2.0, 1.0, 1.5)


def test_workers_of_a_cluster_that_are_alike_are_one_entry():
    alike = {**CPU, "threads": 8, "workers": 5, "machine": {"cores": 16, "memory GiB": 64.0}}
    halves = {**GPU, "GPUs": 0.5, "workers": 4}
    found = used(session(alike, seconds=3600.0), session(halves, seconds=3600.0))
    assert (found.core_hours, found.gpu_hours) == (40.0, 2.0)
    assert found.hardware[0] == "A CPU (16 cores, 64.0 GiB)"


def test_sentences_and_tokens_are_added():
    found = used(session(CPU, sentences=3, tokens=30), session(CPU, sentences=4, tokens=40))
    assert (found.sentences, found.tokens) == (7, 70)


def test_energy_is_told_only_if_every_session_could_read_it():
    first, second = session(CPU, joules={"cpu": 3600.0}), session(CPU, joules={"cpu": 1800.0, "cuda:0": 1800.0})
    assert used(first, second).watt_hours == pytest.approx(2.0)
    assert used(first, session(CPU)).watt_hours is None


def test_a_session_that_only_merged_does_not_count():
    assert used(Session(seconds=100.0, merged=["a", "b"])).sessions == 0


def test_hardware_is_named_once_with_its_details():
    found = used(session(GPU, GPU), session(CPU))
    assert found.hardware == ("NVIDIA H200 (139.8 GiB, driver 580.95)", "A CPU (4 cores, 24.0 GiB)")
    assert found.batch_tokens == (16384, 512)


def test_versions_that_changed_between_sessions_are_all_told():
    found = used(session(CPU, packages={"numpy": "2.0"}), session(CPU, packages={"numpy": "2.1"}))
    assert found.packages["numpy"] == ("2.0", "2.1")
