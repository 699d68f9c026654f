"""Data flows in one direction: no import runs against the order of the packages, and a model runs without PyTorch."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A package imports from itself and from those above it.
ORDER = (
    "negengine.engine.choices",
    "negengine.engine.errors",
    "negengine.engine.extras",
    "negengine.engine.printable",
    "negengine.engine.versions",
    "negengine.engine.files",
    "negengine.engine.text",
    "negengine.engine.inference",
    "negengine.engine.runs",
    "negengine.engine.statistics",
    "negengine.engine.views",
    "negengine.engine.library",
    "negengine.engine.commands",
    "negengine.engine.datasets",
    "negengine.engine.experiments",
    "negengine.engine.results",
    "negengine.engine.api",
    "negengine.engine.suite",
    "negengine.engine.cli",
)
PUBLIC = "negengine"
BESIDE = ("negengine.export", "negengine.bench")
# What needs an exporter or a benchmark imports it in a function, once it is asked for.
MAY_ASK_BESIDE = (
    "negengine.engine.api.load",
    "negengine.engine.cli.benchmark",
    "negengine.engine.experiments.cues.train_commands",
    "negengine.engine.experiments.nli.train_commands",
    "negengine.engine.results.verification.pytorch",
)
EXPORT_LIBRARIES = {"torch", "transformers", "optimum", "onnx", "onnx_ir", "accelerate", "safetensors"}


def modules() -> dict[str, Path]:
    """Name → file, of all packages."""
    found = {}
    for folder in ("engine", "export", "bench"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(("negengine", *(parts[:-1] if parts[-1] == "__init__" else parts)))
            found[PUBLIC if name == "negengine.engine.public" else name] = path
    return found


MODULES = modules()


def imports(name: str) -> Iterator[tuple[str, int, bool]]:
    """What a module imports: the full name, the line, and whether a function imports it."""
    path = MODULES[name]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text("utf-8"))
    lazy = {
        inner
        for outer in ast.walk(tree)
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(outer)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno, node in lazy
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in MODULES else source, node.lineno, node in lazy


def place(name: str) -> int | None:
    """Where a module stands in the order; None for those beside it."""
    places = [i for i, package in enumerate(ORDER) if name == package or name.startswith(f"{package}.")]
    return places[0] if places else None


def is_beside(name: str) -> bool:
    return name.startswith(BESIDE)


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("negengine.engine.")])
def test_every_module_of_the_engine_has_a_place_in_the_order(name):
    assert place(name) is not None


@pytest.mark.parametrize("name", [name for name in MODULES if place(name) is not None])
def test_no_import_runs_against_the_order(name):
    own = place(name)
    for imported, line, _ in imports(name):
        other = place(imported)
        assert other is None or other <= own, f"{MODULES[name]}:{line} imports {imported}"


@pytest.mark.parametrize("name", [name for name in MODULES if not is_beside(name)])
def test_the_engine_asks_for_the_exporter_and_the_benchmark_only_when_they_are_used(name):
    for imported, line, lazy in imports(name):
        if is_beside(imported):
            assert lazy and name in MAY_ASK_BESIDE, f"{MODULES[name]}:{line} imports {imported}"  # noqa: PT018


@pytest.mark.parametrize("name", [name for name in MODULES if not is_beside(name)])
def test_the_engine_imports_no_library_of_the_exporter(name):
    for imported, line, _ in imports(name):
        assert imported.partition(".")[0] not in EXPORT_LIBRARIES, f"{MODULES[name]}:{line} imports {imported}"


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith("negengine.export")])
def test_the_exporter_does_not_import_the_benchmark_and_exports_without_training(name):
    below = () if name.startswith("negengine.export.training") else ("negengine.export.training",)
    for imported, line, _ in imports(name):
        assert not imported.startswith(("negengine.bench", *below)), f"{MODULES[name]}:{line} imports {imported}"


def test_a_relative_import_is_read_as_python_reads_it():
    found = {imported for imported, _, _ in imports("negengine.engine.experiments.negation.select")}
    assert {
        "negengine.engine.errors",
        "negengine.engine.runs.stage",
        "negengine.engine.experiments.negation.grid",
        "numpy",
    } <= found
