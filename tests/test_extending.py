"""What docs/extending.md and docs/languages.md say how to add: it is added to a copy of the sources, and runs.

The experiment of the page is one file of another package: tests/engine/library/test_registry.py installs and runs it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


class Sources:
    """A copy of the engine that runs as `negengine`."""

    def __init__(self, folder: Path) -> None:
        self.folder, package = folder, folder / "negengine"
        package.mkdir(parents=True)
        shutil.copytree(ROOT / "engine", package / "engine", ignore=shutil.ignore_patterns("__pycache__"))
        (package / "export").symlink_to(ROOT / "export")
        (package / "__init__.py").symlink_to(package / "engine" / "public" / "__init__.py")

    def write(self, path: str, text: str) -> None:
        """Write a new file of the engine."""
        file = self.folder / "negengine" / "engine" / path
        assert not file.exists()
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")

    def run(self, *words: object) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "negengine.engine.cli", *map(str, words)]
        how = {"capture_output": True, "text": True, "timeout": 600}
        done = subprocess.run(command, cwd=self.folder, env=environment, check=False, **how)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def sources(tmp_path):
    return Sources(tmp_path / "sources")


def code_of_the_page(heading: str) -> str:
    """The first block of Python below a heading of docs/extending.md."""
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    return page.partition(heading)[2].partition("```python\n")[2].partition("```\n")[0]


def test_the_experiment_of_the_page_is_the_one_that_is_installed():
    assert code_of_the_page("## An experiment") == (ROOT / "tests/engine/library/colours/colours.py").read_text("utf-8")


def test_an_output_format_is_one_file(sources, scored_run):
    sources.write("views/to_tsv.py", code_of_the_page("## An output format"))
    assert "tsv" in sources.run("show", "--help")
    rows = sources.run("show", scored_run, "--format", "tsv").splitlines()
    assert rows[0].split("\t")[:3] == ["item", "condition", "sentence"]
    assert len(rows) > 21  # all rows, not the sample that people are shown


def test_a_language_is_no_code(sources):
    page = (ROOT / "docs" / "languages.md").read_text("utf-8")
    files = re.findall(r"^<!-- file: spanish/(\S+) -->\n```\w+\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(files) > 6
    for name, text in files:
        if name == "patterns.toml":
            sources.write("text/resources/patterns/spanish.toml", text.replace('lexicon = "."', 'lexicon = "spanish"'))
        else:
            sources.write(f"text/resources/lexicon-spanish/{name}", text)
    checked = sources.run("patterns", "check", "spanish")
    assert "No problem was found." in checked
    assert re.search(r"es (una (abogada|escritora|médica)|un (abogado|escritor|médico)) a quien", checked)
