"""Which code is measured, in groups, and which tests concern it; `make coverage` and `make mutation` read it here.

As a script it prints the patterns of the modules, or the tests, for the command line of coverage.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _files(pattern: str, names: str = "") -> tuple[str, ...]:
    found = [path for path in sorted(ROOT.glob(pattern)) if path.name != "__init__.py"]
    return tuple(str(path.relative_to(ROOT)) for path in found if not names or path.stem in names.split())


GROUPS = {
    "store": _files("engine/runs/*.py", "folder part record results lock shard")
    + _files("engine/basics/*.py", "atomic frames paths reading sealed"),
    "merge": _files("engine/runs/merge.py"),
    "precision": _files("engine/inference/*.py", "precision mixed audit"),
    "statistics": _files("engine/statistics/*.py"),
}
TESTS = {  # group → the tests for all of its modules
    "store": _files("tests/engine/runs/*.py", "test_folder test_loop"),
    "merge": _files("tests/engine/runs/test_merge.py"),
    "precision": _files("tests/engine/inference/*.py", "test_precision"),
    "statistics": _files("tests/engine/statistics/test_*.py"),
}


def tests_of(group: str, module: str) -> tuple[str, ...]:
    """The files of tests that a mutant of a module is given to: the module's own, and those of its group."""
    folder, _, name = f"tests/{module}".rpartition("/")
    return tuple(dict.fromkeys([*_files(f"{folder}/test_{name}"), *TESTS[group]]))


if __name__ == "__main__":
    if sys.argv[1:] == ["modules"]:
        # Worker processes have folders of their own, so the patterns do not depend on the current one.
        print(",".join(f"*/{module}" for own in GROUPS.values() for module in own))
    else:
        own = dict.fromkeys(name for group, names in GROUPS.items() for one in names for name in tests_of(group, one))
        # all of this folder: with the fuzzer, which takes too long for each mutant
        print(*(name for name in own if not name.startswith("tests/engine/basics/")), "tests/engine/basics")
