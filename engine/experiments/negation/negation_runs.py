"""What `ng.select` and `ng.score` return: the results of the Self-Contained Negation Test."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from ...basics.choices import Precision
from ...basics.errors import InputError
from ...basics.frames import scan_frame, slices
from ...basics.numerals import percent
from ...inference.again import Draw, Sample
from ...inference.audit import audit_summary
from ...library.run import BY, Contrast, Run
from ...runs.record import Recorded, mask_token
from ...runs.results import read_document
from ...text.pattern import PRONOUN, PatternSet, column
from ...views import Table
from .grid import PAIR_NAME, SEVERAL
from .negation_tables import Published, contrast, published, rates_table, selection_table
from .rates import PAIR, RATES_FILE, SCORES_FILE
from .reading import reading, scores_methods, selection_methods
from .select import SELECTION_FILE, TOKENS, TRIPLETS_FILE, Selection
from .triplet_sentences import (
    scored_sentences,
    selected_sentences,
    triplets_again,
    unselected_again,
)

DATASET = "SCNT"
SAME_TEXT = "{}: other token with the verb's text"
"""Name of the count, by pattern, of top-1 tokens that read like the verb: "smoke" where "Ġsmoke" is expected."""


@dataclass(frozen=True, eq=False)
class SelectionRun(Run):
    """A finished selection.

    Attributes:
        triplets: The content of triplets.parquet: triplet, name, gender, pronoun, profession, verb.
        summary: The content of selection.json.
    """

    stage: ClassVar[str] = Selection.name
    next_command: ClassVar[str] = "negengine score"
    may_differ: ClassVar[Sequence[str]] = ("coreference",)

    @cached_property
    def triplets(self) -> pl.DataFrame:
        return self.frame(TRIPLETS_FILE)

    @cached_property
    def summary(self) -> dict[str, Any]:
        return Recorded(read_document(self.folder, self.record, SELECTION_FILE))

    @cached_property
    def patterns(self) -> PatternSet:
        return PatternSet.from_json(self.record.metadata["pattern set"])

    def tables(self) -> list[Table]:
        return [selection_table(self.shown, self.paper)]

    @property
    def shown(self) -> dict[str, Any]:
        """The summary, with the kind of the verbs behind the model's name."""
        return {**self.summary, "model": self.summary["model"] + ", verbs of several tokens" * self.has_several}

    @property
    def has_several(self) -> bool:
        """Whether its verbs are of several tokens."""
        return bool(self.record.metadata["verb convention"] == SEVERAL)

    @property
    def paper(self) -> Published:
        """What the paper prints, of verbs of one token."""
        return {} if self.has_several else published(self.summary["model"], self.patterns)

    @property
    def used(self) -> Collection[str]:
        return (str(SEVERAL),) if self.has_several else ()

    def methods(self, test: str) -> str:
        return selection_methods(self.summary, self.record.identity, test)

    def remarks(self) -> list[str]:
        return [self.dead_end] if self.dead_end else []

    def closing(self) -> str:
        """The result files, and the next command if there is something to score."""
        return "" if self.dead_end else super().closing()

    @property
    def dead_end(self) -> str:
        if self.summary["selected"]:
            return ""
        return f"{self.folder}: the model does not repeat any verb, so there is nothing to score"

    def document(self) -> dict[str, Any]:
        return {"run": str(self.folder), **self.summary}

    def sentence_rows(self) -> pl.LazyFrame:
        metadata = self.record.metadata
        mask = mask_token(metadata, self.folder)
        return selected_sentences(self.triplets.lazy(), self.patterns, metadata["coreference"], mask)

    def outcomes(self, by: str | None = None) -> pl.DataFrame:  # noqa: ARG002 - there are none
        raise InputError(f"{self.folder} is selected, not scored: run `negengine score {self.folder}` first")

    def contrast(self, runs: Sequence[Any]) -> Contrast | None:  # noqa: ARG002 - nothing can be compared
        self.outcomes()
        return None

    def again(self, draw: Draw) -> Iterator[Sample]:
        is_exact = not self.record.counts.get("decided")
        kind = str(Precision.FP32 if is_exact else Precision.MIXED)
        no_answer = pl.lit(None, pl.String)  # a selection records nothing but the decision
        yield from triplets_again(
            draw, self.sentence_rows().with_columns(precision=pl.lit(kind), answer=no_answer), self.patterns
        )
        if not self.has_several:
            yield unselected_again(draw, self.record, self.triplets, is_exact=is_exact)


def read_selected(folder: Path) -> SelectionRun:
    """A finished selection that can be scored; an `InputError` if it is not finished, damaged or empty."""
    found = SelectionRun.open(folder)
    if found.dead_end:
        raise InputError(found.dead_end)
    return found


