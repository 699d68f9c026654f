"""A Ray cluster decides as one process does: a head without CPUs, and two nodes with one CPU each, on this machine."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from asked_stages import lama_stage
from negengine.engine.basics.errors import InputError
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.lama.facts import Fact, Facts
from negengine.engine.runs import ray as waits
from negengine.engine.runs.ray import Ray
from small_stages import CALIBRATION, Counted, Margins, Squares, record, results, run, watched

pytestmark = [pytest.mark.long, pytest.mark.everything]

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

STAGES = str(Path(sys.modules["small_stages"].__file__).parent)
PARTS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    cache = tmp_path_factory.mktemp("cache")
    os.environ |= {"PYTHONPATH": STAGES, "XDG_CACHE_HOME": str(cache), "RAY_TMPDIR": "/tmp"}  # noqa: S108 - short socket names
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.cache = cache
    made.pair = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
    ray.init(made.address, configure_logging=False, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return results(run(Squares(parts=PARTS), tmp_path_factory.mktemp("whole") / "run"))


def test_two_nodes_give_the_bytes_of_one_process(cluster, tmp_path):
    reporter, said = watched()
    one, two = Counted(parts=PARTS), Counted(parts=PARTS)
    assert results(run(two, tmp_path / "ray", Ray(), reporter=reporter)) == results(run(one, tmp_path / "one"))
    (session,) = record(tmp_path / "ray", Counted).sessions
    total = sum(range(1, PARTS + 1))
    assert (session.parts, session.sentences, session.tokens) == (PARTS, total, 7 * total)
    (worker,) = session.workers  # two that are alike
    own = worker["workers"], worker["threads"], worker["device"], bool(worker["machine"]["system"])
    assert own == (2, 1, "cpu", True)
    assert {"Ray: 3 nodes, 2 workers", "calibrated"} <= set(said)
    margins = Margins((0.0, 0.0, 0.7, 0.0, 0.9, 0.0))  # audits ask for wider ones: parts are decided again with them
    assert results(run(margins, tmp_path / "again", Ray())) == results(run(margins, tmp_path / "again one"))


def test_machines_that_do_not_see_the_model_get_it_once(cluster, mini, tmp_path, monkeypatch):
    """A real model in fp32, at a path that is another one for each process; both nodes share one cache."""
    shutil.copytree(mini.folder, tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    texts = [f"The capital of {land} is [MASK] ." for land in ("France", "Italy", "Spain")]
    facts = [Fact("TREx", "P36", text, "paris", text, None, {}, "", "f:1") for text in texts]
    stage = lama_stage(replace(mini, folder=Path("/proc/self/cwd/own")), Facts(facts, {}), requests_per_part=1)
    one = run(stage, tmp_path / "one")
    reporter, said = watched()
    assert results(run(stage, tmp_path / "ray", Ray(), reporter=reporter)) == results(one)
    assert sum("the model is sent to the nodes" in line for line in said) == 1
    assert not [line for line in said if "goes on without" in line]
    (graph,) = cluster.cache.glob("negengine/ray/*/own/model.onnx")
    assert graph.read_bytes() == mini.graph.read_bytes()


def test_a_killed_worker_loses_no_part(cluster, tmp_path, whole):
    stage = Squares(parts=PARTS, fault="kill once", at=5, fifo=str(tmp_path / "fault"))
    assert results(run(stage, tmp_path / "run", Ray())) == whole
    assert (tmp_path / "fault.met").exists()
    (session,) = record(tmp_path / "run", Squares).sessions
    assert session.parts == PARTS


def test_the_run_ends_if_no_worker_that_has_work_gives_a_sign(cluster, monkeypatch):
    with Ray().start(Squares(fault="stop", at=CALIBRATION), Opening(), lambda _: None) as workers:
        monkeypatch.setattr(waits, "TO_BEGIN", 1.0)
        with pytest.raises(InputError, match=r"^Ray: no worker has given a sign for .*; finished parts are kept, run"):
            workers.choose(lambda _: None)


def test_a_run_goes_on_without_a_worker_that_dies_again_and_again(cluster, tmp_path, whole, monkeypatch):
    monkeypatch.setattr(waits, "FOR_OTHERS", 60.0)
    reporter, said = watched()
    stage = Squares(parts=PARTS, fault="kill one worker", fifo=str(tmp_path / "chosen"))
    assert results(run(stage, tmp_path / "run", Ray(), reporter=reporter)) == whole
    assert any("process ended 4 times" in line and "the run goes on without" in line for line in said)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("kill", InputError, r"^Ray: a worker's process ended 4 times \(part [0-2] of squares: .*memory full\?\); fin"),
        ("refuse", InputError, r"^--batch-tokens 16: too few$"),
        ("fail", RuntimeError, r"(?s)^a Ray worker.*ZeroDivisionError: nobody expected this"),
        ("open", InputError, r"^node [0-9.]+: cpu has no memory$"),
    ],
)
def test_what_a_retry_cannot_cure_ends_the_run(cluster, tmp_path, fault, error, message):
    with pytest.raises(error, match=message):
        run(Squares(parts=PARTS, fault=fault), tmp_path, Ray())


def test_another_version_on_a_node_is_refused(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("negengine.engine.runs.ray.DECIDING", ("numpy", "pytest"))
    told = r"^node [0-9.]+: installed there: .*onnxruntime \S+, here none; .*; pytest none, here \S+; install the same"
    with pytest.raises(InputError, match=told):
        run(Squares(), tmp_path, Ray())


def test_a_cluster_without_room_is_waited_for_no_longer_than_asked(cluster, tmp_path, monkeypatch):
    with Ray().start(Squares(), Opening(), lambda _: None):  # it holds all CPUs
        monkeypatch.setattr(waits, "TO_BEGIN", 1.0)
        with pytest.raises(InputError, match=r"^Ray: no worker has begun for 0 minutes; is it busy"):
            run(Squares(), tmp_path, Ray())


def test_a_machine_that_goes_takes_no_part_with_it(cluster, tmp_path, whole):
    """The last one with this cluster, which has one machine less then."""
    stage = Squares(parts=PARTS, fault="kill machine once", at=5, fifo=str(tmp_path / "fault"))
    assert results(run(stage, tmp_path / "run", Ray())) == whole
    assert (tmp_path / "fault.met").exists()


CLUSTER = """
from ray.cluster_utils import Cluster
made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
print(made.address, flush=True)
input()
made.shutdown()
"""
COMMAND = """
import sys
from pathlib import Path
from negengine.engine.cli import main
from negengine.engine.runs import ray
from small_stages import Squares, run
address, fault, folder = sys.argv[1:]
stage = Squares(fault=fault, fifo=folder + " fifo", at=3)
main.app.invoke = lambda _: run(stage, Path(folder), ray.Ray(address))
sys.argv = ["negengine", "select", "mini"]
sys.exit(main.run())
"""


def started(script, *words, **env):
    """A process of its own, also with variables that Ray reads once."""
    piped = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    more = {"PYTHONPATH": STAGES, "RAY_TMPDIR": "/tmp", "RAY_ADDRESS": "", **env}  # noqa: S108 - short socket names
    return subprocess.Popen([sys.executable, "-c", script, *words], text=True, env={**os.environ, **more}, **piped)


@contextmanager
def other_cluster(**env):
    """Address of a cluster of one node with one CPU."""
    process = started(CLUSTER, **env)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate("\n")


def test_a_cluster_with_tokens_takes_those_who_have_its_token(tmp_path):
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef0123456789abcdef"}
    with other_cluster(**token) as address:
        known = started(COMMAND, address, "", str(tmp_path / "run"), **token)
        assert (known.communicate()[0], known.returncode) == ("", 0)
        unknown = started(COMMAND, address, "", str(tmp_path / "other"))
        assert "wants RAY_AUTH_MODE=token, and its token in RAY_AUTH_TOKEN" in unknown.communicate()[1]
    assert unknown.returncode == 2
    assert results(tmp_path / "run") == results(run(Squares(), tmp_path / "whole"))
