"""A synthetic task that a tiny model learns: whether the hypothesis of a pair holds `not`.

The texts are words in a random order. The task says nothing about language; it shows that a training learns.
"""

import random

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