@dataclass(frozen=True, eq=False)
class ScoresRun(Run):
    """A finished scoring.

    Attributes:
        items: The content of scores.parquet: triplet, pattern, top1, repeated, expected_rank, expected_logprob,
            top1_logprob (natural logarithms), precision (fp32, int8 or fp16: which graph gave the row's numbers;
            `repeated` is exact in each); of verbs of several tokens see `answers.answer_columns`.
        rates: See `negengine.engine.experiments.negation.rates.rates`.
        selection: The selection that was scored, with its triplets.
    """

    stage: ClassVar[str] = "score"
    clusters: ClassVar[str] = "name–profession pairs"
    may_differ: ClassVar[Sequence[str]] = ("coreference",)
    short_names: ClassVar[Sequence[str]] = ("condition", "pattern", "first", "second", "forbidden", "control")
    drop_of: ClassVar[tuple[str, str] | None] = (DATASET, "repetition_rate")
    sentence_keys: ClassVar[Sequence[str]] = ("condition", *PAIR, "verb")

    @cached_property
    def items(self) -> pl.DataFrame:
        return self.frame(SCORES_FILE)

    @cached_property
    def rates(self) -> pl.DataFrame:
        return self.frame(RATES_FILE)

    @cached_property
    def selection(self) -> SelectionRun:
        return read_selected(self.folder)

    @property
    def triplets(self) -> pl.DataFrame:
        return self.selection.triplets

    @property
    def coreference(self) -> str:
        """What the target sentence is about: a value of `Coreference`."""
        return str(self.selection.summary["coreference"])

    @property
    def used(self) -> Collection[str]:
        return self.selection.used

    def methods(self, test: str) -> str:
        return f"{self.selection.methods(test)} {scores_methods(self.rates, self.selection.patterns)}"

    def tables(self) -> list[Table]:
        summary, paper, audit = self.selection.shown, self.selection.paper, audit_summary(self.record.counts)
        rates = rates_table(self.rates, self.selection.patterns, summary, paper, audit)
        return [selection_table(summary, paper), rates]

    def main_tables(self) -> list[Table]:
        """Without the one that `select` has shown."""
        return self.tables()[1:]

    def remarks(self) -> list[str]:
        """Whether the model passes the test, and what another way of counting would change."""
        return [self.reading, *([self.same_text] if self.same_text else [])]

    @property
    def reading(self) -> str:
        """What the rates mean, in one sentence."""
        pronouns, selection = self.triplets[column(PRONOUN)].unique().to_list(), self.selection
        return reading(self.rates, selection.patterns, self.coreference, pronouns, has_several=selection.has_several)

    @property
    def same_text(self) -> str:
        """The share of top-1 tokens that have the verb's text but are other tokens; empty if there are none.

        A token without the leading space is another token ("smoke" for "Ġsmoke" of RoBERTa). The authors' code compares
        texts, so it counts such a token as a repetition. With mixed precision, the first choice of the low-precision
        model counts where that decided alone.
        """
        counts = self.record.counts
        shares = [
            f"{pattern} {percent(count / n)} %"
            for pattern, n in self.rates.select("pattern", "n").iter_rows()
            if (count := counts.get(SAME_TEXT.format(pattern), 0))
        ]
        if not shares:
            return ""
        of_low = " (where the low-precision model decided, its first choice)" if counts.get("decided") else ""
        return (
            f"The first choice{of_low} reads like the verb but is another token, and is not counted: "
            f"{', '.join(shares)}."
        )

    def document(self) -> dict[str, Any]:
        return {"run": str(self.folder), "rates": self.rates.to_dicts(), "reading": self.reading}

    def sentence_rows(self) -> pl.LazyFrame:
        return pl.concat(self._sentences([scan_frame(self.folder / SCORES_FILE)]))

    def sentence_pieces(self) -> Iterable[pl.LazyFrame]:
        return self._sentences([*slices(scan_frame(self.folder / SCORES_FILE))])

    def _sentences(self, scores: Sequence[pl.LazyFrame]) -> Iterator[pl.LazyFrame]:
        mask = mask_token(self.selection.record.metadata, self.folder)
        triplets = scan_frame(self.folder / TRIPLETS_FILE)
        return scored_sentences(scores, triplets, self.selection.patterns, self.coreference, mask)

    @property
    def conditions(self) -> dict[str, Any]:
        """Triplets are joined by their words, so only the patterns must be the same; and what a repetition is."""
        kind = {str(SEVERAL): self.selection.has_several}
        return {"patterns sha256": self.record.identity["patterns sha256"], "coreference": self.coreference, **kind}

    @property
    def groupings(self) -> Sequence[str]:
        return ("name", "gender", "profession", "verb", *([TOKENS] if self.selection.has_several else []))

    def outcomes(self, by: str | None = None) -> pl.DataFrame:
        """One row for each triplet and pattern: whether the verb is repeated. Clusters are pairs, and verbs."""
        return self.items.join(self.triplets, on="triplet", validate="m:1").select(
            dataset=pl.lit(DATASET),
            condition=pl.lit(self.coreference),
            split="pattern",
            metric=pl.lit("repetition_rate"),
            item=pl.struct(*PAIR, "verb").struct.json_encode(),
            value=pl.col("repeated").cast(pl.Float64),
            cluster=pl.struct(*PAIR).struct.json_encode(),
            crossed=pl.lit(None, pl.String) if by == "verb" else pl.col("verb"),  # of one verb, pairs alone differ
            **({} if by is None else {BY: pl.col(by).cast(pl.String)}),
        )

    @property
    def by_construction(self) -> Sequence[str]:
        """The selecting pattern: its rate is 100 %, as the triplets were selected with it."""
        return (self.selection.patterns.selecting.name,)

    def contrast(self, runs: Sequence[Any]) -> Contrast | None:
        return contrast(runs)

    def tidy_rows(self) -> pl.LazyFrame:
        """As of `Run`, with `pattern` in place of `condition`, and `pair`: name and profession."""
        tidy = super().tidy_rows().rename({"condition": "pattern"})
        first = ["pattern", "role", "name", "gender", "profession", "verb", "pair", "repeated"]
        return tidy.with_columns(pair=PAIR_NAME).select(*first, pl.all().exclude(first))

    def again(self, draw: Draw) -> Iterator[Sample]:
        yield from triplets_again(draw, self.sentence_rows(), self.selection.patterns)
