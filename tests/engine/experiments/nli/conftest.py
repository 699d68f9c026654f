"""Whole runs of small classifiers over random pairs."""

import pytest
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.nli.nli import NliRun
from negengine.engine.experiments.nli.nli_judgements import Judgements
from negengine.engine.experiments.nli.nli_pairs import map_head, read_sets
from negengine.engine.inference.classifier import labels as label_names
from negengine.engine.inference.cpu import CPU
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter

from ..conftest import HEADS

LONGEST = 16


@pytest.fixture(params=HEADS, scope="session")
def head(request):
    """Three-way and two-way, one after the other."""
    return request.param


def judgements(exported, data):
    """The stage, in six parts."""
    head = map_head(label_names(exported), exported.name)
    sets = read_sets(data, {"RTE": data / "dev.tsv"}, ("RTE", "SNLI"))
    return Judgements.plan(exported, head, sets, max_length=LONGEST, pairs_per_part=40)


def execute(stage, folder):
    opening = Opening(batch_tokens=100, threads=1)
    run_stage(stage, folder, Execution(ThisProcess(CPU), opening, reporter=Reporter(silent=True)))
    return NliRun.open(folder)


@pytest.fixture(scope="session")
def runs(classifiers, nli_data, tmp_path_factory):
    """Head → a finished run of all pairs."""
    folder = tmp_path_factory.mktemp("run")
    return {head: execute(judgements(exported, nli_data), folder / head) for head, (_, exported) in classifiers.items()}
