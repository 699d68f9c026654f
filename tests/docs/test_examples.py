"""Every command and piece of Python in the README and in docs/ runs, page by page in its order; so do the notebooks.

CONTRIBUTING.md says what the comments of a page mean: `begins with`, `not run`, `file`.
"""

import json
import os
import re
import shlex
import shutil
import sys
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import click
import nbformat
import pytest
from few import few
from nbclient import NotebookClient
from negengine.engine.basics.sealed import seal
from negengine.engine.cli import main
from negengine.engine.cli.program import Command

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTRAS = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n|^<!-- file: (?P<file>[^\n]+) -->\n)?"
    r"^```(?P<language>(?(file)\w+|(?:sh|bash|python)))\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


class Block(NamedTuple):
    place: str  # where it begins
    language: str
    code: str
    reason: str | None  # why it is not run, if so
    file: str | None  # which file it is, if so

    @property
    def commands(self) -> list[list[str]]:
        """The words of each command of a shell block; `&&` joins those of a line."""
        found = []
        for line in self.code.splitlines():
            words = shlex.shlex(line, posix=True, punctuation_chars=True)
            words.whitespace_split, words.commenters = True, "#"
            found += [list(own) for is_joint, own in groupby(words, "&&".__eq__) if not is_joint]
        return found


def blocks(page: Path) -> list[Block]:
    text = page.read_text("utf-8")
    found = [(text.count("\n", 0, own.start()) + 1, own) for own in BLOCK.finditer(text)]
    return [Block(f"{page.name}:{line}", *own.group("language", "code", "reason", "file")) for line, own in found]


RUN = [page for page in PAGES if any(block.reason is None for block in blocks(page))]
PARSED = [block for page in PAGES for block in blocks(page) if block.reason is not None]


@pytest.fixture
def shell(monkeypatch, capfd):
    """Runs one command of a shell block: negengine in this process, and mkdir and echo."""

    def run(words: list[str], where: str) -> None:
        words, target = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, None)
        capfd.readouterr()
        out = ""
        match words:
            case ["negengine", *arguments]:
                monkeypatch.setattr(sys, "argv", ["negengine", *arguments])
                status = main.run()
                out, err = capfd.readouterr()
                assert status == 0, f"{where}: {' '.join(words)}\n{out}{err}"
            case ["mkdir", folder]:
                Path(folder).mkdir()
            case ["echo", text]:
                out = f"{text}\n"
            case _:
                pytest.fail(f"{where}: {' '.join(words)} is not a command that this test knows; say why it is not run")
        assert target is None or out, f"{where}: {' '.join(words)} has printed nothing"
        Path(target or os.devnull).write_text(out, "utf-8")

    return run


