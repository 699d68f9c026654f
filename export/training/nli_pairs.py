"""The pairs that a classifier learns from: GLUE's, a seeded sample of them, and a part of the pairs with negation.

The three pairs with negation of one original pair share their sentences, so they all are learned, or held out as a file
of the benchmark; so do all triples that share a sentence. Pairs of dev, and held-out pairs, can share a sentence with
pairs of train.tsv: these are counted.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...engine.basics.atomic import make_folder, write_bytes
from ...engine.basics.errors import InputError
from ...engine.basics.reading import is_file
from ...engine.experiments.data_sets.sources import find
from ...engine.experiments.nli.nli_pairs import (
    KINDS,
    SOURCES,
    Label,
    Pair,
    read_benchmark,
    read_original,
    unused_sentence,
)
from ...engine.library.training_options import NliOptions

# Of GLUE, and of the authors of SNLI and MNLI. MNLI has two dev sets; the script of the paper took the matched one.
_TRAIN = ("train.tsv", "*train.jsonl")
_DEV = ("dev.tsv", "dev_matched.tsv", "*dev_matched.jsonl", "*dev.jsonl", "*valid*.jsonl")
_BENCHMARK = "negation-nli"

Example = tuple[str, str, int]  # a text, a hypothesis, and the number of the label


@dataclass(frozen=True)
class Split:
    """Pairs in two parts."""

    train: tuple[Pair, ...]
    held_out: tuple[Pair, ...]


def split(pairs: Sequence[Pair], fraction: float, seed: int) -> Split:
    """Divide pairs at random; the paper learns from 0.7 of the triples (section 6.2). No sentence is in both parts.

    Raises InputError if one of the parts would be empty.
    """
    groups = _groups(pairs)
    wanted = round(fraction * sum(map(len, groups)))
    learned: set[int] = set()
    for number in np.random.default_rng(seed).permutation(len(groups)):
        if len(learned) + len(groups[number]) <= wanted:
            learned |= groups[number]
    parts = [
        tuple(pair for pair in pairs if (pair.item // len(KINDS) in learned) == is_learned)
        for is_learned in (True, False)
    ]
    if not all(parts):
        told = f"of {len(pairs):,} pairs, none is left to learn or to test; give another part"
        raise InputError(f"--negation {fraction:g}: {told}")
    return Split(parts[0], parts[1])


def _groups(pairs: Sequence[Pair]) -> list[set[int]]:
    """The triples that stay together, in the order of their first pair."""
    of_triple: dict[int, set[int]] = {}
    by_sentence: dict[str, int] = {}  # a triple with it
    for pair in pairs:
        triple = pair.item // len(KINDS)
        of_triple.setdefault(triple, {triple})
        for sentence in (plain(pair.text), plain(pair.hypothesis)):
            both = of_triple[triple], of_triple[by_sentence.setdefault(sentence, triple)]
            small, large = sorted(both, key=len)
            if small is not large:  # the smaller one moves, so many triples with one sentence take no quadratic time
                large |= small
                of_triple |= dict.fromkeys(small, large)
    return list({id(group): group for group in of_triple.values()}.values())


def plain(sentence: str) -> str:
    """A sentence as it is compared with others: white space and case do not count."""
    return " ".join(sentence.split()).casefold()


Counts = Mapping[str, Mapping[str, int]]


def shared_sentences(
    tests: Mapping[str, Sequence[Example]], train: Iterable[Example], added: Iterable[Example]
) -> Counts:
    """Test → its `pairs`, and those of them that share a sentence with pairs of `train`, and with `added` ones.

    A sentence is a text or a hypothesis, as `plain` gives it.
    """
    tested = {plain(side) for pairs in tests.values() for pair in pairs for side in pair[:2]}
    known = {
        name: tested.intersection(plain(side) for pair in learned for side in pair[:2])
        for name, learned in (("train", train), ("added", added))
    }
    return {
        test: {"pairs": len(pairs)}
        | {name: sum(plain(t) in own or plain(h) in own for t, h, _ in pairs) for name, own in known.items()}
        for test, pairs in tests.items()
    }


def _said_of(shared: Counts, file: str, *, adds: bool) -> list[str]:
    return [
        f"{test}: of {own['pairs']:,} pairs, {own['train']:,} share a sentence with a pair of {file}"
        + (f", {own['added']:,} with an added pair" if adds else "")
        for test, own in shared.items()
    ]


@dataclass(frozen=True, eq=False)
class NliData:
    """The pairs of a training, of RTE, SNLI or MNLI; of those with negation None where none are used."""

    source: str
    original: Sequence[Example] = field(repr=False)
    dev: Sequence[Example] = field(repr=False)
    dev_file: Path
    negation: Split | None
    shared: Counts
    identity: dict[str, Any]
    notes: Sequence[str]  # which rows do not count, and which tests share sentences with what is learned

    @property
    def labels(self) -> tuple[Label, ...]:  # in the order of the logits
        return SOURCES[self.source]

    def examples(self) -> list[Example]:
        added = self.negation.train if self.negation else ()
        return [*self.original, *(_example(pair, self.labels) for pair in added)]


def read_data(source: str, options: NliOptions, say: Callable[[str], None]) -> NliData:
    """Read the pairs of a training.

    train.tsv and dev.tsv are in the folder `data`. Of train.tsv, `limit` pairs are drawn at random. With `negation`,
    that part of the pairs with negation is learned, too; they are in the folder `negation_data`, or without one where
    `data get` put them.

    Raises InputError if a file is missing or bad, or belongs to another task.
    """
    fraction, limit, seed = options.negation, options.limit, options.seed
    if fraction is not None and not 0 < fraction < 1:
        raise InputError(f"--negation {fraction:g}: give a fraction between 0 and 1, such as the paper's 0.7")
    train_file, dev_file = (_file(options.data, names, source) for names in (_TRAIN, _DEV))
    labels = SOURCES[source]
    read = {file.name: read_original(file, source) for file in (train_file, dev_file)}
    original, dev = ([_example(pair, labels) for pair in own.pairs] for own in read.values())
    unused = [f"{name}: {unused_sentence(own.unused)}" for name, own in read.items() if own.unused]
    identity: dict[str, Any] = {"task": source}
    identity |= {f"{part} sha256": own.sha256 for part, own in zip(("train", "dev"), read.values(), strict=True)}
    identity |= {"limit": limit, "data seed": seed}
    if limit is not None and limit < len(original):
        drawn = np.random.default_rng(seed).choice(len(original), limit, replace=False)
        original = [original[number] for number in np.sort(drawn)]
    say(f"{source}: {len(original):,} pairs to learn from, {len(dev):,} in {dev_file.name}")
    negation, tests, added = None, {"dev": dev}, list[Example]()
    if fraction is not None or options.evaluate:
        folder = find(_BENCHMARK, options.negation_data, option="--negation-data")
        pairs = read_benchmark(folder / f"{source}.txt", source)
        tests["new"] = [_example(pair, labels) for pair in pairs.pairs]
    if fraction is not None:
        negation = split(pairs.pairs, fraction, seed)
        identity |= {"negation": fraction, "negation sha256": pairs.sha256}
        learned, held_out = len(negation.train), len(negation.held_out)
        say(f"{source}: {learned:,} pairs with negation to learn from, {held_out:,} held out")
        added = [_example(pair, labels) for pair in negation.train]
        tests = {"dev": dev, "held out": [_example(pair, labels) for pair in negation.held_out]}
    shared = shared_sentences(tests, original, added)
    notes = [*unused, *_said_of(shared, train_file.name, adds=bool(added))]
    for note in notes:
        say(f"{source}, {note}")
    return NliData(source, original, dev, dev_file, negation, shared, identity, notes)


def _file(folder: Path, names: Sequence[str], source: str) -> Path:
    found = next((path for name in names for path in sorted(folder.glob(name)) if is_file(path)), None)
    if found is None:
        raise InputError(f"{folder}: holds no {' or '.join(names)}; --data is GLUE's folder of {source}")
    return found


def _example(pair: Pair, labels: Sequence[Label]) -> Example:
    return pair.text, pair.hypothesis, labels.index(pair.gold)


HELD_OUT = "held-out"
_HEADER = ("index", "Text", "Hypothesis", "gold_label")


def write_held_out(folder: Path, source: str, pairs: Sequence[Pair]) -> Path:
    """Write pairs in the layout of the benchmark, with their own indices, which say the type of a pair."""
    rows = [_HEADER, *((str(pair.item), pair.text, pair.hypothesis, str(pair.gold)) for pair in pairs)]
    make_folder(folder / HELD_OUT)
    write_bytes(folder / HELD_OUT / f"{source}.txt", "".join("\t".join(row) + "\n" for row in rows).encode())
    return folder / HELD_OUT
