"""The run of a published model in `examples/smollm2` opens with each command that needs no model (`make shipped`)."""

import shutil
from pathlib import Path

import nbformat
import negengine as ng
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "examples" / "smollm2"
COMMANDS = (
    "show RUN --where condition=CpTn --failed",
    "report RUN -o report.html",
    "view RUN --bundle page",
    "figures RUN -o figures",
    "compare RUN",
    "cite RUN",
    "verify RUN --sample 0",
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a copy of the run, which no command may change."""
    copy = shutil.copytree(SHIPPED, tmp_path / "examples" / "smollm2")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    before, after = ({own.relative_to(run): own.read_bytes() for own in files(run)} for run in (SHIPPED, copy))
    assert after == before


def files(run):
    return [own for own in run.rglob("*") if own.is_file() and own.name != ".lock"]


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_opens_it_without_a_model(words, place, command):
    done = command(*words.replace("RUN", str(Path("examples") / "smollm2")).split())
    assert done.status == 0, done.err
    assert done.out.strip() or any(own.name != "examples" for own in place.iterdir())


def test_python_opens_it_and_it_is_that_of_the_published_file():
    run = ng.open(SHIPPED)
    assert set(run.rates["pattern"]) == {"CpTp", "CpTn", "CnTp", "CnTn", "CpTv"}
    assert run.record.metadata["export"]["made from"]["gguf"].startswith("Q4_1 sha256:b179c952")
    assert sum(own.stat().st_size for own in files(SHIPPED)) < 500_000
    assert run.record.metadata["call"]["model"]["folder"] == "~/models/smollm2"


@pytest.mark.everything
def test_the_notebook_shows_it(place):
    notebook = nbformat.read(ROOT / "docs" / "notebooks" / "finished_run.ipynb", as_version=4)
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(place)}}).execute()
    shown = [out["data"].get("text/html", "") for cell in notebook.cells for out in cell.get("outputs", [])]
    assert sum("<table" in html for html in shown) >= 2
