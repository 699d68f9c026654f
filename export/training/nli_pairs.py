"""The pairs that a classifier learns from: GLUE's, a seeded sample of them, and a part of the pairs with negation.

The three pairs with negation of one original pair share their sentences, so they all are learned, or held out as a file
of the benchmark; so do all triples that share a sentence. Pairs of dev, and held-out pairs, can share a sentence with
pairs of train.tsv: these are counted.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import huggingface_hub
import msgspec
import numpy as np
import polars as pl
from httpx import HTTPError
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from ...engine.basics.atomic import make_folder, sha256, write_bytes
from ...engine.basics.errors import InputError, first_line
from ...engine.basics.frames import scan_frame
from ...engine.basics.reading import file_sha256, is_file
from ...engine.basics.sealed import read_sealed, write_sealed
from ...engine.experiments.data_sets.sources import cache_folder, find
from ...engine.experiments.nli.nli_pairs import (
    KINDS,
    NO_CONSENSUS,
    SOURCES,
    Label,
    Pair,
    read_benchmark,
    stream_original,
    unused_sentence,
)
from ...engine.library.training_options import NliOptions
from ...engine.runs.results import unlike
from ..quiet import quiet

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


@dataclass(frozen=True, eq=False)
class SharedSentences:
    """The sentences that tests share with what is learned, be they a text or a hypothesis; as `plain` gives them."""

    train: frozenset[str]  # with the pairs of the training file
    added: frozenset[str]  # with the added pairs with negation
    counts: Mapping[str, Mapping[str, int]]  # test → its `pairs`, and those that share a sentence with `train`, `added`
    file: str  # the name of the training file

    @classmethod
    def find(
        cls, tests: Mapping[str, Sequence[Example]], train: Iterable[Example], added: Iterable[Example], file: str
    ) -> "SharedSentences":
        tested = {plain(side) for pairs in tests.values() for pair in pairs for side in pair[:2]}
        known = {
            name: frozenset(tested.intersection(plain(side) for pair in learned for side in pair[:2]))
            for name, learned in (("train", train), ("added", added))
        }
        counts = {
            test: {"pairs": len(pairs)}
            | {name: sum(plain(t) in own or plain(h) in own for t, h, _ in pairs) for name, own in known.items()}
            for test, pairs in tests.items()
        }
        return cls(**known, counts=counts, file=file)

    def sentences(self) -> list[str]:
        found = []
        for test, own in self.counts.items():
            told = f"{test}: of {own['pairs']:,} pairs, {own['train']:,} share a sentence with a pair of {self.file}"
            found.append(told + (f", {own['added']:,} with an added pair" if self.added or own["added"] else ""))
        return found


@dataclass(frozen=True, eq=False)
class NliData:
    """The pairs of a training, of RTE, SNLI or MNLI; of those with negation None where none are used."""

    source: str
    original: Sequence[Example] = field(repr=False)
    dev: Sequence[Example] = field(repr=False)
    dev_file: Path
    negation: Split | None
    shared: SharedSentences
    identity: dict[str, Any]
    unused: Sequence[str]  # which rows of train.tsv and dev.tsv do not count, as sentences
    hub: "HubCopy | None" = None  # where train.tsv and dev.tsv come from, if from the hub

    def identity_of(self, *, with_negation: bool) -> dict[str, Any]:
        """What a classifier depends on: without pairs with negation it does not depend on their division."""
        return {key: value for key, value in self.identity.items() if with_negation or not key.startswith("negation")}

    @property
    def labels(self) -> tuple[Label, ...]:  # in the order of the logits
        return SOURCES[self.source]

    def examples(self, *, with_negation: bool) -> list[Example]:
        added = self.negation.train if with_negation and self.negation else ()
        return [*self.original, *(_example(pair, self.labels) for pair in added)]


def read_data(source: str, options: NliOptions, say: Callable[[str], None]) -> NliData:
    """Read the pairs of a training.

    train.tsv and dev.tsv come from the folder `data`, or without one from the hub. Of train.tsv, `limit` pairs are
    drawn at random. With `negation`, that part of the pairs with negation is learned, too; they are in the folder
    `negation_data`, or without one where `data get` put them.

    Raises InputError if a file is missing or bad, or belongs to another task.
    """
    fraction, limit, seed = options.negation, options.limit, options.seed
    if fraction is not None and not 0 < fraction < 1:
        raise InputError(f"--negation {fraction:g}: give a fraction between 0 and 1, such as the paper's 0.7")
    there, hub = fetch(source, say) if options.data is None else (options.data, None)
    train_file, dev_file = _file(there, _TRAIN, source), _file(there, _DEV, source)
    labels = SOURCES[source]
    (original, dev), unused = zip(*(_read(file, source, labels, say) for file in (train_file, dev_file)), strict=True)
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
    shared = SharedSentences.find(tests, original, added, train_file.name)
    for sentence in shared.sentences():
        say(f"{source}, {sentence}")
    return NliData(source, original, dev, dev_file, negation, shared, identity, [*filter(None, unused)], hub)


def _file(folder: Path, names: Sequence[str], source: str) -> Path:
    found = next((path for name in names for path in sorted(folder.glob(name)) if is_file(path)), None)
    if found is None:
        raise InputError(f"{folder}: holds no {' or '.join(names)}; --data is GLUE's folder of {source}")
    return found


def _read(path: Path, source: str, labels: Sequence[Label], say: Callable[[str], None]) -> tuple[list[Example], str]:
    """The examples of a file, and what is said of rows that do not count; empty where all count."""
    unused: Counter[str] = Counter()
    found: list[Example] = []
    for pair in stream_original(path, source):
        if isinstance(pair, Pair):
            found.append(_example(pair, labels))
        else:
            unused[str(pair)] += 1
    if not found:
        raise InputError(f"{path}:2: no row has a gold label; give a file with labels")
    told = f"{path.name}: {unused_sentence(unused)}" if unused else ""
    if told:
        say(f"{source}, {told}")
    return found, told


def _example(pair: Pair, labels: Sequence[Label]) -> Example:
    return pair.text, pair.hypothesis, labels.index(pair.gold)


_NO_LABEL = -1  # a pair whose annotators did not agree


@dataclass(frozen=True)
class _HubSet:
    """A data set on the hub."""

    repository: str
    folder: str
    dev: str  # what its files of the dev set are called
    columns: tuple[str, str]
    labels: tuple[Label, ...] = (Label.ENTAILMENT, Label.NEUTRAL, Label.CONTRADICTION)  # in the order of their numbers

    @property
    def files(self) -> dict[str, str]:
        """`train` and `dev` → a pattern of the files with that split."""
        names = {"train": "train", "dev": self.dev}
        return {split: f"{self.folder}/{name}-*.parquet" for split, name in names.items()}

    @property
    def where(self) -> str:
        return f"{self.repository} on the hub"


_TWO = (Label.ENTAILMENT, Label.NOT_ENTAILMENT)
_SETS = {
    "RTE": _HubSet("nyu-mll/glue", "rte", "validation", ("sentence1", "sentence2"), _TWO),
    "SNLI": _HubSet("stanfordnlp/snli", "plain_text", "validation", ("premise", "hypothesis")),
    "MNLI": _HubSet("nyu-mll/glue", "mnli", "validation_matched", ("premise", "hypothesis")),
}
_COPY, _COPY_FORMAT = "hub.json", 1
_ADVICE = "give GLUE's folder with --data"


class HubCopy(msgspec.Struct):
    """Where the kept files of a data set come from."""

    repository: str
    revision: str  # a commit
    files: dict[str, str]  # name → SHA-256
    format: int = _COPY_FORMAT

    def sentence(self) -> str:
        return f"{self.repository} on the hub, revision {self.revision}"


def fetch(source: str, say: Callable[[str], None]) -> tuple[Path, HubCopy]:
    """The folder with train.tsv and dev.tsv of a source; they are fetched if they are not kept yet, or are damaged.

    Raises InputError if the hub cannot be reached, or its data set is not as expected; a file cannot be written.
    """
    folder, wanted = cache_folder() / f"glue-{source.lower()}", _SETS[source]
    try:
        kept = read_sealed(folder / _COPY, HubCopy, made_as=_COPY_FORMAT, repair="remove it")
    except InputError:
        kept = None
    if kept is None or unlike(folder, kept.files):
        say(f"{source}: fetching train and dev from {wanted.where}")
        revision, found = _download(wanted, kept.revision if kept else "main")
        kept = HubCopy(wanted.repository, revision, {})
        contents = {}
        for split, files in found.items():
            table = _frame(files, wanted).with_row_index("index").write_csv(separator="\t", quote_style="never")
            contents[f"{split}.tsv"] = table.encode()
        make_folder(folder)
        for name, content in contents.items():
            write_bytes(folder / name, content)
            kept.files[name] = sha256(content)
        write_sealed(folder / _COPY, kept)
    say(f"{source}: {kept.sentence()}")
    return folder, kept


def _download(wanted: _HubSet, revision: str) -> tuple[str, dict[str, list[Path]]]:
    """The commit of a revision, and for `train` and `dev` the files of that commit."""
    given = {"repo_type": "dataset", "revision": revision, "allow_patterns": [*wanted.files.values()]}
    try:
        with quiet():
            folder = Path(huggingface_hub.snapshot_download(wanted.repository, **given))  # named as the commit
    except LocalEntryNotFoundError:
        raise InputError(f"{wanted.where} was not reached; {_ADVICE}") from None
    except (HfHubHTTPError, HTTPError, OSError) as error:
        raise InputError(f"{wanted.where} did not answer: {first_line(error)}; {_ADVICE}") from None
    found = {split: sorted(folder.glob(like)) for split, like in wanted.files.items()}
    if absent := next((split for split, files in found.items() if not files), None):
        raise InputError(f"{wanted.where} has no files {wanted.files[absent]}; {_ADVICE}")
    return folder.name, found


def _frame(files: Sequence[Path], wanted: _HubSet) -> pl.DataFrame:
    """Sentences and label as in GLUE; white space within a sentence is one space, as a tab ends a field."""
    try:
        found = pl.concat([scan_frame(file).select(*wanted.columns, "label") for file in files]).collect()
    except (pl.exceptions.PolarsError, OSError) as error:
        told = f"{files[0].name} is not as expected ({first_line(error)})"
        raise InputError(f"{wanted.where}: {told}; {_ADVICE}") from None
    numbers = {_NO_LABEL: NO_CONSENSUS, **dict(enumerate(map(str, wanted.labels)))}
    if unknown := sorted(set(found["label"].unique()) - set(numbers)):
        raise InputError(f"{wanted.where}: unknown label {unknown[0]}; {_ADVICE}")
    sentences = [
        pl.col(column).fill_null("").str.replace_all(r"\s+", " ").str.strip_chars().alias(name)
        for column, name in zip(wanted.columns, ("sentence1", "sentence2"), strict=True)
    ]
    label = pl.col("label").replace_strict(numbers, return_dtype=pl.String).alias("gold_label")
    return found.select(*sentences, label)


HELD_OUT = "held-out"
_HEADER = ("index", "Text", "Hypothesis", "gold_label")


def write_held_out(folder: Path, source: str, pairs: Sequence[Pair]) -> Path:
    """Write pairs in the layout of the benchmark, with their own indices, which say the type of a pair."""
    rows = [_HEADER, *((str(pair.item), pair.text, pair.hypothesis, str(pair.gold)) for pair in pairs)]
    make_folder(folder / HELD_OUT)
    write_bytes(folder / HELD_OUT / f"{source}.txt", "".join("\t".join(row) + "\n" for row in rows).encode())
    return folder / HELD_OUT
