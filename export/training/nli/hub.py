"""GLUE's pairs from the hub: fetched once, and kept as train.tsv and dev.tsv beside the other data sets.

The hub has the splits as Parquet, with the number of each label. The kept files have the layout of GLUE, so that one
reader reads them all, and a later training needs no network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import huggingface_hub
import polars as pl
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from requests import RequestException

from ....engine.datasets.sources import cache_folder
from ....engine.errors import InputError, first_line
from ....engine.experiments.nli.labels import Label
from ....engine.experiments.nli.pairs import NO_CONSENSUS
from ....engine.files.atomic import make_folder, write_bytes
from ....engine.files.reading import is_file
from ...quiet import quiet

_NO_LABEL = -1  # a pair whose annotators did not agree
_THREE = (Label.ENTAILMENT, Label.NEUTRAL, Label.CONTRADICTION)


@dataclass(frozen=True)
class HubSet:
    """A data set on the hub.

    Attributes:
        repository: Its name.
        files: `train` and `dev` → a pattern of the files with that split.
        columns: Text and hypothesis.
        labels: The labels in the order of their numbers.
    """

    repository: str
    files: dict[str, str]
    columns: tuple[str, str]
    labels: tuple[Label, ...]


SETS = {
    "RTE": HubSet(
        "nyu-mll/glue",
        {"train": "rte/train-*.parquet", "dev": "rte/validation-*.parquet"},
        ("sentence1", "sentence2"),
        (Label.ENTAILMENT, Label.NOT_ENTAILMENT),
    ),
    "SNLI": HubSet(
        "stanfordnlp/snli",
        {"train": "plain_text/train-*.parquet", "dev": "plain_text/validation-*.parquet"},
        ("premise", "hypothesis"),
        _THREE,
    ),
    "MNLI": HubSet(
        "nyu-mll/glue",
        {"train": "mnli/train-*.parquet", "dev": "mnli/validation_matched-*.parquet"},
        ("premise", "hypothesis"),
        _THREE,
    ),
}


def fetch(source: str, say: Callable[[str], None]) -> Path:
    """The folder with train.tsv and dev.tsv of a source; they are fetched if they are not kept yet.

    Args:
        source: RTE, SNLI or MNLI.
        say: Gets a line for each step.

    Raises:
        InputError: The hub cannot be reached, or its data set is not as expected; a file cannot be written.
    """
    folder, wanted = cache_folder() / f"glue-{source.lower()}", SETS[source]
    missing = [split for split in wanted.files if not is_file(folder / f"{split}.tsv")]
    for split in missing:
        say(f"{source}: fetching {split} from {wanted.repository} on the hub")
        frame = _frame(_download(wanted, split), wanted)
        make_folder(folder)
        write_bytes(folder / f"{split}.tsv", frame.write_csv(separator="\t", quote_style="never").encode())
    return folder


def _download(wanted: HubSet, split: str) -> list[Path]:
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


def _frame(files: Sequence[Path], wanted: HubSet) -> pl.DataFrame:
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
