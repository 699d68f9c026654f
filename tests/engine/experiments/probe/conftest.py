"""What the tests of own stimuli share; each file says which `model` is asked."""

import negengine as ng
import pytest


@pytest.fixture(scope="module")
def ask(model, tmp_path_factory):
    """Runs a probe into a new folder."""

    def run(data, **options):
        return ng.probe(model, data, output=tmp_path_factory.mktemp("runs") / "run", progress=False, **options)

    return run
