"""The wheel holds everything that is read at run time, and nothing else."""

import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.everything

ROOT = Path(__file__).parents[1]


def expected():
    """The files of the packages by their names in the wheel; engine/public is the package negengine itself."""
    for package in ("engine", "export", "bench"):
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                inner = path.relative_to(ROOT)
                public = inner.parts[:2] == ("engine", "public")
                yield f"negengine/{inner.name}" if public else f"negengine/{inner.as_posix()}"


def test_every_file_of_the_packages_and_nothing_else_is_in_it(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == set(expected())
    assert any(name.endswith(".dist-info/licenses/CITATION.cff") for name in names)
    assert {"negengine/py.typed", "negengine/engine/py.typed", "negengine/export/py.typed"} <= names
