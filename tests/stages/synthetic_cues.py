"""A synthetic task that a tiny model learns: cues of all kinds in sentences of a few words, in the columns of CD-SCO.

The sentences are words in a random order, and a cue is always the same words. The task says nothing about language and
nothing about CD-SCO; it shows that a training learns, and that what it has learned is what the engine finds.
"""

import random
from pathlib import Path

from tiny_checkpoints import word_tokenizer
from tokenizers import normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

PLAIN = ["man", "woman", "dog", "sleeping", "running", "outside", "park", "two", "walk", "eat", ",", "or"]
SINGLE, AFFIXES = ["not", "n't", "never", "nobody"], {"unhappy": "un", "impossible": "im", "carelessly": "less"}
SEVERAL = [("neither", "nor"), ("by", "no", "means")]


def sentence(draw: random.Random) -> list[tuple[str, list[str]]]:
    """Words, and for each cue what its column holds at this word."""
    kind = draw.choice(["none", "none", "single", "affix", "several"])
    words = draw.choices(PLAIN, k=draw.randint(3, 7))
    marks: dict[int, str] = {}
    if kind in {"single", "affix"}:
        place = draw.randrange(len(words))
        words[place] = draw.choice(SINGLE if kind == "single" else list(AFFIXES))
        marks = {place: AFFIXES.get(words[place], words[place])}
    elif kind == "several":
        cue = draw.choice(SEVERAL)
        places = sorted(draw.sample(range(len(words)), len(cue)))
        for place, word in zip(places, cue, strict=True):
            words[place] = word
        marks = dict(zip(places, cue, strict=True))
    return [(word, [marks.get(place, "_")] if marks else []) for place, word in enumerate(words)]


def write_corpus(path: Path, n: int, seed: int = 0) -> Path:
    """A file of so many sentences."""
    draw, lines = random.Random(seed), []
    for number in range(n):
        for place, (word, cues) in enumerate(sentence(draw)):
            about = [field for cue in cues for field in (cue, "_", "_")] or ["***"]
            lines.append("\t".join(["made", str(number), str(place), word, word, "X", "*", *about]))
        lines.append("")
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def tokenizer() -> PreTrainedTokenizerFast:
    """A token for each word of the task."""
    words = [*PLAIN, *SINGLE, *AFFIXES, *(word for cue in SEVERAL for word in cue)]
    steps = {"normalizer": normalizers.Lowercase(), "pre_tokenizer": pre_tokenizers.WhitespaceSplit()}
    return word_tokenizer(dict.fromkeys(words), **steps)
