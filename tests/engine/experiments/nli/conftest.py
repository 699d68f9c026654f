"""Small classifiers with random weights, random pairs, and whole runs over them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from negengine.engine.basics.choices import Task
from negengine.engine.basics.option import Opening
from negengine.engine.experiments.nli.nli import NliRun
from negengine.engine.experiments.nli.nli_judgements import Judgements
from negengine.engine.experiments.nli.nli_pairs import THREE_WAY, TWO_WAY, map_head, read_sets
from negengine.engine.inference.classifier import labels as label_names
from negengine.engine.inference.device import CPU
from negengine.engine.inference.exported import load_exported
from negengine.engine.runs.executors import ThisProcess
from negengine.engine.runs.loop import Execution, run_stage
from negengine.engine.runs.progress import Reporter
from negengine.engine.runs.shard import Shard
from negengine.export.build import build
from transformers import BertConfig, BertForSequenceClassification
from word_tokenizer import UNMASKED, labelled, word_tokenizer

BENCHMARK = "data/datasets/negation-nli"
HEADER = "index\tText\tHypothesis\tgold_label\r\n"
SENTENCE = "the man is not in a park no one sleeps dog runs never outside . woman does sleep run two people are"
WORDS = SENTENCE.split()
HEADS = {"three-way": ("contradiction", "entailment", "neutral"), "two-way": ("not_entailment", "entailment")}
LONGEST = 16
PAIRS_PER_PART = 40


def save_checkpoint(folder, names, seed):
    tokenizer = word_tokenizer(WORDS, UNMASKED)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        initializer_range=0.5,
        **labelled(names),
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def classifiers(tmp_path_factory):
    """Head → checkpoint and exported model."""
    made = {}
    for head, names in HEADS.items():
        folder = tmp_path_factory.mktemp("classifier")
        checkpoint = save_checkpoint(folder / head, names, seed=3)
        made[head] = (
            checkpoint,
            load_exported(
                build(str(checkpoint), folder / "out", task=Task.TEXT_CLASSIFICATION), task=Task.TEXT_CLASSIFICATION
            ),
        )
    return made


@pytest.fixture(params=HEADS, scope="session")
def head(request):
    """Three-way and two-way, one after the other."""
    return request.param


@pytest.fixture(scope="session")
def classifier(head, classifiers):
    """Checkpoint and exported model."""
    return classifiers[head]


def random_sentence(random):
    return " ".join(random.choice(WORDS, random.integers(2, 12)))


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """Random pairs: 90 new and 60 original ones of RTE, 60 new ones of SNLI; some are longer than 16 tokens."""
    folder, random = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    golds = {"RTE": TWO_WAY, "SNLI": THREE_WAY}
    for source, n in (("RTE", 90), ("SNLI", 60)):
        rows = [
            f"{i}\t{random_sentence(random)}\t{random_sentence(random)}\t{random.choice(golds[source])}\r\n"
            for i in range(n)
        ]
        (folder / f"{source}.txt").write_bytes((HEADER + "".join(rows)).encode("cp1252"))
    rows = [f"{i}\t{random_sentence(random)}\t{random_sentence(random)}\t{random.choice(TWO_WAY)}\n" for i in range(60)]
    (folder / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(rows))
    return folder


def judgements(exported, data, sources=("RTE", "SNLI")):
    """The stage, in six parts for both sources."""
    head = map_head(label_names(exported), exported.name)
    sets = read_sets(data, {"RTE": data / "dev.tsv"}, sources)
    return Judgements.plan(exported, head, sets, max_length=LONGEST, pairs_per_part=PAIRS_PER_PART)


def execution(*, shard="1/1", executor=None, batch_tokens=100):
    return Execution(
        executor or ThisProcess(CPU),
        Opening(batch_tokens=batch_tokens, threads=1),
        shard=Shard.parse(shard),
        reporter=Reporter(silent=True),
    )


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


def results(folder: Path):
    """The bytes of the final files."""
    return {path.name: path.read_bytes() for path in folder.glob("*.parquet")}
