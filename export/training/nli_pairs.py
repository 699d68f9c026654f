"""The pairs that a classifier learns from: GLUE's, a seeded sample of them, and a part of the pairs with negation.

GLUE's train.tsv and dev.tsv are in a folder, or on the hub as Parquet with the number of each label. From there they
are fetched once and kept in the layout of GLUE, so that one reader reads them all, and a later training needs no
network.

The pairs with negation are divided: some are learned, the others held out, as a file of the benchmark, so that
`negengine nli` tests on them. Three pairs are made from one original pair (T negated, H negated, both) and share their
sentences, so all three go to the same part. Some original pairs occur twice in the benchmark; the triples of equal
pairs go to the same part, too.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import huggingface_hub
import numpy as np
import polars as pl
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from requests import RequestException

from ...engine.basics.atomic import make_folder, write_bytes
from ...engine.basics.errors import InputError, first_line
from ...engine.basics.reading import file_sha256, is_file
from ...engine.cli.train_commands import NliOptions
from ...engine.experiments.data_sets.sources import cache_folder, find
from ...engine.experiments.nli.nli_pairs import (
    KINDS,
    NO_CONSENSUS,
    SOURCES,
    Label,
    Pair,
    read_benchmark,
    stream_original,
)
from ..quiet import quiet

_TRAIN = "train.tsv"
_DEV = ("dev.tsv", "dev_matched.tsv")  # MNLI has two dev sets; the authors' script took the matched one
_BENCHMARK = "negation-nli"

Example = tuple[str, str, int]
"""A text, a hypothesis, and the number of the label."""


@dataclass(frozen=True)
class Split:
    """Pairs in two parts."""

    train: tuple[Pair, ...]
    held_out: tuple[Pair, ...]
    # How many held-out pairs have a text that a pair to learn from has too, from another original pair: in SNLI one
    # caption has many hypotheses.
    shared_texts: int


def split(pairs: Sequence[Pair], fraction: float, seed: int) -> Split:
    """Divide pairs by their original pairs, at random; the paper learns from 0.7 of the triples (section 6.2).

    Raises:
        InputError: The fraction is not between 0 and 1, or one of the parts would be empty.
    """
    _check_fraction(fraction)
    groups = _groups(pairs)
    wanted = round(fraction * sum(map(len, groups)))
    learned: set[int] = set()
    for number in np.random.default_rng(seed).permutation(len(groups)):
        if len(learned) + len(groups[number]) <= wanted:
            learned |= groups[number]
    parts = [tuple(pair for pair in pairs if (_triple(pair) in learned) == is_learned) for is_learned in (True, False)]
    if not all(parts):
        raise InputError(
            f"--negation {fraction:g}: of {len(pairs):,} pairs, none is left to learn or to test; give another part"
        )
    texts = {pair.text for pair in parts[0]}
    return Split(parts[0], parts[1], sum(pair.text in texts for pair in parts[1]))


def _check_fraction(fraction: float) -> None:
    if not 0 < fraction < 1:
        raise InputError(f"--negation {fraction:g}: give a fraction between 0 and 1, such as the paper's 0.7")


def _triple(pair: Pair) -> int:
    return pair.item // len(KINDS)


def _groups(pairs: Sequence[Pair]) -> list[set[int]]:
    """The triples that stay together, in the order of their first pair; most groups are one triple."""
    of_triple: dict[int, set[int]] = {}
    by_content: dict[tuple[str, str], list[int]] = defaultdict(list)
    for pair in pairs:
        triple = _triple(pair)
        group = of_triple.setdefault(triple, {triple})
        for other in by_content[pair.text, pair.hypothesis]:
            group |= of_triple[other]
        for member in group:
            of_triple[member] = group
        by_content[pair.text, pair.hypothesis].append(triple)
    return list({id(group): group for group in of_triple.values()}.values())


@dataclass(frozen=True, eq=False)
class NliData:
    """The pairs of a training, of RTE, SNLI or MNLI; of those with negation None where none are used."""

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

    Raises:
        InputError: A file is missing or bad, or belongs to another task.
    """
    fraction, limit, seed = options.negation, options.limit, options.seed
    if fraction is not None:
        _check_fraction(fraction)
    there = fetch(source, say) if options.data is None else options.data
    train_file, dev_file = _file(there, (_TRAIN,), source), _file(there, _DEV, source)
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
        pairs = read_benchmark(
            find(_BENCHMARK, options.negation_data, option="--negation-data") / f"{source}.txt", source
        )
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


_NO_LABEL = -1  # a pair whose annotators did not agree
_THREE = (Label.ENTAILMENT, Label.NEUTRAL, Label.CONTRADICTION)


