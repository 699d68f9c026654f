"""A Ray cluster decides as one process does; whatever dies, nothing is lost and nothing is doubled.

One cluster of three nodes on this machine: a head without CPUs, and two nodes with one CPU each.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from fake_models import LEXICON, FakeSelection
from negengine.engine.choices import Precision
from negengine.engine.errors import InputError
from negengine.engine.inference.device import CPU
from negengine.engine.negation.select import Settings
from negengine.engine.probes.lama.facts import Fact, Facts
from negengine.engine.probes.lama.stage import Lama
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.ray import Ray
from negengine.engine.runs.ray_cluster import Patience
from negengine.engine.runs.record import read_run
from negengine.engine.runs.stage import ModelOptions
from negengine.engine.sentences.patterns import load_patterns
from small_stages import Counted, Squares

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")

STAGES = str(Path(sys.modules["small_stages"].__file__).parent)
QUICK = Patience(progress=0.1, silent=2.0)
PARTS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The cluster; this process is connected to it."""
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    temporary = tmp_path_factory.mktemp("temporary")
    os.environ |= {"PYTHONPATH": STAGES, "TMPDIR": str(temporary), "RAY_TMPDIR": "/tmp"}  # noqa: S108 - short socket names
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.temporary = temporary
    made.pair = [made.add_node(num_cpus=1), made.add_node(num_cpus=1)]
    ray.init(made.address, configure_logging=False, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()
    os.environ.clear()
    os.environ.update(before)


def run(stage, folder, executor, reporter=None, options=None):
    reporter = reporter or Reporter(silent=True)
    run_stage(stage, folder, Execution(executor, options or ModelOptions(), reporter=reporter))
    return folder


def files(folder):
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name not in {"run.json", ".lock"}]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def sessions(folder, stage="squares"):
    return read_run(folder).stages[stage].sessions


