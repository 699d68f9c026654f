"""The changes that docs/extending.md describes: each is made in a copy of the sources, run, and touches these files.

The experiment of the page is one file of another package: tests/engine/library/test_registry.py installs and runs it.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from .export.families import ROWS, save_tiny

ROOT = Path(__file__).parents[1]
FAMILIES = "tests/export/families.py"


class Sources:
    """A copy of the sources that runs as `negengine`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("engine", "export"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "mini"))
        (folder / "tests/export").mkdir(parents=True)
        shutil.copy(ROOT / FAMILIES, folder / FAMILIES)
        (folder / "export" / "mini").symlink_to(ROOT / "export" / "mini")
        package = folder / "run" / "negengine"
        package.mkdir(parents=True)
        for name in ("engine", "export"):
            (package / name).symlink_to(folder / name)
        (package / "__init__.py").symlink_to(folder / "engine" / "public" / "__init__.py")
        self.before = self.files()

    def files(self) -> dict[str, bytes]:
        found = [path for name in ("engine", "export", "tests") for path in (self.folder / name).rglob("*")]
        found = [path for path in found if path.is_file() and "__pycache__" not in path.parts]
        return {path.relative_to(self.folder).as_posix(): path.read_bytes() for path in found}

    def write(self, path: str, text: str) -> None:
        assert not (self.folder / path).exists()
        (self.folder / path).parent.mkdir(exist_ok=True)
        (self.folder / path).write_text(text, "utf-8")

    def replace(self, path: str, before: str, after: str) -> None:
        text = (self.folder / path).read_text("utf-8")
        assert text.count(before) == 1, f"{path}: {before!r} is there {text.count(before)} times"
        (self.folder / path).write_text(text.replace(before, after), "utf-8")

    def run(self, *words: object, status: int = 0) -> str:
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "run"), "CUDA_VISIBLE_DEVICES": ""}
        command = [sys.executable, "-m", "negengine.engine.cli", *map(str, words)]
        how = {"capture_output": True, "text": True, "timeout": 600}
        done = subprocess.run(command, cwd=self.folder, env=environment, check=False, **how)
        assert done.returncode == status, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stderr if status else done.stdout

    @property
    def touched(self) -> set[str]:
        """The files that are new or different."""
        return {name for name, content in self.files().items() if self.before.get(name) != content}


@pytest.fixture
def sources(tmp_path):
    return Sources(tmp_path / "sources")


def code_of_the_page(heading: str) -> str:
    """The first block of Python below a heading of docs/extending.md."""
    page = (ROOT / "docs" / "extending.md").read_text("utf-8")
    return page.partition(heading)[2].partition("```python\n")[2].partition("```\n")[0]


def test_the_experiment_of_the_page_is_one_short_file():
    (path,) = re.findall("<!-- source: (.+) -->", (ROOT / "docs" / "extending.md").read_text("utf-8"))
    assert path == "tests/engine/library/colours/colours.py"  # which is installed for the tests
    assert len((ROOT / path).read_text("utf-8").splitlines()) <= 60


def test_an_output_format_is_one_file(sources, scored_run):
    sources.write("engine/views/to_tsv.py", code_of_the_page("## An output format"))
    assert sources.touched == {"engine/views/to_tsv.py"}
    assert "tsv" in sources.run("show", "--help")
    rows = sources.run("show", scored_run, "--format", "tsv").splitlines()
    assert rows[0].split("\t")[:3] == ["item", "condition", "sentence"]
    assert len(rows) > 21  # all rows, not the sample that people are shown


EXECUTOR = '''
"""The last part first, on this machine."""

from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

from ..inference.device import choose_device
from .executors import ThisProcess


@dataclass(frozen=True)
class Backwards:
    mark: str
    device: str

    @contextmanager
    def start(self, stage, options, say):
        with ThisProcess(choose_device(options.device)).start(stage, options, say) as workers:
            open(self.mark, "w").close()
            whole = workers.run
            run = lambda numbers, *rest: whole(list(numbers)[::-1], *rest)
            yield SimpleNamespace(descriptions=workers.descriptions, choose=workers.choose, run=run)
'''
OPTION = """EXECUTORS = {
    "backwards": ExecutorOption(
        Annotated[str | None, Option("Backwards (default: not).")], "negengine.engine.runs.backwards:Backwards", {}, ""
    ),
"""