@dataclass(frozen=True)
class _HubSet:
    """A data set on the hub."""

    repository: str
    files: dict[str, str]  # `train` and `dev` → a pattern of the files with that split
    columns: tuple[str, str]
    labels: tuple[Label, ...]  # in the order of their numbers


_SETS = {
    "RTE": _HubSet(
        "nyu-mll/glue",
        {"train": "rte/train-*.parquet", "dev": "rte/validation-*.parquet"},
        ("sentence1", "sentence2"),
        (Label.ENTAILMENT, Label.NOT_ENTAILMENT),
    ),
    "SNLI": _HubSet(
        "stanfordnlp/snli",
        {"train": "plain_text/train-*.parquet", "dev": "plain_text/validation-*.parquet"},
        ("premise", "hypothesis"),
        _THREE,
    ),
    "MNLI": _HubSet(
        "nyu-mll/glue",
        {"train": "mnli/train-*.parquet", "dev": "mnli/validation_matched-*.parquet"},
        ("premise", "hypothesis"),
        _THREE,
    ),
}


def fetch(source: str, say: Callable[[str], None]) -> Path:
    """The folder with train.tsv and dev.tsv of a source; they are fetched if they are not kept yet.

    Raises:
        InputError: The hub cannot be reached, or its data set is not as expected; a file cannot be written.
    """
    folder, wanted = cache_folder() / f"glue-{source.lower()}", _SETS[source]
    missing = [split for split in wanted.files if not is_file(folder / f"{split}.tsv")]
    for split in missing:
        say(f"{source}: fetching {split} from {wanted.repository} on the hub")
        frame = _frame(_download(wanted, split), wanted)
        make_folder(folder)
        write_bytes(folder / f"{split}.tsv", frame.write_csv(separator="\t", quote_style="never").encode())
    return folder


def _download(wanted: _HubSet, split: str) -> list[Path]:
    where = f"{wanted.repository} on the hub"
    try:
        with quiet():
            names = huggingface_hub.HfApi().list_repo_files(wanted.repository, repo_type="dataset")
            own = sorted(name for name in names if fnmatchcase(name, wanted.files[split]))
            if not own:
                raise InputError(f"{where} has no files {wanted.files[split]}; give GLUE's folder with --data")
            return [Path(huggingface_hub.hf_hub_download(wanted.repository, name, repo_type="dataset")) for name in own]
    except LocalEntryNotFoundError:
        raise InputError(f"{where} was not reached; give GLUE's folder with --data") from None
    except (HfHubHTTPError, RequestException, OSError) as error:
        raise InputError(f"{where} did not answer: {first_line(error)}; give GLUE's folder with --data") from None


def _frame(files: Sequence[Path], wanted: _HubSet) -> pl.DataFrame:
    """Index, sentences and label as in GLUE; white space within a sentence is one space, as a tab ends a field."""
    try:
        found = pl.read_parquet(list(files), columns=[*wanted.columns, "label"])
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(
            f"{wanted.repository} on the hub: {files[0].name} is not as expected ({first_line(error)}); give GLUE's "
            "folder with --data"
        ) from None
    numbers = {_NO_LABEL: NO_CONSENSUS, **dict(enumerate(map(str, wanted.labels)))}
    if unknown := sorted(set(found["label"].unique()) - set(numbers)):
        raise InputError(f"{wanted.repository} on the hub: unknown label {unknown[0]}; give GLUE's folder with --data")
    plain = [
        pl.col(column).str.replace_all(r"\s+", " ").str.strip_chars().alias(name)
        for column, name in zip(wanted.columns, ("sentence1", "sentence2"), strict=True)
    ]
    label = pl.col("label").replace_strict(numbers, return_dtype=pl.String).alias("gold_label")
    return (
        found.select(*plain, label)
        .filter((pl.col("sentence1") != "") & (pl.col("sentence2") != ""))
        .with_row_index("index")
    )


HELD_OUT = "held-out"
_HEADER = ("index", "Text", "Hypothesis", "gold_label")


def write_held_out(folder: Path, source: str, pairs: Sequence[Pair]) -> Path:
    """Write pairs in the layout of the benchmark, with their own indices, which say the type of a pair.

    Raises:
        InputError: It cannot be written.
    """
    rows = [_HEADER, *((str(pair.item), pair.text, pair.hypothesis, str(pair.gold)) for pair in pairs)]
    make_folder(folder / HELD_OUT)
    write_bytes(folder / HELD_OUT / f"{source}.txt", "".join("\t".join(row) + "\n" for row in rows).encode())
    return folder / HELD_OUT
