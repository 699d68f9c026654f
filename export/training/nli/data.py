"""The pairs to learn from: GLUE's train.tsv and dev.tsv, a seeded sample of them, and pairs with negation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ....engine.datasets.sources import find
from ....engine.errors import InputError
from ....engine.experiments.nli.labels import SOURCES, Label
from ....engine.experiments.nli.pairs import Pair, read_benchmark, stream_original
from ....engine.files.reading import file_sha256, is_file
from .hub import fetch
from .split import Split, check_fraction, split

TRAIN = "train.tsv"
DEV = ("dev.tsv", "dev_matched.tsv")  # MNLI has two dev sets; the authors' script took the matched one
BENCHMARK = "negation-nli"

Example = tuple[str, str, int]
"""A text, a hypothesis, and the number of the label."""


@dataclass(frozen=True, eq=False)
class NliData:
    """The pairs of a training.

    Attributes:
        source: RTE, SNLI or MNLI.
        original: The pairs of train.tsv that are learned.
        dev: The pairs of dev.tsv.
        dev_file: Where they stand.
        negation: The pairs with negation, divided; None where none are used.
        identity: Digests of the files, and how pairs were drawn from them.
    """

    source: str
    original: Sequence[Example] = field(repr=False)
    dev: Sequence[Example] = field(repr=False)
    dev_file: Path
    negation: Split | None
    identity: dict[str, Any]

    def identity_of(self, *, with_negation: bool) -> dict[str, Any]:
        """What a classifier depends on: without pairs with negation it does not depend on their division."""
        return {key: value for key, value in self.identity.items() if with_negation or not key.startswith("negation")}

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels in the order of the logits."""
        return SOURCES[self.source]

    def examples(self, *, with_negation: bool) -> list[Example]:
        """The pairs to learn from."""
        added = self.negation.train if with_negation and self.negation else ()
        return [*self.original, *(_example(pair, self.labels) for pair in added)]


def read_data(
    source: str,
    folder: Path | None,
    *,
    fraction: float | None,
    benchmark: Path | None,
    limit: int | None,
    seed: int,
    say: Callable[[str], None],
) -> NliData:
    """Read the pairs of a training.

    Args:
        source: RTE, SNLI or MNLI.
        folder: Holds train.tsv and dev.tsv; None to take them from the hub.
        fraction: The part of the pairs with negation to learn from; None for none.
        benchmark: The folder of the pairs with negation; None for where `data get` put them.
        limit: Learn from so many pairs of train.tsv, drawn at random; None for all.
        seed: For the sample and the division.
        say: Gets what is read, one line each.

    Raises:
        InputError: A file is missing or bad, or belongs to another task.
    """
    if fraction is not None:
        check_fraction(fraction)
    there = fetch(source, say) if folder is None else folder
    train_file, dev_file = _file(there, (TRAIN,), source), _file(there, DEV, source)
    labels = SOURCES[source]
    original = _read(train_file, source, labels)
    dev = _read(dev_file, source, labels)
    identity: dict[str, Any] = {
        "task": source,
        "train sha256": file_sha256(train_file),
        "dev sha256": file_sha256(dev_file),
        "limit": limit,
        "data seed": seed,
    }
    if limit is not None and limit < len(original):
        drawn = np.random.default_rng(seed).choice(len(original), limit, replace=False)
        original = [original[number] for number in np.sort(drawn)]
    say(f"{source}: {len(original):,} pairs to learn from, {len(dev):,} in {dev_file.name}")
    negation = None
    if fraction is not None:
        pairs = read_benchmark(find(BENCHMARK, benchmark, option="--negation-data") / f"{source}.txt", source)
        negation = split(pairs.pairs, fraction, seed)
        identity |= {"negation": fraction, "negation sha256": pairs.sha256}
        shared = f" ({negation.shared_texts:,} with a text that is learned, too)" if negation.shared_texts else ""
        learned, held_out = len(negation.train), len(negation.held_out)
        say(f"{source}: {learned:,} pairs with negation to learn from, {held_out:,} held out{shared}")
    return NliData(source, original, dev, dev_file, negation, identity)


def _file(folder: Path, names: Sequence[str], source: str) -> Path:
    found = next((folder / name for name in names if is_file(folder / name)), None)
    if found is None:
        raise InputError(f"{folder}: holds no {' or '.join(names)}; --data is GLUE's folder of {source}")
    return found


def _read(path: Path, source: str, labels: Sequence[Label]) -> list[Example]:
    found = [_example(pair, labels) for pair in stream_original(path, source) if pair is not None]
    if not found:
        raise InputError(f"{path}:2: no row has a gold label; give a file with labels")
    return found


def _example(pair: Pair, labels: Sequence[Label]) -> Example:
    return pair.text, pair.hypothesis, labels.index(pair.gold)
