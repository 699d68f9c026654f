"""A detector whose labels are known, exported once."""

import pytest
from cue_detectors import write_detector
from negengine.engine.inference.exported import ExportedModel, load_exported
from negengine.export.build import build

TASK = "token-classification"


@pytest.fixture(scope="session")
def detector(once) -> ExportedModel:
    """The detector of `cue_detectors`."""
    made = once("cue-detector", lambda folder: build(str(write_detector(folder / "detector")), folder / "out"))
    return load_exported(made / "out", task=TASK)


@pytest.fixture(scope="session")
def other_labels(once) -> ExportedModel:
    """A token classifier that is not a cue detector."""
    labels = ("O", "B-PER", "I-PER")
    made = once("other-labels", lambda folder: build(str(write_detector(folder / "names", labels)), folder / "out"))
    return load_exported(made / "out", task=TASK)