def test_an_executor_is_one_file_and_one_option(sources, mini, small_lexicon, tmp_path):
    sources.write("engine/runs/backwards.py", EXECUTOR)
    sources.replace("engine/cli/run_command.py", "EXECUTORS = {\n", OPTION)
    imports = "from typing import Annotated\nfrom ..basics.option import Option\n"
    sources.replace("engine/cli/run_command.py", "import sys\n", f"import sys\n{imports}")
    assert sources.touched == {"engine/runs/backwards.py", "engine/cli/run_command.py"}
    select = ("select", mini.folder, "--lexicon", small_lexicon, "--precision", "fp32")
    sources.run(*select, "-o", tmp_path / "plain")
    sources.run(*select, "-o", tmp_path / "backwards", "--backwards", tmp_path / "started")
    assert (tmp_path / "started").exists()
    plain, other = (tmp_path / name / "triplets.parquet" for name in ("plain", "backwards"))
    assert plain.read_bytes() == other.read_bytes()


def test_a_language_is_no_code(sources):
    files = {path.name: path.read_text("utf-8") for path in (ROOT / "examples" / "spanish").iterdir()}
    assert len(files) > 6
    for name, text in files.items():
        if name == "patterns.toml":
            own = text.replace('lexicon = "."', 'lexicon = "spanish"')
            sources.write("engine/text/resources/patterns/spanish.toml", own)
        else:
            sources.write(f"engine/text/resources/lexicon-spanish/{name}", text)
    assert not [path for path in sources.touched if path.endswith(".py")]
    checked = sources.run("patterns", "check", "spanish")
    assert "No problem was found." in checked
    assert re.search(r"es (una (abogada|escritora|médica)|un (abogado|escritor|médico)) a quien", checked)


@pytest.mark.everything
def test_a_graph_pass_is_one_file_and_its_place_in_a_list(sources, tmp_path):
    code = 'def count_nodes(graph, _):\n    return {"nodes_counted": len(list(graph.nodes))}\n'
    sources.write("export/passes/count_nodes.py", code)
    place, before = "export/passes/__init__.py", "from .context import"
    sources.replace(place, before, f"from .count_nodes import count_nodes\n{before}")
    before = "_FUSED: tuple[Pass, ...] = (\n"
    sources.replace(place, before, f"{before}    count_nodes,\n")
    assert sources.touched == {"export/passes/count_nodes.py", "export/passes/__init__.py"}
    sources.run("export", "mini", "-o", tmp_path / "mini")
    assert '"nodes_counted"' in (tmp_path / "mini" / "export.json").read_text("utf-8")


@pytest.mark.everything
def test_a_model_family_is_an_entry_and_the_row_of_its_test(sources, tmp_path):
    entries = {}
    for path in ("export/families.py", FAMILIES):
        (entries[path],) = re.findall(r'^    "mpnet": .*\n', (ROOT / path).read_text("utf-8"), re.MULTILINE)
        sources.replace(path, entries[path], "")
    save_tiny(ROWS["mpnet"], tmp_path / "mpnet")
    sources.run("export", tmp_path / "mpnet", "-o", tmp_path / "without", status=2)
    assert sources.touched == set(entries)
    for path, entry in entries.items():
        text = (sources.folder / path).read_text("utf-8")
        place = text.index('    "nystromformer": ')
        (sources.folder / path).write_text(text[:place] + entry + text[place:], "utf-8")
    assert sources.touched == set()
    sources.run("export", tmp_path / "mpnet", "-o", tmp_path / "with")
    found = pl.read_json(tmp_path / "with" / "export.json")
    assert found["family"][0] == "mpnet"


def test_a_device_is_one_file(sources):
    sources.write("engine/inference/devices/mlx.py", code_of_the_page("## A device"))
    assert sources.touched == {"engine/inference/devices/mlx.py"}
    assert "auto, cpu, cuda, mlx, openvino, webgpu" in " ".join(sources.run("select", "--help").split())
    lacking = "the plugin for MLX is not installed: pip install onnxruntime-ep-mlx"
    assert f"negengine: --device mlx: {lacking}\n" in sources.run("select", "mini", "--device", "mlx", status=2)
    assert lacking in sources.run("doctor", "--json")
