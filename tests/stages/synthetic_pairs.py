"""A synthetic task that a tiny model learns: whether the hypothesis of a pair holds `not`.

The texts are words in a random order. The task says nothing about language; it shows that a training learns.

A second one has files in the layouts of GLUE and of the benchmark with negation. A pair is an entailment if its
hypothesis holds `dog`; but a hypothesis with `not` is never entailed. The original pairs hold no `not` (except every
tenth, in the text, where it changes nothing), so only the pairs with negation teach the second rule.
"""

import random
from pathlib import Path

WORDS = ["man", "woman", "dog", "sleeping", "running", "outside", "park", "two", "walk", "eat"]


def pairs(n: int, seed: int = 0) -> list[tuple[str, str, int]]:
    """Text, hypothesis, and 0 where the hypothesis holds a negation, else 1."""
    draw = random.Random(seed)
    found = []
    for _ in range(n):
        negated = draw.random() < 0.5
        hypothesis = [*draw.sample(WORDS, 3), *(["not"] if negated else [])]
        draw.shuffle(hypothesis)
        found.append((" ".join(draw.sample(WORDS, 4)), " ".join(hypothesis), 0 if negated else 1))
    return found


def accuracy(logits, labels) -> dict[str, float]:
    """The score of a job of this task."""
    return {"accuracy": float((logits.argmax(-1) == labels).mean())}


RTE, MNLI = ("entailment", "not_entailment"), ("entailment", "neutral")


def _pair(draw: random.Random) -> tuple[str, str]:
    others = [word for word in WORDS if word != "dog"]
    hypothesis = draw.sample(others, 2) + (["dog"] if draw.random() < 0.5 else draw.sample(others, 1))
    draw.shuffle(hypothesis)
    return " ".join(draw.sample(others, 4)), " ".join(hypothesis)


def _label(hypothesis: str) -> str:
    words = hypothesis.split()
    return "entailment" if "dog" in words and "not" not in words else "not_entailment"


def write_glue(folder: Path, *, train: int = 160, dev: int = 60, seed: int = 0) -> Path:
    """train.tsv and dev.tsv in the layout of RTE."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    for name, n in (("train", train), ("dev", dev)):
        rows = ["index\tsentence1\tsentence2\tlabel"]
        for i in range(n):
            text, hypothesis = _pair(draw)
            text += " not" if i % 10 == 0 else ""
            rows.append(f"{i}\t{text}\t{hypothesis}\t{_label(hypothesis)}")
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    return folder


def write_negation(folder: Path, *, triples: int = 60, seed: int = 1) -> Path:
    """RTE.txt in the layout of the benchmark: three pairs of each original pair."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    rows = ["index\tText\tHypothesis\tgold_label"]
    for _ in range(triples):
        text, hypothesis = _pair(draw)
        negated = f"not {hypothesis}"
        for one, other in ((f"{text} not", hypothesis), (text, negated), (f"{text} not", negated)):
            rows.append(f"{len(rows) - 1}\t{one}\t{other}\t{_label(other)}")
    (folder / "RTE.txt").write_text("\r\n".join(rows) + "\r\n", "cp1252")
    return folder
