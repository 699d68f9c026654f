"""Scored runs with fake models: quick, and with repetitions and failures in every pattern."""

import negengine as ng
import pytest
from fake_models import LEXICON, plan_scores, score, select
from negengine.engine.basics.choices import VerbConvention
from negengine.engine.experiments.negation.select import Settings


def make(mini, folder, lexicon=LEXICON, **settings):
    settings = {"verbs": VerbConvention.IN_CONTEXT, "max_verbs": Settings.max_verbs, **settings}
    return ng.open(score(plan_scores(mini, select(mini, folder, lexicon=lexicon, **settings))))


@pytest.fixture(scope="session")
def scores(once, mini):
    return ng.open(once("report scores", lambda folder: make(mini, folder)))


@pytest.fixture(scope="session")
def other_scores(once, mini):
    """The same model with another seed."""
    return ng.open(once("report other scores", lambda folder: make(mini, folder, seed=1, max_verbs=2)))


@pytest.fixture(scope="session")
def page(scores, tmp_path_factory):
    return ng.report(scores, tmp_path_factory.mktemp("report") / "report.html").read_text("utf-8")
