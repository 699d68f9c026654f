"""The recipes of containers: what they run as they are built, in a clean environment and from the network.

Building an image needs a daemon or a kernel's namespaces, which test machines lack. So the command of the recipes runs
here by itself: paths of the image are those of a copy of the sources.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
CONTAINERS = ROOT / "examples" / "containers"


def test_the_command_of_the_recipes_installs_a_program_that_runs(mini, tmp_path):
    docker, apptainer = ((CONTAINERS / name).read_text("utf-8") for name in ("Dockerfile", "negengine.def"))
    (command,) = re.findall(r"^RUN (.+)$", docker, re.MULTILINE)
    assert command.replace("${EXTRAS}", "{{ EXTRAS }}") in apptainer
    (copied,) = re.findall(r"^COPY \. (\S+)$", docker, re.MULTILINE)
    assert f"%files\n    . {copied}\n" in apptainer
    assert "ARG EXTRAS=cpu\n" in docker
    assert "%arguments\n    EXTRAS=cpu\n" in apptainer
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (tmp_path / "sources" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "sources" / name).write_bytes((ROOT / name).read_bytes())
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    places = {"PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin", "EXTRAS": "cpu", "HOME": str(tmp_path)}
    subprocess.run(["sh", "-c", command.replace(copied, str(tmp_path / "sources"))], env=places, check=True)
    (entry,) = re.findall(r'^ENTRYPOINT \["(\w+)"\]$', docker, re.MULTILINE)
    assert f'exec {entry} "$@"' in apptainer
    run = [entry, "select", str(mini.folder), "--pairs", "2", "--lazy", "-o", "run"]
    subprocess.run(run, cwd=tmp_path, env=places, check=True)
    assert (tmp_path / "run" / "triplets.parquet").exists()


def test_kubernetes_uses_the_image_of_the_recipe_with_extras_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    recipes = [path for end in ("yaml", "sh", "def", "Dockerfile") for path in ROOT.glob(f"examples/*/*{end}")]
    named = re.findall(r"EXTRAS=(\w+(?:,\w+)*)", "".join(path.read_text("utf-8") for path in recipes))
    assert {own for words in named for own in words.split(",")} <= {*project["optional-dependencies"]}
    for path in (ROOT / "examples" / "kubernetes").glob("*.yaml"):
        text = path.read_text("utf-8")
        assert "examples/containers/Dockerfile" in text
        assert list(yaml.safe_load_all(text))
