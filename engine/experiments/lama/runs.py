"""`ng.lama`: negated and misprimed LAMA as a library function, and its results."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Unpack

import polars as pl

from ...datasets.sources import find
from ...library.again import Draw, Sample
from ...library.call import recorded
from ...library.model import ModelLike, open_model
from ...library.options import RunOptions
from ...library.recount import Recount
from ...library.run import ShardRun
from ...runs.record import mask_token
from ...views import Table
from ..items import ALL, ORIGINAL
from ..summary_run import SummaryRun, run_probe
from ..vocabulary import Ranked, Vocabulary
from .again import correlations, queries, ranked_ids
from .facts import read_facts
from .items import METRICS
from .recount import recounts
from .sentences import sentence_rows
from .stage import NOT_RANKED, SEVERAL, Lama
from .tables import tables

DATA = "negated-lama"


@dataclass(frozen=True, eq=False)
class LamaRun(SummaryRun):
    """A finished run.

    Attributes:
        items: The content of items.parquet: one row for each fact, one for each of its misprimed queries.
        summary: The content of summary.parquet.
    """

    stage: ClassVar[str] = Lama.name
    clusters: ClassVar[str] = "relations"
    metrics: ClassVar[Sequence[str]] = METRICS
    condition_keys: ClassVar[Sequence[str]] = ("data sha256", "vocabulary", "vocabulary sha256", "with P159")
    grouped: ClassVar[Mapping[str, str]] = {"relation": "cluster"}

    def tables(self) -> list[Table]:
        """Negations, precision and examples: Tables 1 and 2 of the paper."""
        return tables(self.summary, self.items, self.model_name)

    def methods(self, test: str) -> str:
        """See `Run`."""
        vocabulary = {"all": "all tokens", "words": "the tokens that are words"}.get(self.ranked, "the words of a list")
        spearman, overlap, precision = (self.told(ORIGINAL, ALL, name) for name in METRICS[:3])
        return (
            f"We queried facts, their negations and misprimed facts ({test}) and ranked {vocabulary}. Mean rank "
            f"correlation between a query and its negation, with 95 % intervals: {spearman}. Share of queries with the "
            f"same first prediction as their negation: {overlap}. Precision at rank 1: {precision}."
        )

    @property
    def ranked(self) -> str:
        """Which tokens were ranked: all, words, or a list."""
        return str(self.record.identity["vocabulary"])

    def remarks(self) -> list[str]:
        """Which facts do not count."""
        counts = self.record.counts
        excluded = {
            **self.record.metadata["excluded"],
            **{why: counts[why] for why in (SEVERAL, NOT_RANKED) if why in counts},
        }
        return [f"facts excluded: {count:,} ({why})" for why, count in excluded.items()]

    def sentence_rows(self) -> pl.LazyFrame:
        """The queries and negations; see `sentences.sentence_rows`."""
        return sentence_rows(self.items.lazy(), mask_token(self.record.metadata, self.folder))

    def again(self, draw: Draw) -> Iterator[Sample]:
        """See `Run`."""
        ranked = ranked_ids(draw, self.record)
        yield Sample("items", list(queries(draw, self.sentence_rows(), ranked)))
        if ranked is not None:
            yield correlations(draw, self.items, ranked)

    def recounts(self) -> Iterator[Recount]:
        """See `Run`."""
        return recounts(self.items, self.summary)


@recorded(files=("data", "vocabulary"), words=tuple(Vocabulary))
def lama(
    model: ModelLike,
    *,
    data: str | Path | Sequence[str | Path] | None = None,
    corpus: str | Sequence[str] = (),
    vocabulary: str = "all",
    with_p159: bool = False,
    **options: Unpack[RunOptions],
) -> LamaRun | ShardRun:
    """Query facts, their negations, and facts after misleading words (Kassner and Schütze 2020).

    Args:
        model: From `load`, or the folder or name of an exported model.
        data: Files or folders with facts, in LAMA's layout or in that of its negated copy; by default the data set
            `negated-lama`.
        corpus: GoogleRE, TREx, ConceptNet or SQuAD, one or several; all by default.
        vocabulary: Which tokens are ranked: `all`, `words`, or a file with one word per line.
        with_p159: Whether relation P159 counts, whose negation is the affirmative sentence.
        **options: See `RunOptions`.

    Returns:
        The finished run; a `ShardRun` if only a shard was asked for.

    Raises:
        InputError: An option or a file is wrong, no fact counts, the run folder belongs to another run, or the disk
            is full.
    """
    opened = open_model(model)
    given = [data] if isinstance(data, str | Path) else data
    paths = [find(DATA, Path(path)) for path in given] if given else [find(DATA)]
    facts = read_facts(paths, [corpus] if isinstance(corpus, str) else corpus)
    stage = Lama.plan(opened.exported, facts, Ranked.of(vocabulary), with_p159=with_p159)
    return run_probe(stage, LamaRun, opened, options)
