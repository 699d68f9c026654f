"""Which code is mutated, in groups, and which tests concern it; the same files as in [tool.coverage.run]."""

from pathlib import Path

ROOT = Path(__file__).parents[2]

_STORE = ("folder", "part", "record", "results", "session", "lock", "shard", "ranges")
_PRECISION = ("precision", "mixing", "label_precision", "audit", "calibration", "choosing", "measured", "speed_ratio")


def _modules(folder: str) -> tuple[str, ...]:
    return tuple(sorted(f"{folder}/{path.name}" for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"))


GROUPS: dict[str, tuple[str, ...]] = {
    "store": (*(f"engine/runs/{name}.py" for name in _STORE), *_modules("engine/files")),
    "merge": ("engine/runs/choices.py", "engine/runs/merge.py"),
    "precision": tuple(f"engine/inference/{name}.py" for name in _PRECISION),
    "statistics": _modules("engine/statistics"),
}

TESTS: dict[str, tuple[str, ...]] = {
    "store": ("tests/engine/runs/test_folder.py", "tests/engine/runs/test_loop.py"),
    "merge": ("tests/engine/runs/test_merge.py",),
    "precision": tuple(
        f"tests/engine/inference/test_{name}.py" for name in ("precision", "label_precision", "choosing")
    ),
    "statistics": ("tests/engine/statistics",),
}
"""Group → the tests for all of its modules; a mutant is given to them if its module's own tests do not find it."""


def own_tests(module: str) -> tuple[str, ...]:
    """The test file that mirrors a module; none if there is none."""
    folder, _, name = f"tests/{module}".rpartition("/")
    mirror = f"{folder}/test_{name}"
    return (mirror,) if (ROOT / mirror).exists() else ()
