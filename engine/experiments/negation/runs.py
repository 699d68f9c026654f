"""What `ng.select` and `ng.score` return: the results of the Self-Contained Negation Test."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import polars as pl

from ...basics.choices import Precision
from ...basics.errors import InputError
from ...inference.audit import audit_summary
from ...library.again import Draw, Sample
from ...library.recount import Recount
from ...library.run import Contrast, Run
from ...runs.record import mask_token
from ...runs.results import read_document
from ...text.pattern import PatternSet
from ...views import Table
from . import recount
from .again import triplets, unselected
from .contrasts import contrast
from .rates import PAIR
from .reading import apart_methods, reading, scores_methods, selection_methods, told
from .score import (
    ALL_SEVERAL,
    RATES_FILE,
    SAME_TEXT,
    SCORES_FILE,
    SEVERAL_SCORES_FILE,
    TOKEN_RATES_FILE,
    Scoring,
    Selected,
    read_selected,
)
from .select import (
    SELECTION_FILE,
    SEVERAL,
    SEVERAL_TOKENS,
    SEVERAL_TRIPLETS_FILE,
    TOKENS,
    TRIPLETS_FILE,
    Selection,
)
from .sentences import scored_sentences, selected_sentences
from .tables import published, rates_table, scored_apart, selected_apart, selection_table

DATASET = "SCNT"
_TRIPLET = ("name", "profession", "verb")


@dataclass(frozen=True, eq=False)
class SelectionRun(Run):
    """A finished selection.

    Attributes:
        triplets: Columns triplet, name, gender, pronoun, profession, verb.
        several: The triplets of verbs of several tokens, with a column tokens; None without `--verbs whole-words`.
        summary: The content of selection.json.
    """

    stage: ClassVar[str] = Selection.name
    next_command: ClassVar[str] = "negengine score"
    may_differ: ClassVar[Sequence[str]] = ("coreference",)

    @cached_property
    def triplets(self) -> pl.DataFrame:
        return self.frame(TRIPLETS_FILE)

    @cached_property
    def several(self) -> pl.DataFrame | None:
        return self.frame(SEVERAL_TRIPLETS_FILE) if SEVERAL_TRIPLETS_FILE in self.record.files else None

    @cached_property
    def summary(self) -> dict[str, Any]:
        return read_document(self.folder, self.record, SELECTION_FILE)

    def tables(self) -> list[Table]:
        patterns = PatternSet.from_json(self.record.metadata["pattern set"])
        table = selection_table(self.summary, published(self.summary["model"], patterns))
        return [table, *selected_apart(self.summary)]

    def methods(self, test: str) -> str:
        return selection_methods(self.summary, self.record.identity, test)

    def remarks(self) -> list[str]:
        return [self.dead_end] if self.dead_end else []

    def closing(self) -> str:
        """The result files, and the next command if there is something to score."""
        return "" if self.dead_end else super().closing()

    @property
    def dead_end(self) -> str:
        """Why there is nothing to score; empty if there is."""
        if self.summary["selected"] or self.summary.get(SEVERAL_TOKENS, {}).get("selected"):
            return ""
        return f"{self.folder}: the model does not repeat any verb, so there is nothing to score"

    def document(self) -> dict[str, Any]:
        return {"run": str(self.folder), **self.summary}

    def sentence_rows(self) -> pl.LazyFrame:
        metadata = self.record.metadata
        patterns, mask = PatternSet.from_json(metadata["pattern set"]), mask_token(metadata, self.folder)
        kinds = [self.triplets] if self.several is None else [self.triplets, self.several]
        return pl.concat(
            [selected_sentences(own.lazy(), patterns, metadata["coreference"], mask) for own in kinds], how="diagonal"
        )

    def outcomes(self) -> pl.DataFrame:
        raise InputError(f"{self.folder} is selected, not scored: run `negengine score {self.folder}` first")

    def contrast(self, runs: Sequence[Any]) -> Contrast | None:  # noqa: ARG002 - nothing can be compared
        self.outcomes()
        return None

    def again(self, draw: Draw) -> Iterator[Sample]:
        is_exact = not self.record.counts.get("decided")
        kind = str(Precision.FP32 if is_exact else Precision.MIXED)
        no_answer = pl.lit(None, pl.String)  # a selection records nothing but the decision
        yield from triplets(draw, self.sentence_rows().with_columns(precision=pl.lit(kind), answer=no_answer))
        yield unselected(draw, self.record, self.triplets, is_exact=is_exact)

    def recounts(self) -> Iterator[Recount]:
        yield from recount.selection(self.triplets, self.summary, self.record.identity, self.record.metadata)
        if self.several is not None:
            yield from recount.several(self.several, self.summary, self.record.identity, self.record.metadata)


@dataclass(frozen=True, eq=False)
class ScoresRun(Run):
    """A finished scoring.

    Attributes:
        items: The content of scores.parquet: triplet, pattern, top1, repeated, expected_rank, expected_logprob,
            top1_logprob (natural logarithms), precision (fp32, int8 or fp16: which graph gave the row's numbers;
            `repeated` is exact in each).
        rates: The content of rates.parquet; see `negengine.engine.experiments.negation.rates.rates`.
        selection: The selection that was scored.
        several: The triplets of verbs of several tokens; None without `--verbs whole-words`.
        several_items: Their scores, with a column tokens; see `answers.answer_columns`.
        token_rates: Their rates: of all of them, and by number of tokens.
    """

    stage: ClassVar[str] = Scoring.name
    clusters: ClassVar[str] = "[NAME, PROF] pairs"
    may_differ: ClassVar[Sequence[str]] = ("coreference",)
    drop_of: ClassVar[tuple[str, str] | None] = (DATASET, "repetition_rate")

    @cached_property
    def items(self) -> pl.DataFrame:
        return self.frame(SCORES_FILE)

    @cached_property
    def rates(self) -> pl.DataFrame:
        return self.frame(RATES_FILE)

    @cached_property
    def selection(self) -> Selected:
        return read_selected(self.folder)

    @cached_property
    def several(self) -> pl.DataFrame | None:
        found = self.selection.several
        return None if found is None else found.cast({pl.Categorical: pl.String})

    @cached_property
    def several_items(self) -> pl.DataFrame:
        return self.frame(SEVERAL_SCORES_FILE)

    @cached_property
    def token_rates(self) -> pl.DataFrame:
        return self.frame(TOKEN_RATES_FILE)

    def methods(self, test: str) -> str:
        selected = SelectionRun.open(self.folder).methods(test)
        patterns = self.selection.patterns
        apart = "" if self.several is None else f" {apart_methods(self.token_rates, patterns)}"
        return f"{selected} {scores_methods(self.rates, patterns)}{apart}"

    @property
    def coreference(self) -> str:
        """What the target sentence is about: a value of `Coreference`."""
        return str(self.selection.summary["coreference"])

    def tables(self) -> list[Table]:
        summary = self.selection.summary
        paper = published(summary["model"], self.selection.patterns)
        return [
            selection_table(summary, paper),
            rates_table(self.rates, self.selection.patterns, summary, paper, audit_summary(self.record.counts)),
            *self.tables_apart(),
        ]

    def tables_apart(self) -> list[Table]:
        """The same figures of verbs of several tokens, and by number of tokens; empty if the run has no such verbs."""
        if self.several is None:
            return []
        summary = self.selection.summary
        return [*selected_apart(summary), *scored_apart(self.token_rates, self.selection.patterns, summary)]

    def remarks(self) -> list[str]:
        """Whether the model passes the test, and what another way of counting would change."""
        apart = [] if self.several is None else [self.reading_apart]
        return [self.reading, *apart, *([self.same_text] if self.same_text else [])]

    @property
    def reading_apart(self) -> str:
        """What the rates of verbs of several tokens mean, in one sentence."""
        own = self.token_rates.filter(pl.col(TOKENS) == ALL_SEVERAL)
        return f"Verbs of several tokens, apart from the paper's test: {told(own, self.selection.patterns)}"

    @property
    def same_text(self) -> str:
        """The share of top-1 tokens that have the verb's text but are other tokens; empty if there are none.

        A token without the leading space is another token ("smoke" for "Ġsmoke" of RoBERTa). The authors' code compares
        texts, so it counts such a token as a repetition. With mixed precision, the first choice of the low-precision
        model counts where that decided alone.
        """
        n = dict(self.rates.select("pattern", "n").iter_rows())
        counts = {pattern: self.record.counts.get(SAME_TEXT.format(pattern), 0) for pattern in n}
        shares = [f"{pattern} {100 * count / n[pattern]:.1f} %" for pattern, count in counts.items() if count]
        if not shares:
            return ""
        of_low = (
            " (where the low-precision model decided, its first choice)" if self.record.counts.get("decided") else ""
        )
        return (
            f"The first choice{of_low} reads like the verb but is another token, and is not counted: "
            f"{', '.join(shares)}."
        )

    @property
    def reading(self) -> str:
        """What the rates mean, in one sentence."""
        return reading(self.rates, self.selection.patterns, self.coreference)

    def document(self) -> dict[str, Any]:
        apart = {} if self.several is None else {"rates_by_tokens": self.token_rates.to_dicts()}
        return {"run": str(self.folder), "rates": self.rates.to_dicts(), "reading": self.reading, **apart}

    def sentence_rows(self) -> pl.LazyFrame:
        kinds = {SCORES_FILE: self.selection.triplets}
        if self.several is not None:
            kinds[SEVERAL_SCORES_FILE] = self.several
        rows = [
            scored_sentences(
                pl.scan_parquet(self.folder / name),
                triplets.lazy(),
                self.selection.patterns,
                self.coreference,
                mask_token(self.selection.metadata, self.folder),
            )
            for name, triplets in kinds.items()
        ]
        return pl.concat(rows, how="diagonal")

    @property
    def conditions(self) -> dict[str, Any]:
        """Triplets are joined by their words, so only the patterns must be the same."""
        return {"patterns sha256": self.record.identity["patterns sha256"], "coreference": self.coreference}

    def outcomes(self) -> pl.DataFrame:
        """One row for each triplet and pattern: whether the verb is repeated. Clusters are pairs, and verbs.

        Triplets of verbs of several tokens have a condition of their own.
        """
        single = self._outcomes(self.items, self.selection.triplets, self.coreference)
        if self.several is None:
            return single
        condition = f"{self.coreference}, {SEVERAL}"
        return pl.concat([single, self._outcomes(self.several_items, self.several, condition)])

    def _outcomes(self, items: pl.DataFrame, triplets: pl.DataFrame, condition: str) -> pl.DataFrame:
        return items.join(triplets, on="triplet", validate="m:1").select(
            dataset=pl.lit(DATASET),
            condition=pl.lit(condition),
            split="pattern",
            metric=pl.lit("repetition_rate"),
            item=pl.concat_str(_TRIPLET, separator="|"),
            value=pl.col("repeated").cast(pl.Float64),
            cluster=pl.concat_str(*PAIR, separator="|"),
            crossed="verb",
            name="name",
            gender="gender",
            profession="profession",
            verb="verb",
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
        named = tidy.with_columns(pl.format("{}, {}", "name", "profession").alias("pair"))
        return named.select(*first, pl.all().exclude(first))

    def again(self, draw: Draw) -> Iterator[Sample]:
        yield from triplets(draw, self.sentence_rows())

    def recounts(self) -> Iterator[Recount]:
        patterns = [pattern.name for pattern in self.selection.patterns.all]
        yield from recount.scores(self.items, self.selection.triplets, self.rates, patterns)
        if self.several is not None:
            own = self.token_rates.filter(pl.col(TOKENS) == ALL_SEVERAL).drop(TOKENS)
            for found in recount.scores(self.several_items, self.several, own, patterns):
                yield replace(found, what=f"{SEVERAL}: {found.what}")
            yield recount.token_rates(self.several_items, self.token_rates, patterns)
