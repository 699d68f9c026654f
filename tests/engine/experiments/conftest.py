"""Models and small data that the tests of several experiments share."""

import negengine as ng
import numpy as np
import pytest
from negengine.engine.basics.choices import Task
from negengine.engine.experiments.nli.nli_pairs import THREE_WAY, TWO_WAY
from negengine.engine.inference.exported import load_exported
from negengine.export.build import build
from tiny_checkpoints import WORDS, save_classifier, write_detector

HEADER = "index\tText\tHypothesis\tgold_label\r\n"
HEADS = {"three-way": ("contradiction", "entailment", "neutral"), "two-way": ("not_entailment", "entailment")}


@pytest.fixture(scope="session")
def classifiers(once):
    """Head → checkpoint and exported model."""
    made, task = {}, Task.TEXT_CLASSIFICATION
    for head, names in HEADS.items():

        def make(folder, head=head, names=names):
            sizes = {"max_position_embeddings": 40, "initializer_range": 0.5}
            checkpoint = save_classifier(folder / head, "bert", names, **sizes)
            build(str(checkpoint), folder / "out", task=task, precision="mixed")

        folder = once(f"classifier-{head}", make)
        made[head] = folder / head, load_exported(folder / "out", task=task)
    return made


@pytest.fixture(scope="session")
def nli_data(tmp_path_factory):
    """Random pairs: 90 new and 60 original ones of RTE, 60 new ones of SNLI; some are longer than 16 tokens.

    In a triple of new pairs, the first and the last have the same text, the last two the same hypothesis.
    """
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)

    def rows(n, golds, *, new):
        before = ()
        for i in range(n):
            first, second = (" ".join(random.choice(WORDS, random.integers(2, 12))) for _ in range(2))
            if new and i % 3 == 2:
                first, second = before[0][0], before[1][1]
            before = (*before, (first, second))[-2:] if i % 3 else ((first, second),)
            yield f"{i}\t{first}\t{second}\t{random.choice(golds)}\r\n"

    original = HEADER.replace("Text", "sentence1").replace("Hypothesis", "sentence2")
    files = {"RTE.txt": (HEADER, 90, TWO_WAY), "SNLI.txt": (HEADER, 60, THREE_WAY), "dev.tsv": (original, 60, TWO_WAY)}
    for name, (header, n, golds) in files.items():
        (folder / name).write_bytes((header + "".join(rows(n, golds, new=name != "dev.tsv"))).encode("cp1252"))
    return folder


@pytest.fixture(scope="module")
def ask(model, tmp_path_factory):
    """Runs a probe of a file's `model` into a new folder."""

    def run(data, **options):
        return ng.probe(model, data, output=tmp_path_factory.mktemp("runs") / "run", progress=False, **options)

    return run


@pytest.fixture(scope="session")
def detector(once):
    """The detector of `tiny_checkpoints`, whose labels are known."""
    made = once("cue-detector", lambda folder: build(str(write_detector(folder / "detector")), folder / "out"))
    return load_exported(made / "out", task=Task.TOKEN_CLASSIFICATION)
