"""Data flows in one direction: no import runs against the order of the rooms, and a model runs without PyTorch."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# The rooms of the engine: its folders. A room imports from itself and from those above it.
ORDER = (
    "basics", "text", "inference", "runs", "statistics", "views",
    "requests", "library", "experiments", "results", "cli",
)  # fmt: skip
# How much there is to know of the rooms: these numbers only ever shrink.
MOST_ROOMS, MOST_FLOORS, MOST_ARROWS = 11, 8, 40
PACKAGES = ("engine", "export", "bench")
ENGINE, PUBLIC = "negengine.engine.", "negengine"
# The packages beside the engine, the innermost first, and those that they must not import.
BESIDE = {
    "negengine.export.training": ("negengine.bench",),
    "negengine.export": ("negengine.export.training", "negengine.bench"),
    "negengine.bench": (),
}
# What needs an exporter or a benchmark imports it in a function, once it is asked for.
MAY_ASK_BESIDE = (
    "negengine.engine.library.model",
    "negengine.engine.cli.benchmark",
    "negengine.engine.cli.train_commands",
    "negengine.engine.results.verification.reference",
)
# What imports by a name in a string, such as "negengine.engine.library.model:export", from a room below.
MAY_NAME_LATER = ("library.run",)
NAMED = re.compile(r"(negengine\.[\w.]+):\w+")
EXPORT_LIBRARIES = {"torch", "transformers", "optimum", "onnx", "onnx_ir", "accelerate", "safetensors"}


class Import(NamedTuple):
    """What a module imports in a line: on loading, or later in a function, or by a string that names it."""

    importer: str
    imported: str
    line: int
    lazy: bool
    named: bool = False

    def __str__(self) -> str:
        return f"{modules()[self.importer].relative_to(ROOT)}:{self.line} imports {self.imported}"


@cache
def modules() -> dict[str, Path]:
    """Name → file, of all packages."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(("negengine", *(parts[:-1] if parts[-1] == "__init__" else parts)))
        found[PUBLIC if name == "negengine.engine.public" else name] = path
    return found


@cache
def imports() -> list[Import]:
    found = []

    def visit(node: ast.AST, name: str, package: list[str], lazy: bool) -> None:
        if isinstance(node, ast.Import):
            found.extend(Import(name, alias.name, node.lineno, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                found.append(Import(name, inner if inner in modules() else source, node.lineno, lazy))
        elif isinstance(node, ast.Constant) and (named := NAMED.fullmatch(str(node.value))) and named[1] in modules():
            found.append(Import(name, named[1], node.lineno, lazy=True, named=True))
        for child in ast.iter_child_nodes(node):
            visit(child, name, package, lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    for name, path in modules().items():
        package = (name if path.name == "__init__.py" else name.rpartition(".")[0]).split(".")
        visit(ast.parse(path.read_text("utf-8")), name, package, lazy=False)
    return found


def room(name: str) -> str | None:
    """The room of the engine that a module stands in; None for those elsewhere."""
    return name.removeprefix(ENGINE).partition(".")[0] if name.startswith(ENGINE) else None


def is_beside(name: str) -> bool:
    return name.startswith(tuple(BESIDE))


def test_the_rooms_are_few_and_no_import_runs_against_their_order():
    assert {room(name) for name in modules()} - {None} == set(ORDER)
    between = [(room(found.importer), room(found.imported), found) for found in imports()]
    between = [(one, other, found) for one, other, found in between if one and other and one != other]
    back = [found for one, other, found in between if ORDER.index(other) > ORDER.index(one)]
    assert not [str(found) for found in back if not found.named]
    assert {found.importer.removeprefix(ENGINE) for found in back} == set(MAY_NAME_LATER)
    arrows, floor = {(one, other) for one, other, found in between if not found.named}, {}
    for one in ORDER:  # no arrow runs back, so those below have their floor already
        floor[one] = 1 + max((floor[other] for other in floor if (one, other) in arrows), default=0)
    assert len(ORDER) <= MOST_ROOMS
    assert max(floor.values()) <= MOST_FLOORS
    assert len(arrows) <= MOST_ARROWS


def test_the_precision_passes_at_most_5_files_from_its_option_to_the_sessions():
    """It is a part of `Opening`, which is handed on whole. A training has an option of the same name."""
    named = re.compile(r"\b(?:opening|options)\.precision\b|\bprecision: (?:Precision|Annotated)\b")
    own = {name for name, path in modules().items() if room(name) and named.search(path.read_text("utf-8"))}
    assert "negengine.engine.basics.option" in own
    assert len(own - {"negengine.engine.library.training_options"}) <= 5, sorted(own)


def test_the_engine_and_the_packages_beside_it_import_each_other_only_as_they_may():
    """The engine asks for the exporter and the benchmark only when they are used."""
    outside = [found for found in imports() if not is_beside(found.importer)]
    asked = [found for found in outside if is_beside(found.imported)]
    assert not [str(found) for found in asked if not found.lazy or found.importer not in MAY_ASK_BESIDE]
    libraries = [found for found in outside if found.imported.partition(".")[0] in EXPORT_LIBRARIES]
    assert not [str(found) for found in libraries]
    own = [(next((name for name in BESIDE if found.importer.startswith(name)), None), found) for found in imports()]
    assert {package for package, _ in own} == {*BESIDE, None}
    assert not [str(found) for package, found in own if package and found.imported.startswith(BESIDE[package])]
