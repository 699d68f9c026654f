"""Which code is measured, in groups, and which tests concern it; `make coverage` and `make mutation` read it here.

As a script it prints the patterns of the modules, or the tests, for the command line of coverage.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_STORE = ("folder", "part", "record", "results", "session", "lock", "shard")
_FILES = ("atomic", "frames", "parquet_pages", "paths", "reading", "sealed")
_PRECISION = ("precision", "mixed", "audit")


def _modules(folder: str) -> tuple[str, ...]:
    return tuple(sorted(f"{folder}/{path.name}" for path in (ROOT / folder).glob("*.py") if path.name != "__init__.py"))


GROUPS: dict[str, tuple[str, ...]] = {
    "store": tuple(f"engine/runs/{name}.py" for name in _STORE) + tuple(f"engine/basics/{name}.py" for name in _FILES),
    "merge": ("engine/runs/merge.py",),
    "precision": tuple(f"engine/inference/{name}.py" for name in _PRECISION),
    "statistics": _modules("engine/statistics"),
}

TESTS: dict[str, tuple[str, ...]] = {
    "store": ("tests/engine/runs/test_folder.py", "tests/engine/runs/test_loop.py"),
    "merge": ("tests/engine/runs/test_merge.py",),
    "precision": tuple(f"tests/engine/inference/test_{name}.py" for name in ("precision", "mixed")),
    "statistics": tuple(
        sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/engine/statistics").glob("test_*.py"))
    ),
}
"""Group → the tests for all of its modules."""

_ONLY_COVERAGE = ("tests/engine/basics",)  # with the fuzzer, which takes too long for each mutant


def tests_of(group: str, module: str) -> tuple[str, ...]:
    """The files of tests that a mutant of a module is given to: the module's own, and those of its group."""
    folder, _, name = f"tests/{module}".rpartition("/")
    mirror = f"{folder}/test_{name}"
    return tuple(dict.fromkeys([*([mirror] if (ROOT / mirror).exists() else []), *TESTS[group]]))


def all_tests(groups: tuple[str, ...] = tuple(GROUPS)) -> tuple[str, ...]:
    """All files of tests of some groups, each once."""
    return tuple(
        dict.fromkeys(name for group in groups for module in GROUPS[group] for name in tests_of(group, module))
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["modules"]:
        # Worker processes have folders of their own, so the patterns do not depend on the current one.
        print(",".join(f"*/{module}" for own in GROUPS.values() for module in own))
    else:
        whole = [name for name in all_tests() if not name.startswith(tuple(f"{folder}/" for folder in _ONLY_COVERAGE))]
        print(*whole, *_ONLY_COVERAGE)
