"""The wheel holds everything that is read at run time, and nothing else."""

import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.everything
def test_every_file_of_the_packages_and_nothing_else_is_in_it(wheel):
    names, expected = set(zipfile.ZipFile(wheel).namelist()), set()
    for path in (path for package in ("engine", "export", "bench") for path in (ROOT / package).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            inner = path.relative_to(ROOT)  # engine/public is the package negengine itself
            expected.add(f"negengine/{inner.name if inner.parts[1] == 'public' else inner.as_posix()}")
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert any(name.endswith(".dist-info/licenses/CITATION.cff") for name in names)
