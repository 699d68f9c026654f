"""Mutants: copies of a module with one small change each, made by the operators of Cosmic Ray.

Cosmic Ray has up to eleven replacements of one operator. They stand at one place, and most tests find all of them or
none. So a place counts once: one of its mutants is drawn by the seed.
"""

import ast
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names

_IDENTITY = ("_Is", "_IsNot")  # in the place of `==` and the like: whether 1 is 1 depends on Python, not on the code
_NEED_ARGUMENTS = {"core/VariableReplacer", "core/VariableInserter"}

Place = tuple[int, int]
"""Line from 1, column from 0."""


@dataclass(frozen=True)
class Mutant:
    """A module with one change."""

    module: str  # path of the module, from the root of the repository
    line: int  # where the change is
    operator: str  # what kind of change
    before: str  # the line as it is
    after: str  # the same line of the mutant
    original: str  # the whole module
    source: str  # the whole mutant


class RemoveCall(Operator):
    """Leave out a call that stands alone, such as one that writes a file; Cosmic Ray does not have this operator."""

    def mutation_positions(self, node: parso.tree.NodeOrLeaf) -> Iterator[tuple[Place, Place]]:
        """Where the node is such a call."""
        if (
            node.type in {"atom_expr", "power"}
            and node.parent.type == "simple_stmt"
            and node.children[-1].type == "trailer"
        ):
            yield node.start_pos, node.end_pos

    def mutate(self, node: parso.tree.NodeOrLeaf, index: int) -> parso.tree.NodeOrLeaf:
        """`pass` in its place."""
        return parso.python.tree.Name("pass", node.start_pos, node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[()]:
        """None; Cosmic Ray tests its own operators with them."""
        return ()


@dataclass(frozen=True)
class Spot:
    """A place of a module and a kind of change, with all mutants that Cosmic Ray makes of it."""

    module: str  # path of the module
    start: Place  # where
    kind: str  # such as `ReplaceBinaryOperator`
    # Operator, its name, and which of its occurrences in the module it is
    choices: tuple[tuple[Operator, str, int], ...]

    def draw(self, source: str, seed: int) -> Mutant | None:
        """One of the mutants; None if Python compiles none of them."""
        line = self.start[0]
        chance = random.Random(f"{seed} {self.module} {self.start} {self.kind}")
        for operator, name, occurrence in chance.sample(self.choices, len(self.choices)):
            changed = mutate_code(source, operator, occurrence)
            if changed is not None and _is_another_program(source, changed):
                before, after = (text.splitlines()[line - 1].strip() for text in (source, changed))
                return Mutant(self.module, line, name, before, after, source, changed)
        return None


def spots(module: str, source: str) -> list[Spot]:
    """All places of a module that can be changed, type hints excepted, in the order of the source."""
    places: dict[tuple[Place, str], list[tuple[Operator, str, int]]] = {}
    nodes, hints = list(ast_nodes(get_ast(source))), list(_hints(source))
    for name, operator in _operators():
        found = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, start in enumerate(found):
            if not any(begin <= start < end for begin, end in hints):
                places.setdefault((start, name.split("_")[0]), []).append((operator, name, occurrence))
    return [Spot(module, start, kind, tuple(choices)) for (start, kind), choices in sorted(places.items())]


def _operators() -> Iterator[tuple[str, Operator]]:
    yield RemoveCall.__name__, RemoveCall()
    for name in sorted(set(operator_names()) - _NEED_ARGUMENTS):
        if not name.endswith(_IDENTITY) or "Is" in name.split("_")[1]:
            yield name.rpartition("/")[2], get_operator(name)()


def _is_another_program(source: str, changed: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            compile(changed, "mutant", "exec")
        except SyntaxError:
            return False
        return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def _hints(source: str) -> Iterator[tuple[Place, Place]]:
    """Where the type hints begin and end."""
    for node in ast.walk(ast.parse(source)):
        found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp) and node.col_offset == 0:
            found.append(node.value if _is_alias(node) else None)
        for hint in found:
            if isinstance(hint, ast.expr) and hint.end_lineno is not None and hint.end_col_offset is not None:
                yield (hint.lineno, hint.col_offset), (hint.end_lineno, hint.end_col_offset)


def _is_alias(node: ast.Assign) -> bool:
    """Whether an assignment names a type, such as `Estimate = tuple[float, float | None]`."""
    name = node.targets[0]
    return isinstance(name, ast.Name) and name.id[0].isupper() and not name.id.isupper()
