"""The notebooks run from their first to their last cell, and show what their pages say."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from negengine.engine.basics.sealed import seal

pytestmark = pytest.mark.everything

NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"
MODELS = ("bert-base-cased", "roberta-base")  # the bundled model stands in for both


def execute(name, tmp_path, mini, *models):
    """The code cells of a notebook that has run beside models/, and for each its outputs, by MIME type."""
    for model in models:
        folder = shutil.copytree(mini.folder, tmp_path / "models" / model)
        document = json.loads((folder / "export.json").read_text("utf-8"))
        del document["content_sha256"]
        (folder / "export.json").write_bytes(seal(document | {"name": model}))
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return cells, [[out.get("data", {"text/plain": out.get("text", "")}) for out in cell.outputs] for cell in cells]


def test_the_main_job_takes_at_most_ten_lines_and_shows_progress_and_tables(tmp_path, mini):
    cells, (scores, comparison, prediction) = execute("main_job.ipynb", tmp_path, mini, "mini")
    assert sum(bool(line) for cell in cells for line in cell.source.splitlines()) <= 10
    told = "".join(output.get("text/plain", "") for output in scores).splitlines()
    for stage in ("select", "score"):  # in lines: the bar needs ipywidgets, which the tests do not install
        assert any(line.startswith(f"{stage}: ") and "(100 %)" in line for line in told), stage
    shown = scores[-1]["text/html"]
    assert (shown.count("<table"), "CnTp" in shown) == (2, True)
    assert all("<table" in cell[-1]["text/html"] for cell in (comparison, prediction))


def test_two_models_are_compared_in_frames_in_a_table_and_in_a_report(tmp_path, mini):
    _, (_, drops, pivot, compared, *_) = execute("comparing_models.ipynb", tmp_path, mini, *MODELS)
    assert all(name in drops[-1]["text/html"] for name in (*MODELS, "CnTp", "drop_low_two_way"))
    assert "(2, 6)" in pivot[-1]["text/html"]
    assert "bert-base-cased − roberta-base" in compared[-1]["text/html"]
    assert all(name in (tmp_path / "models.html").read_text("utf-8") for name in MODELS)
