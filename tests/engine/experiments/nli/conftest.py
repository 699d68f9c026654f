"""Small classifiers with random weights, random pairs, and whole runs over them."""

import numpy as np
import pytest
from classifier_checkpoints import WORDS, save_classifier
from negengine.engine.basics.choices import Task
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.nli.nli import NliRun
from negengine.engine.experiments.nli.nli_judgements import Judgements
from negengine.engine.experiments.nli.nli_pairs import THREE_WAY, TWO_WAY, map_head, read_sets
from negengine.engine.inference.classifier import labels as label_names
from negengine.engine.inference.cpu import CPU
from negengine.engine.inference.exported import load_exported
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.export.build import build

BENCHMARK = "data/datasets/negation-nli"
HEADER = "index\tText\tHypothesis\tgold_label\r\n"
HEADS = {"three-way": ("contradiction", "entailment", "neutral"), "two-way": ("not_entailment", "entailment")}
LONGEST = 16
PAIRS_PER_PART = 40


@pytest.fixture(scope="session")
def classifiers(tmp_path_factory):
    """Head → checkpoint and exported model."""
    made, task = {}, Task.TEXT_CLASSIFICATION
    for head, names in HEADS.items():
        folder = tmp_path_factory.mktemp("classifier")
        checkpoint = save_classifier(folder / head, "bert", names, max_position_embeddings=40, initializer_range=0.5)
        made[head] = checkpoint, load_exported(build(str(checkpoint), folder / "out", task=task), task=task)
    return made


@pytest.fixture(params=HEADS, scope="session")
def head(request):
    """Three-way and two-way, one after the other."""
    return request.param


@pytest.fixture(scope="session")
def classifier(head, classifiers):
    """Checkpoint and exported model."""
    return classifiers[head]


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Random pairs: 90 new and 60 original ones of RTE, 60 new ones of SNLI; some are longer than 16 tokens."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)

    def rows(n, golds):
        for i in range(n):
            first, second = (" ".join(random.choice(WORDS, random.integers(2, 12))) for _ in range(2))
            yield f"{i}\t{first}\t{second}\t{random.choice(golds)}\r\n"

    original = HEADER.replace("Text", "sentence1").replace("Hypothesis", "sentence2")
    files = {"RTE.txt": (HEADER, 90, TWO_WAY), "SNLI.txt": (HEADER, 60, THREE_WAY), "dev.tsv": (original, 60, TWO_WAY)}
    for name, (header, n, golds) in files.items():
        (folder / name).write_bytes((header + "".join(rows(n, golds))).encode("cp1252"))
    return folder


def judgements(exported, data, sources=("RTE", "SNLI")):
    """The stage, in six parts for both sources."""
    head = map_head(label_names(exported), exported.name)
    sets = read_sets(data, {"RTE": data / "dev.tsv"}, sources)
    return Judgements.plan(exported, head, sets, max_length=LONGEST, pairs_per_part=PAIRS_PER_PART)


def execution(shard="1/1"):
    opening = Opening(batch_tokens=100, threads=1)
    return Execution(ThisProcess(CPU), opening, shard=Shard.parse(shard), reporter=Reporter(silent=True))


@pytest.fixture(scope="session")
def runs(classifiers, data, tmp_path_factory):
    """Head → a finished run of all pairs."""
    made = {}
    for head, (_, exported) in classifiers.items():
        folder = tmp_path_factory.mktemp("run") / head
        run_stage(judgements(exported, data), folder, execution())
        made[head] = NliRun.open(folder)
    return made


@pytest.fixture(scope="session")
def finished(head, runs):
    """The run of the same classifier."""
    return runs[head]
