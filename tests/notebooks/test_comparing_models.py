"""A notebook compares two models. The bundled model stands in for both: it is exported under two names."""

import json
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from negengine.engine.basics.sealed import seal

pytestmark = pytest.mark.everything

NOTEBOOK = Path(__file__).parents[2] / "docs" / "notebooks" / "comparing_models.ipynb"
MODELS = ("bert-base-cased", "roberta-base")


def under_another_name(exported, folder):
    """A copy of an exported model whose export.json has the name of its folder."""
    shutil.copytree(exported, folder)
    document = json.loads((folder / "export.json").read_text("utf-8"))
    del document["content_sha256"]
    (folder / "export.json").write_bytes(seal(document | {"name": folder.name}))


@pytest.fixture(scope="module")
def executed(mini, tmp_path_factory):
    """The folder of the executed notebook, and the outputs of its code cells by MIME type."""
    folder = tmp_path_factory.mktemp("notebook")
    for name in MODELS:
        under_another_name(mini.folder, folder / "models" / name)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
    cells = [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]
    return folder, [[output["data"] for output in outputs if "data" in output] for outputs in cells]


def test_drops_of_both_models_are_one_frame(executed):
    _, cells = executed
    shown = cells[1][-1]["text/html"]
    assert all(name in shown for name in (*MODELS, "CnTp", "drop_low_two_way"))


def test_models_are_rows_and_patterns_columns(executed):
    _, cells = executed
    assert "(2, 6)" in cells[2][-1]["text/html"]


def test_the_models_are_compared(executed):
    _, cells = executed
    assert "bert-base-cased − roberta-base" in cells[3][-1]["text/html"]


def test_both_are_in_one_report(executed):
    folder, _ = executed
    assert all(name in (folder / "models.html").read_text("utf-8") for name in MODELS)
