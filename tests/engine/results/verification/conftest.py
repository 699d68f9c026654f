import shutil
from pathlib import Path

import pytest


def check(verification, stage, what):
    [found] = [check for check in verification.checks if (check.of, check.what) == (stage, what)]
    return found


def damage(verification):
    return [(check.of, check.what) for check in verification.damage]


@pytest.fixture
def selected(selected_run, tmp_path) -> Path:
    return Path(shutil.copytree(selected_run, tmp_path / "run"))


@pytest.fixture
def scored(scored_run, tmp_path) -> Path:
    return Path(shutil.copytree(scored_run, tmp_path / "run"))


@pytest.fixture
def exported(mini, tmp_path) -> Path:
    return Path(shutil.copytree(mini.folder, tmp_path / "models" / "mini"))


@pytest.fixture(scope="session")
def detector(once) -> Path:
    """The export of a classifier of tokens."""
    from negengine.export.build import build
    from tiny_checkpoints import write_detector

    return once("cue-detector", lambda folder: build(str(write_detector(folder / "detector")), folder / "out")) / "out"