@pytest.mark.parametrize("page", few(RUN, ROOT / "docs" / "languages.md"), ids=lambda page: page.name)
def test_the_code_of_a_page_runs(page, shell, tmp_path, monkeypatch, mini, scored_run):
    """In a folder with what the page begins with, and with neither a GPU nor a data set."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path / "data"))
    text, names = page.read_text("utf-8"), {"__name__": page.stem}
    for name in " ".join(re.findall(r"<!-- begins with: (.+?) -->", text)).split():
        Path(name).parent.mkdir(exist_ok=True)
        if name == "models/mini":
            Path(name).symlink_to(mini.folder)
        elif name.startswith("examples/"):
            shutil.copytree(ROOT / name, name)
        elif name.endswith(".csv"):  # the first table that the page shows
            Path(name).write_text(re.search(r"(?ms)^```csv\n(.*?)^```$", text)[1], "utf-8")
        else:
            assert name == "runs/mini"
            shutil.copytree(scored_run, name)
    for block in blocks(page):
        if block.reason is not None:
            continue
        if block.file is not None:
            Path(block.file).parent.mkdir(exist_ok=True)
            Path(block.file).write_text(block.code, "utf-8")
        elif block.language == "python":
            exec(compile(block.code, block.place, "exec"), names)  # noqa: S102 - our own documents
        else:
            for words in block.commands:
                shell(words, block.place)


@pytest.mark.parametrize("block", PARSED, ids=lambda block: block.place)
def test_code_that_is_not_run_can_be_parsed(block):
    if block.language == "python":
        compile(block.code, block.place, "exec")
        return
    for words in block.commands:
        match words:
            case ["make", *_] | ["source", ".venv/bin/activate"]:
                continue  # tests/test_docs.py knows the targets of make
            case ["negengine", *arguments]:
                package = "."
            case ["uvx", "--from", package, "negengine", *arguments]:
                pass
            case ["pipx", "run", "--spec", package, "negengine", *arguments]:
                pass
            case ["pip", "install", package]:
                arguments = []
            case ["docker" | "apptainer", *_]:
                continue  # tests/clean_machine/test_containers.py
            case _:
                pytest.fail(f"{block.place}: {' '.join(words)} is not a command that this test knows")
        assert re.fullmatch(rf"(negengine|\.)(\[(({'|'.join(EXTRAS)}),?)+\])?", package)
        command, name = main.app, " ".join(arguments)
        while arguments and isinstance(command, click.Group):
            command, arguments = command.get_command(click.Context(command), arguments[0]), arguments[1:]
        if name:  # wrong options raise
            assert isinstance(command, Command), f"{name}: no such command"
            command.make_context(name, arguments)


MODELS = ("bert-base-cased", "roberta-base")  # the bundled model stands in for both


def execute(name, tmp_path, mini, *models):
    """The code cells of a notebook that has run beside models/, and for each its outputs, by MIME type."""
    for model in models:
        folder = shutil.copytree(mini.folder, tmp_path / "models" / model)
        document = json.loads((folder / "export.json").read_text("utf-8"))
        del document["content_sha256"]
        (folder / "export.json").write_bytes(seal(document | {"name": model}))
    notebook = nbformat.read(ROOT / "docs" / "notebooks" / name, as_version=4)
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    return cells, [[out.get("data", {"text/plain": out.get("text", "")}) for out in cell.outputs] for cell in cells]


def tables(outputs):
    """The results of cells as HTML, without figures, whose last digits differ between processors."""
    found = [own["text/html"] for cell in outputs for own in cell if "text/html" in own]
    return [re.sub(r"[-+−]?\d[\d.,]*", "#", text) for text in found]


def kept(name):
    notebook = nbformat.read(ROOT / "docs" / "notebooks" / name, as_version=4)
    return tables([out.get("data", {}) for out in cell.get("outputs", ())] for cell in notebook.cells)


@pytest.mark.everything
@pytest.mark.parametrize("name", ["main_job.ipynb", "finished_run.ipynb"])
def test_a_notebook_shows_the_tables_that_it_gives_and_the_main_job_takes_ten_lines(name, tmp_path, mini):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    cells, outputs = execute(name, tmp_path, mini, "mini")
    assert tables(outputs) == kept(name)
    if name == "main_job.ipynb":
        assert sum(bool(line) for cell in cells for line in cell.source.splitlines()) <= 10
        told = "".join(output.get("text/plain", "") for output in outputs[0]).splitlines()
        for stage in ("select", "score"):  # in lines: the bar needs ipywidgets, which the tests do not install
            assert any(line.startswith(f"{stage}: ") and "(100 %)" in line for line in told), stage


@pytest.mark.everything
def test_two_models_are_compared_in_frames_in_a_table_and_in_a_report(tmp_path, mini):
    _, (_, drops, pivot, compared, *_) = execute("comparing_models.ipynb", tmp_path, mini, *MODELS)
    assert all(name in drops[-1]["text/html"] for name in (*MODELS, "CnTp", "drop_low_two_way"))
    assert "(2, 6)" in pivot[-1]["text/html"]
    assert "bert-base-cased − roberta-base" in compared[-1]["text/html"]
    assert all(name in (tmp_path / "models.html").read_text("utf-8") for name in MODELS)
