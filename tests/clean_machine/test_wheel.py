"""The wheel in a clean environment, from the network (`make test-wheel`): it runs exported models, and pipx exports."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, status=0, **options):
    """What a program says, first of its results, then of errors."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def installed(request, wheel, tmp_path_factory):
    """The bin folder of an environment with the wheel, a build of ONNX Runtime, and what they depend on."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    run(sys.executable, "-m", "venv", folder)
    options = ["--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt"]
    run(folder / "bin" / "pip", "install", *options, f"{wheel}[{request.param}]", cwd=folder)
    return folder / "bin"


def test_a_model_is_run_and_an_export_asks_for_its_packages(installed, wheel, mini, tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}

    def here(program, *arguments, **options):
        return run(installed / program, *arguments, cwd=tmp_path, env=environment, **options)

    selected, _ = here("negengine", "select", mini.folder, "--pairs", 2, "-o", "run", "--json")
    assert json.loads(selected)["pairs"] == 2
    here("negengine", "score", "run")
    assert here("python", "-c", "import negengine as ng; print(len(ng.open('run').rates))")[0] == "5\n"
    assert f"pip install '{wheel}[export]'" in here("negengine", "export", "mini", status=2)[1]


def test_pipx_exports_and_leaves_the_environment_as_it_is(wheel, tmp_path_factory):
    """The command of docs/running.md. PyTorch takes gigabytes: its environment lies beside the sources, on the disk."""
    with TemporaryDirectory(dir=ROOT, prefix=".pipx-") as folder:
        python = Path(folder) / "venv" / "bin" / "python"
        run(sys.executable, "-m", "venv", python.parents[1])
        run(python, "-m", "pip", "install", "-q", "pipx")
        places = {name: str(Path(folder) / "own") for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")}
        options = f"--quiet --no-compile --constraint {ROOT / 'constraints.txt'}"
        command = [python, "-m", "pipx", "run", f"--pip-args={options}", "--spec", f"{wheel}[cpu,export]", "negengine"]
        run(*command, "export", "mini", "--output", "mini", cwd=folder, env=os.environ | places)
        assert (Path(folder) / "mini" / "model.onnx").exists()
        installed = json.loads(run(python, "-m", "pip", "list", "--format", "json")[0])
        assert not {"negengine", "torch", "transformers"} & {package["name"] for package in installed}
