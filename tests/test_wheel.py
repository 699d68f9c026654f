"""The wheel, installed alone in a clean environment, runs exported models; there is no PyTorch in it."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = ("engine", "export", "bench", "pyproject.toml", "README.md", "LICENSE")


def run(*command, **options):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: a build leaves traces beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, folder / name)
    status, out, err = run(sys.executable, "-m", "build", "--wheel", "--outdir", folder / "dist", folder)
    assert status == 0, out + err
    (path,) = (folder / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The bin folder of an environment with the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    status, out, err = run(sys.executable, "-m", "venv", folder)
    assert status == 0, out + err
    pip = folder / "bin" / "pip"
    status, out, err = run(
        pip, "install", "--quiet", "--no-compile", "--constraint", ROOT / "constraints.txt", wheel, cwd=folder
    )
    assert status == 0, out + err
    return folder / "bin"


def test_everything_that_is_read_at_run_time_is_in_it(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("engine", "export", "bench"):
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"negengine/{path.relative_to(ROOT)}" in names


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
    status, out, err = run(installed / "negengine", "export", "mini", cwd=tmp_path, env=environment)
    assert status == 2
    assert "pip install 'negengine[export]'" in err
