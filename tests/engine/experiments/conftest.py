"""Models, small data and finished runs that the tests of several experiments share."""

import json
from functools import cache

import negengine as ng
import numpy as np
import polars as pl
import pytest
from negengine.engine.basics.choices import Task
from negengine.engine.experiments.nli.nli_pairs import THREE_WAY, TWO_WAY
from negengine.engine.inference.exported import load_exported
from negengine.export.build import build
from tiny_checkpoints import WORDS, save_classifier, write_detector

from .diagnostics.conftest import write_tables

HEADER = "index\tText\tHypothesis\tgold_label\r\n"
HEADS = {"three-way": ("contradiction", "entailment", "neutral"), "two-way": ("not_entailment", "entailment")}


FACTS = [("paris", "France"), ("rome", "Italy"), ("london", "England"), ("unspeakableness", "Denmark")]
OWN = {
    "sentence": [f"A {what} {verb} a [MASK]." for what in ("robin", "trout") for verb in ("is", "is not")],
    "target": ["bird", "bird", "fish", "fish", "Fish"],
    "other": ["fish", "fish", "bird", "bird", "meat"],
    "group": ["affirmative", "negated", "affirmative", "negated", "affirmative"],
    "item": [1, 1, 2, 2, 3],
}
OWN["sentence"].append("Fish or meat? I like [MASK].")
PAIRS = {
    "sentence_good": ["Anna is happy.", "He smokes.", "She likes to dance."],
    "sentence_bad": ["Anna are happy.", "He smoke.", "She likes to dances."],
    "linguistics_term": ["agreement", "agreement", "form"],
}
CHOICES = {
    "context": ["Anna likes to", "He is", None],
    "choices": [
        '["smoke.", "dance with her."]',
        '["a dancer.", "an architect.", "happy."]',
        '["He smokes.", "He smoke."]',
    ],
    "answer": ["A", "C", "A"],
    "group": ["verbs", "nouns", "verbs"],
}
ASKED = ("lama", "diagnostics", "gh22", "probe")  # of a masked model, at its mask
EVERY = (*ASKED, "nli", "likelihood", "choice", "cues")
REQUESTED = ("lama", "diagnostics")


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
def nli_data(once):
    """Random pairs: 90 new and 60 original ones of RTE, 60 new ones of SNLI; some are longer than 16 tokens.

    In a triple of new pairs, the first and the last have the same text, the last two the same hypothesis.
    """
    random = np.random.default_rng(0)

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

    def write(folder):
        folder.mkdir()
        for name, (header, n, golds) in files.items():
            (folder / name).write_bytes((header + "".join(rows(n, golds, new=name != "dev.tsv"))).encode("cp1252"))

    return once("pairs of nli", write)


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


def write_data(folder):
    """The small data of all experiments but nli."""
    folder.mkdir()
    facts = []
    for answer, land in FACTS:
        query = f"The capital of {land} is [MASK] ."
        row = {
            "relation": "P17" if land == "England" else "P36",
            "sub_label": land,
            "obj_label": answer,
            "masked_sentence": query,
        }
        row |= {} if land == "Italy" else {"masked_negation": query.replace("is", "is not")}
        facts.append(json.dumps(row | {"misprimed_low": f"Berlin? {query}"}))
    (folder / "TREx.jsonl").write_text("\n".join(facts), "utf-8")
    own = "dog\tqzxqzx\tcar\tH\n2\tIt rained.\tShe\tzyxxqz\tcat\tcar"  # words that are not one token
    write_tables(folder, CPRAG_102=("dog\tcat\tcar", own))
    pl.DataFrame(OWN).write_parquet(folder / "own.parquet")
    pl.DataFrame(PAIRS).write_ndjson(folder / "blimp.jsonl")
    pl.DataFrame(CHOICES).write_ndjson(folder / "choices.jsonl")
    (folder / "text.txt").write_text("I don't know. It rained. Nobody came, not she.\nYou was careless, unsure.\n")


@pytest.fixture(scope="session")
def call(model, classifiers, nli_data, detector, small_lexicon, once):
    """Runs an experiment by its name on its small data, with other options if they are given."""
    folder = once("data of experiments", write_data)
    nli = {"data": nli_data, "source": "RTE", "original": {"RTE": nli_data / "dev.tsv"}, "max_length": 16}
    given = {
        "lama": {"model": model, "data": folder / "TREx.jsonl"},
        "diagnostics": {"model": model, "data": folder, "draws": 2},
        "gh22": {"model": model, "pairs": 3, "ranks": [1, 50], "variant": "original", "lexicon": small_lexicon},
        "probe": {"model": model, "data": folder / "own.parquet", "target": ["target", "other"], "top": 3},
        "nli": {"model": classifiers["two-way"][1].folder, **nli},
        "likelihood": {"model": model, "data": folder / "blimp.jsonl", "group": "linguistics_term", "per_word": True},
        "choice": {"model": model, "data": folder / "choices.jsonl"},
        "cues": {"model": ng.load(detector.folder, task=detector.task), "files": folder / "text.txt"},
    }

    def run(name, output, **options):
        options = {**given[name], "output": output, "progress": False, **options}
        if {"precision", "device"} & {*options} and isinstance(options["model"], ng.Model):
            exported, names = options["model"].exported, [name for name in ("precision", "device") if name in options]
            options["model"] = ng.load(exported.folder, task=exported.task, **{own: options.pop(own) for own in names})
        return getattr(ng, name)(**options)

    return run


@pytest.fixture(scope="session")
def made(call, once):
    """Its finished run, made once."""

    def run(name):
        return ng.open(once(f"run of {name}", lambda folder: call(name, folder / "run")) / "run")

    return cache(run)
