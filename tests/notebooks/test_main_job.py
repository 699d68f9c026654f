"""A notebook does the whole main job with the library in at most ten lines of code."""

import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.everything

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "main_job.ipynb"


@pytest.fixture(scope="module")
def cells(mini, tmp_path_factory):
    """The executed code cells: their outputs by MIME type."""
    folder = tmp_path_factory.mktemp("notebook")
    shutil.copytree(mini.folder, folder / "models" / "mini")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    return [
        [output.get("data", {"text/plain": output.get("text", "")}) for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_the_main_job_takes_at_most_ten_lines():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    lines = [line for cell in notebook.cells if cell.cell_type == "code" for line in cell.source.splitlines() if line]
    assert len(lines) <= 10


def test_progress_is_shown_below_the_cell(cells):
    """In lines: the bar in a notebook needs ipywidgets, which the tests do not install."""
    told = "".join(output.get("text/plain", "") for output in cells[0])
    for stage in ("select", "score"):
        assert any(line.startswith(f"{stage}: ") and "(100 %)" in line for line in told.splitlines()), stage


def test_scores_are_tables(cells):
    shown = cells[0][-1]
    assert shown["text/html"].count("<table") == 2
    assert "CnTp" in shown["text/html"]


def test_comparisons_and_predictions_are_tables(cells):
    assert "<table" in cells[1][-1]["text/html"]
    assert "<table" in cells[2][-1]["text/html"]
