"""Two scored runs with fake models: quick, and with repetitions and failures in every pattern."""

import negengine as ng
import pytest
from fake_models import LEXICON, FakeScoring, FakeSelection
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.negation.negation_runs import read_selected
from negengine.engine.experiments.negation.select import Settings
from negengine.engine.inference.cpu import CPU
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter
from negengine.engine.text.pattern_files import load_patterns


def make(mini, folder, lexicon=LEXICON, name="", **settings):
    """A scored run, as if by a model of another name."""
    work = Execution(ThisProcess(CPU), Opening(), reporter=Reporter(silent=True))
    selection = FakeSelection.plan(mini, lexicon, load_patterns(), Settings(**settings))
    run_stage(selection, folder, work)
    run_stage(FakeScoring.plan(read_selected(folder), mini), folder, work, earlier={"select": folder})
    return folder


@pytest.fixture(scope="session")
def make_scores():
    return make


@pytest.fixture(scope="session")
def scores(once, mini):
    return ng.open(once("report scores", lambda folder: make(mini, folder)))


@pytest.fixture(scope="session")
def other_scores(once, mini):
    """The same model with another seed."""
    return ng.open(once("report other scores", lambda folder: make(mini, folder, seed=1, max_verbs=2)))


@pytest.fixture(scope="session")
def page(scores, tmp_path_factory):
    """The report of the run, as text."""
    return ng.report(scores, tmp_path_factory.mktemp("report") / "report.html").read_text("utf-8")
