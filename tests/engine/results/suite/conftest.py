"""A folder with three checkpoints of one training run, and a suite file."""

import pytest
from fake_exports import write_checkpoint
from huggingface_hub import constants
from huggingface_hub.utils import reset_sessions

STEPS = {"step0": 0.6, "step1000": 0.3, "step20k": 0.1}

SUITE = """\
name = "over training"
[run]
device = "cpu"
precision = "fp32"
[[model]]
model = "lab/tiny"
revisions = ["step0", "step1000", "step20k"]
[[probe]]
probe = "score"
lexicon = "lexicon"
pairs = 6
"""


@pytest.fixture(scope="session")
def checkpoints(once, mini):
    """models/lab/tiny@step0 and so on: what an export of three revisions of the hub leaves."""

    def write(folder):
        for name, noise in STEPS.items():
            write_checkpoint(mini.folder, folder / "lab" / f"tiny@{name}", f"lab/tiny@{name}", noise)

    return once("checkpoints", write)


@pytest.fixture
def place(tmp_path, monkeypatch, checkpoints, small_lexicon):
    """The current folder, with models, word lists and suite.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # for processes that are started here
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    reset_sessions()  # they know whether the library is offline
    (tmp_path / "models").symlink_to(checkpoints)
    (tmp_path / "lexicon").symlink_to(small_lexicon)
    (tmp_path / "suite.toml").write_text(SUITE)
    yield tmp_path
    monkeypatch.undo()
    reset_sessions()