def watched():
    """A reporter, and the list of what it says."""
    reporter, said = Reporter(silent=True), []
    reporter.say = reporter.detail = said.append
    return reporter, said


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The files of a run in one process."""
    return files(run(Squares(parts=PARTS), tmp_path_factory.mktemp("whole") / "run", ThisProcess(CPU)))


def test_two_nodes_give_the_bytes_of_one_process(cluster, tmp_path, whole):
    reporter, said = watched()
    assert files(run(Squares(parts=PARTS), tmp_path, Ray(), reporter)) == whole
    (session,) = sessions(tmp_path)
    (worker,) = session.workers  # two that are alike
    assert (worker["workers"], worker["threads"], worker["device"]) == (2, 1, "cpu")
    assert worker["machine"]["system"]
    assert {"Ray: 3 nodes, 2 workers", "calibrated"} <= set(said)
    assert sum(line.endswith("/s") and " parts" in line for line in said) > 0


def test_the_sentences_that_workers_ran_are_counted(cluster, tmp_path):
    (session,) = sessions(run(Counted(parts=PARTS), tmp_path, Ray(workers=2)), "counted")
    total = sum(range(1, PARTS + 1))
    assert (session.parts, session.sentences, session.tokens) == (PARTS, total, 7 * total)


def test_progress_counts_every_part_once(cluster, tmp_path):
    told = []
    with Ray(patience=QUICK).start(Squares(parts=PARTS), ModelOptions(), lambda _: None) as workers:
        for numbers in ([5], range(PARTS), []):
            finished = []
            told.clear()
            workers.run(numbers, {}, lambda *part: finished.append(part[0]), lambda *done: told.append(done))
            assert sorted(finished) == sorted(numbers)
            assert sum(units for units, _ in told) == sum(number + 1 for number in numbers)


def test_mixed_precision_gives_the_bytes_of_one_process(cluster, mini, tmp_path):
    """Audits ask for wider margins on the way, and the parts are decided again with them."""
    settings = Settings(max_verbs=3)
    stage = FakeSelection.plan(mini, LEXICON, load_patterns(), settings, candidates_per_part=24)
    options = ModelOptions(precision=Precision.MIXED)
    one = run(stage, tmp_path / "one", ThisProcess(CPU), options=options)
    assert files(run(stage, tmp_path / "ray", Ray(), options=options)) == files(one)
    assert sum(stage.counts["disagreements"] for stage in read_run(one).stages.values()) > 0


def test_machines_that_do_not_see_the_model_get_it_once(cluster, mini, tmp_path):
    """A real model in fp32; both nodes share one folder for temporary files, so the second finds the copy."""
    texts = [f"The capital of {land} is [MASK] ." for land in ("France", "Italy", "Spain")]
    facts = [Fact("TREx", "P36", text, "paris", text, None, {}, "", "f:1") for text in texts]
    stage = Lama.plan(mini, Facts(facts, {}), facts_per_part=1)
    one = run(stage, tmp_path / "one", ThisProcess(CPU))
    reporter, said = watched()
    assert files(run(stage, tmp_path / "ray", Ray(copy_files=True), reporter)) == files(one)
    assert sum("the model is sent to the nodes" in line for line in said) == 1
    (graph,) = cluster.temporary.glob(f"negengine-*/*/{mini.folder.name}/model.onnx")
    assert graph.read_bytes() == mini.graph.read_bytes()


def test_a_killed_worker_loses_no_part(cluster, tmp_path, whole):
    stage = Squares(parts=PARTS, fault="kill once", at=5, fifo=str(tmp_path / "fault"))
    reporter, said = watched()
    assert files(run(stage, tmp_path / "run", Ray(patience=QUICK), reporter)) == whole
    assert any(line.startswith("Ray: a worker on node") and "was lost" in line for line in said)
    (session,) = sessions(tmp_path / "run")
    assert session.parts == PARTS


def test_other_workers_take_over_the_parts_of_a_silent_one(cluster, tmp_path, whole):
    stage = Squares(parts=PARTS, fault="stop once", at=5, fifo=str(tmp_path / "fault"))
    assert files(run(stage, tmp_path / "run", Ray(patience=QUICK))) == whole


class Hanging:
    """A stage whose worker hangs in a part, once: `pid` waits until it does."""

    def __init__(self, folder, parts=PARTS, at=5):
        self.fifo = folder / "fifo"
        os.mkfifo(self.fifo)
        self.stage = Squares(parts=parts, fault="hang once", at=at, fifo=str(self.fifo))

    @property
    def pid(self):
        with self.fifo.open() as stream:
            return int(stream.read(1) and "1")


def test_a_node_that_goes_loses_no_part(cluster, tmp_path, whole):
    """Its worker finds no room elsewhere and waits for a new machine; the other worker takes over."""
    added = cluster.add_node(num_cpus=4)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    stage = Squares(parts=PARTS, fault="hang once", at=5, fifo=str(fifo))
    reporter, said = watched()

    def remove(line):
        said.append(line)

    reporter.detail = remove
    remover = subprocess.Popen(
        [sys.executable, "-c", "import os, sys; open(sys.argv[1]).read(1); os.kill(int(sys.argv[2]), 9)"]
        + [str(fifo), str(added.all_processes["raylet"][0].process.pid)]
    )
    try:
        # One worker with four CPUs, on the added node alone; it starts again nowhere. The others are those with one.
        assert files(run(stage, tmp_path / "run", Ray(patience=QUICK), reporter)) == whole
        assert remover.wait(timeout=60) == 0
    finally:
        remover.kill()
        remover.wait()
        cluster.remove_node(added, allow_graceful=False)


DRIVER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.ray import Ray
from small_stages import Squares
stage = Squares(parts=int(sys.argv[4]), fault="hang once", at=5, fifo=sys.argv[5])
run_stage(stage, Path(sys.argv[3]), Execution(Ray(sys.argv[2]), reporter=Reporter(silent=True)))
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_run_whose_driver_ended_is_resumed(cluster, tmp_path, whole, end):
    fifo, folder = tmp_path / "fifo", tmp_path / "run"
    os.mkfifo(fifo)
    words = [sys.executable, "-c", DRIVER, STAGES, cluster.address, str(folder), str(PARTS), str(fifo)]
    driver = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    with fifo.open() as stream:
        stream.read(1)  # a worker hangs now
        driver.send_signal(end)
        _, said = driver.communicate(timeout=60)
        assert stream.read().isdigit() or True  # the end of the pipe: the worker has ended with its driver
    assert driver.returncode in {-end, 130, 1}
    assert files(run(Squares(parts=PARTS), folder, Ray())) == whole
    first, second = sessions(folder)
    assert first.parts + second.parts == PARTS
    assert second.parts < PARTS


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (
            "kill",
            InputError,
            r"^Ray: (part 1|a worker): its process ended 4 times \(.*is the memory full\?\); finished",
        ),
        ("refuse", InputError, r"^--batch-tokens 16: too few$"),
        ("fail", RuntimeError, r"(?s)^a Ray worker.*ZeroDivisionError: nobody expected this"),
        ("open", InputError, r"^node [0-9.]+: cpu has no memory$"),
    ],
)
def test_what_a_retry_cannot_cure_ends_the_run(cluster, tmp_path, fault, error, message):
    with pytest.raises(error, match=message):
        run(Squares(parts=PARTS, fault=fault), tmp_path, Ray(patience=QUICK))


def test_another_version_on_a_node_is_refused(cluster, tmp_path, monkeypatch):
    from negengine.engine.runs import ray_pool

    monkeypatch.setattr(ray_pool, "version", lambda _: "9.9.9")
    with pytest.raises(InputError, match=r"^node [0-9.]+: negengine \S+ is installed there, 9\.9\.9 here; install"):
        run(Squares(), tmp_path, Ray())


def test_a_cluster_without_room_is_waited_for_no_longer_than_asked(cluster, tmp_path):
    """Another job holds the CPUs."""
    hold = ray.remote(num_cpus=1)(type("Hold", (), {"is_there": lambda self: True}))
    held = [hold.remote() for _ in range(2)]
    assert ray.get([actor.is_there.remote() for actor in held]) == [True, True]
    try:
        with pytest.raises(InputError, match=r"^Ray: no worker has answered for "):
            run(Squares(), tmp_path, Ray(patience=Patience(progress=0.1, nobody=1.0)))
    finally:
        for actor in held:
            ray.kill(actor)
