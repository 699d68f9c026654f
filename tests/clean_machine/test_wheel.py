"""The wheel, installed alone in a clean environment, runs exported models; `pipx run` exports beside any environment.

This needs the network, so `make test` leaves it out; `make test-wheel` runs it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[2]


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module", params=["cpu", "gpu"])
def installed(request, wheel, tmp_path_factory):
    """The bin folder of an environment with the wheel, a build of ONNX Runtime, and what they depend on."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    status, out, err = run(sys.executable, "-m", "venv", folder)
    assert status == 0, out + err
    pip = folder / "bin" / "pip"
    options = ["--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt"]
    status, out, err = run(pip, "install", *options, f"{wheel}[{request.param}]", cwd=folder)
    assert status == 0, out + err
    return folder / "bin"


def test_a_model_is_run_and_an_export_asks_for_its_packages(installed, mini, tmp_path):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    status, _, err = run(installed / "python", "-c", "import torch", cwd=tmp_path, env=environment)
    assert status == 1
    assert "No module named 'torch'" in err
    command = [installed / "negengine", "select", mini.folder, "--pairs", 2, "-o", "run", "--json"]
    status, out, err = run(*command, cwd=tmp_path, env=environment)
    assert status == 0, err
    assert json.loads(out)["pairs"] == 2
    status, out, err = run(installed / "negengine", "score", "run", "--json", cwd=tmp_path, env=environment)
    assert status == 0, err
    assert len(json.loads(out)["rates"]) == 5
    program = "import negengine as ng; print(len(ng.open('run').rates))"
    status, out, err = run(installed / "python", "-c", program, cwd=tmp_path, env=environment)
    assert (status, out) == (0, "5\n"), err
    status, out, err = run(installed / "negengine", "export", "mini", cwd=tmp_path, env=environment)
    assert status == 2
    assert "pip install 'negengine[export]'" in err


def test_pipx_exports_and_leaves_the_environment_as_it_is(wheel, tmp_path_factory):
    """The command of docs/running.md. PyTorch takes gigabytes: its environment lies beside the sources, on the disk."""
    with TemporaryDirectory(dir=ROOT, prefix=".pipx-") as folder:
        python = Path(folder) / "venv" / "bin" / "python"
        for command in (
            [sys.executable, "-m", "venv", python.parents[1]],
            [python, "-m", "pip", "install", "-q", "pipx"],
        ):
            status, out, err = run(*command)
            assert status == 0, out + err
        places = {name: str(Path(folder) / "own") for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")}
        options = f"--quiet --no-compile --constraint {ROOT / 'constraints.txt'}"
        command = [python, "-m", "pipx", "run", f"--pip-args={options}", "--spec", f"{wheel}[cpu,export]", "negengine"]
        status, out, err = run(*command, "export", "mini", "--output", "mini", cwd=folder, env=os.environ | places)
        assert status == 0, out + err
        assert (Path(folder) / "mini" / "model.onnx").exists()
        installed = json.loads(run(python, "-m", "pip", "list", "--format", "json")[1])
        assert not {"negengine", "torch", "transformers"} & {package["name"] for package in installed}
