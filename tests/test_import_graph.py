"""Data flows in one direction: no import runs against the order of the rooms, and a model runs without PyTorch."""

import ast
import re
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# The rooms of the engine (its folders), the packages beside it, and the library. A room imports from itself and from
# those before it: on loading, later in a function, or by a name in a string. The last one may name all: it plugs in.
ORDER = (
    "basics", "text", "inference", "runs", "statistics", "views", "requests", "library", "experiments", "results",
    "export", "training", "bench", "cli", "public",
)  # fmt: skip
BESIDE = {"export", "training", "bench"}  # only the command line asks for them, once they are used
# How much there is to know of the rooms of the engine: these numbers only ever shrink.
MOST_ROOMS, MOST_FLOORS, MOST_ARROWS = 11, 8, 40
PACKAGES = ("engine", "export", "bench")
ENGINE, PUBLIC = "negengine.engine.", "negengine"
NAMED = re.compile(r"(negengine\.[\w.]+):\w+")
EXPORT_LIBRARIES = {"torch", "transformers", "optimum", "onnx", "onnx_ir", "accelerate", "safetensors"}


class Import(NamedTuple):
    """What a module imports in a line: on loading, later in a function, by a string, or for type checkers alone."""

    importer: str
    imported: str
    line: int
    lazy: bool
    named: bool = False
    typing: bool = False

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

    def visit(node: ast.AST, name: str, package: list[str], lazy: bool, typing: bool) -> None:
        typing = typing or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
        if isinstance(node, ast.Import):
            found.extend(Import(name, alias.name, node.lineno, lazy, typing=typing) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                imported = inner if inner in modules() else source
                found.append(Import(name, imported, node.lineno, lazy, typing=typing))
        elif isinstance(node, ast.Constant) and (named := NAMED.fullmatch(str(node.value))) and named[1] in modules():
            found.append(Import(name, named[1], node.lineno, lazy=True, named=True))
        for child in ast.iter_child_nodes(node):
            visit(child, name, package, lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef), typing)

    for name, path in modules().items():
        package = (name if path.name == "__init__.py" else name.rpartition(".")[0]).split(".")
        visit(ast.parse(path.read_text("utf-8")), name, package, lazy=False, typing=False)
    return found


def room(name: str) -> str | None:
    """The room that a module stands in; None for what is not ours, and for packages that hold rooms."""
    if name == PUBLIC:
        return "public"
    if name.startswith("negengine.export.training"):
        return "training"
    inner = name.removeprefix(ENGINE if name.startswith(ENGINE) else "negengine.").partition(".")[0]
    return inner if inner in ORDER else None


def test_the_rooms_are_few_and_no_import_runs_against_their_order():
    folders = {path.parent.name for path in (ROOT / "engine").glob("*/__init__.py")}
    assert folders | BESIDE == set(ORDER)
    between = [(room(found.importer), room(found.imported), found) for found in imports()]
    between = [(one, other, found) for one, other, found in between if one and other and one != other]
    assert not [str(found) for one, other, found in between if ORDER.index(other) > ORDER.index(one)]
    rooms = [own for own in ORDER if own not in {*BESIDE, "public"}]
    arrows, floor = {(one, other) for one, other, _ in between if one in rooms and other in rooms}, {}
    for one in rooms:  # no arrow runs back, so those below have their floor already
        floor[one] = 1 + max((floor[other] for other in floor if (one, other) in arrows), default=0)
    assert len(rooms) <= MOST_ROOMS
    assert max(floor.values()) <= MOST_FLOORS
    assert len(arrows) <= MOST_ARROWS


def test_no_modules_import_each_other_in_a_circle():
    """Also not through imports in functions, or by a name in a string; those for type checkers do not count."""
    below = {name: set[str]() for name in modules() if room(name) != "public"}
    for found in imports():
        if {found.importer, found.imported} <= below.keys() and not found.typing and found.importer != found.imported:
            below[found.importer].add(found.imported)
    TopologicalSorter(below).prepare()  # raises CycleError, which names the circle


def test_the_precision_passes_at_most_5_files_from_its_option_to_the_sessions():
    """It is a part of `Opening`, which is handed on whole. A training and an export have an option of the same name."""
    named = re.compile(r"\b(?:opening|options)\.precision\b|\bprecision: (?:Precision|Annotated)\b")
    own = {
        name for name, path in modules().items() if name.startswith(ENGINE) and named.search(path.read_text("utf-8"))
    }
    assert "negengine.engine.basics.option" in own
    others = {"negengine.engine.library.training_options", "negengine.engine.cli.model_commands"}
    assert len(own - others) <= 5, sorted(own)


def test_only_the_command_line_asks_for_the_packages_beside_and_only_when_they_are_used():
    own = [(room(found.importer), found) for found in imports()]
    asked = [(one, found) for one, found in own if one not in {*BESIDE, "public"} and room(found.imported) in BESIDE]
    assert not [str(found) for one, found in asked if one != "cli" or not found.lazy]
    libraries = [
        found for one, found in own if one not in BESIDE and found.imported.partition(".")[0] in EXPORT_LIBRARIES
    ]
    assert not [str(found) for found in libraries]
