"""`ng.cues`: the share of sentences with a negation cue as a library function, and its results."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Unpack

import polars as pl

from ...choices import Task
from ...errors import InputError
from ...library.again import Draw, Sample
from ...library.call import recorded
from ...library.model import ModelLike, open_model
from ...library.options import RunOptions
from ...library.recount import Recount
from ...library.run import Run, ShardRun
from ...views import Table
from ..items import ALL, SEPARATOR
from ..summary_run import SummaryRun, run_probe
from .recount import recounts
from .sentence_rows import sentence_rows
from .stage import CueStage
from .summary import MODEL, SHARE, WORDS
from .tables import cue_table, paper_shares, share_table
from .texts import TextFile


@dataclass(frozen=True, eq=False)
class CuesRun(SummaryRun):
    """The cues of texts.

    Attributes:
        items: The content of items.parquet; see `summary`.
    """

    stage: ClassVar[str] = CueStage.name
    clusters: ClassVar[str] = "texts"

    def tables(self) -> list[Table]:
        """Shares as in the paper's Table 1, and the most frequent cues."""
        return [share_table(self.summary, self.model_name), cue_table(self.counts(), self.model_name)]

    def main_tables(self) -> list[Table]:
        """The shares."""
        return self.tables()[:1]

    def remarks(self) -> list[str]:
        """The paper's shares of other texts."""
        return [paper_shares()]

    def counts(self) -> dict[str, Counter[str]]:
        """Detector → how often it found each cue."""
        found = (
            self.items.lazy()
            .select("condition", pl.col("cues").str.split(SEPARATOR))
            .explode("cues")
            .group_by("condition", "cues")
            .len()
            .collect()
        )
        counted: dict[str, Counter[str]] = {WORDS: Counter(), MODEL: Counter()}
        for detector, cue, n in found.iter_rows():
            counted[detector][cue] = n
        return counted

    def methods(self, test: str) -> str:
        """See `Run`."""
        shares = {
            detector: ", ".join(
                f"{row['dataset']} {100 * row['value']:.2f} %"
                for row in self.summary.filter(
                    (pl.col("condition") == detector) & (pl.col("split") == ALL) & (pl.col("metric") == SHARE)
                ).to_dicts()
            )
            for detector in (MODEL, WORDS)
        }
        return (
            f"We counted the sentences that contain a negation cue{f' (as in {test})' if test else ''} with the "
            f"detector {self.model_name}: {shares[MODEL]}. By a list of words: {shares[WORDS]}."
        )

    def outcomes(self) -> pl.DataFrame:
        """See `Run`: sentences without a cue are not kept."""
        return Run.outcomes(self)

    def sentence_rows(self) -> pl.LazyFrame:
        """The sentences with a cue; see `sentence_rows.sentence_rows`."""
        return sentence_rows(self.items.lazy())

    def again(self, draw: Draw) -> Iterator[Sample]:
        """See `Run`."""
        raise InputError(f"the cues that {draw.exported.name} finds are not decided again")

    def recounts(self) -> Iterator[Recount]:
        """See `Run`."""
        return recounts(self.items, self.summary)


@recorded(files=("files",))
def cues(
    model: ModelLike, files: str | Path | Sequence[str | Path], **options: Unpack[RunOptions]
) -> CuesRun | ShardRun:
    """Count the sentences of texts that contain a negation cue, by a trained detector and by the list of words.

    Args:
        model: From `load`, or the folder or name of a detector that was exported for token-classification.
        files: UTF-8 texts, also `.gz`: one or several. A line break ends a sentence.
        **options: See `RunOptions`.

    Returns:
        The finished run; a `ShardRun` if only a shard was asked for.

    Raises:
        InputError: The model is not a cue detector, a text cannot be read, two texts have one name, the run folder
            belongs to another run, or the disk is full.
    """
    paths = [Path(file) for file in ([files] if isinstance(files, str | Path) else files)]
    if not paths:
        raise InputError("no text is given; give one file or more")
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise InputError(f"{twice}: this text is given twice; give it once")
    opened = open_model(model, task=Task.TOKEN_CLASSIFICATION)
    stage = CueStage.plan(opened.exported, [TextFile.scan(path) for path in paths])
    return run_probe(stage, CuesRun, opened, options)
