"""Copies of finished runs and exports that a test may damage."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def scored(scored_run, tmp_path) -> Path:
    """A copy of a finished selection with its scores."""
    return Path(shutil.copytree(scored_run, tmp_path / "run"))


@pytest.fixture
def selected(selected_run, tmp_path) -> Path:
    """A copy of a finished selection."""
    return Path(shutil.copytree(selected_run, tmp_path / "run"))


@pytest.fixture
def exported(mini, tmp_path) -> Path:
    """A copy of the bundled model's export."""
    return Path(shutil.copytree(mini.folder, tmp_path / "models" / "mini"))
