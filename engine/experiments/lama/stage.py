"""`negengine lama`: does a model tell a query from its negation? Tables 1 and 2 of Kassner and Schütze (2020).

Every fact is queried in affirmative form, negated, and after a misleading word (`items` has the metrics). As in LAMA, a
fact does not count if its gold answer is not one token of the model, or not among the ranked tokens. P159 does not
count either: its negation is the affirmative sentence itself, so overlap and correlation are 1 for every model.

A causal model reads only what stands before the mask. So for such a model a fact counts if all its queries end in the
answer.

A part is a range of facts. Which facts count is known once the part's token ids are made, not before the run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ...datasets.misprimed import MISPRIMES
from ...errors import InputError
from ...inference.exported import ExportedModel
from ...inference.free_text import encode_texts
from ...inference.model import LanguageModel
from ...runs.masked_stages import ReferenceStage
from ...runs.record import model_metadata
from ...runs.stage import Advance, Files, FinishedParts, PartResult, part_ranges
from ...statistics import LIBRARIES
from ...text.tokenizer import NOT_ONE_TOKEN, MaskTokenizer
from ..items import ITEMS_FILE, ORIGINAL, SUMMARY_FILE, model_identity
from ..targets import target_ids
from ..vocabulary import Ranked
from .batches import Asked, batches
from .facts import Fact, Facts
from .items import SCHEMA, TOP, Answers, Ids, Logits, item_rows
from .summary import USED, summarise

FACTS_PER_PART = 512
LOGITS_AT_ONCE = 2**22  # on one core, of a query or of its negation: 16 MB, and twice that for log-probabilities
NEGATION = "negated"  # what the negations of the original queries are called among the sentences
CONDITIONS = (ORIGINAL, *(f"misprimed-{kind}" for kind in MISPRIMES))
SAME_AS_AFFIRMATIVE = ("TREx", "P159")
SAME = "the negation of P159 is the affirmative sentence itself"
NOT_READ = "words follow the answer, which a causal model does not read"
SEVERAL, NOT_RANKED = "the answer is not one token of the model", "the answer is not among the ranked tokens"
_ORDER = "order"


@dataclass(frozen=True, eq=False)
class Prepared:
    """A part's queries, and how many facts do not count.

    Attributes:
        asked: The queries of the facts that count.
        excluded: Why a fact does not count → how many.
        skipped: How many queries these facts have.
    """

    asked: tuple[Asked, ...]
    excluded: Mapping[str, int]
    skipped: int


@dataclass(frozen=True, eq=False)
class Lama(ReferenceStage[Prepared]):
    """A run of the probe.

    Attributes:
        exported: The model.
        facts: All facts, whether they count or not.
        ranked: Which tokens are ranked.
        with_p159: Whether P159 counts.
        excluded: Why facts of the files are not among `facts` → how many.
        data_sha256: Digest of the files' facts.
        facts_per_part: How many facts make a part.
        logits_at_once: How many logits of a query, or of its negation, one core has in memory.
    """

    name: ClassVar[str] = "lama"
    rows_file: ClassVar[str | None] = ITEMS_FILE
    libraries: ClassVar[tuple[str, ...]] = LIBRARIES

    exported: ExportedModel
    facts: tuple[Fact, ...]
    ranked: Ranked
    with_p159: bool
    excluded: Mapping[str, int]
    data_sha256: str
    facts_per_part: int = FACTS_PER_PART
    logits_at_once: int = LOGITS_AT_ONCE

    @classmethod
    def plan(
        cls,
        exported: ExportedModel,
        facts: Facts,
        ranked: Ranked | None = None,
        *,
        with_p159: bool = False,
        facts_per_part: int = FACTS_PER_PART,
        logits_at_once: int = LOGITS_AT_ONCE,
    ) -> "Lama":
        """Plan a run; neither the model nor its tokenizer is needed yet.

        Args:
            exported: The model.
            facts: From `facts.read_facts`.
            ranked: Which tokens are ranked; all by default.
            with_p159: Whether P159 counts.
            facts_per_part: Size of a part.
            logits_at_once: How many logits of a query, or of its negation, one core may have in memory.
        """
        chosen, excluded = facts.facts, dict(facts.excluded)
        if not with_p159:
            chosen = tuple(fact for fact in chosen if (fact.corpus, fact.relation) != SAME_AS_AFFIRMATIVE)
            if fewer := len(facts.facts) - len(chosen):
                excluded[SAME] = fewer
        return cls(
            exported, chosen, ranked or Ranked(), with_p159, excluded, facts.sha256, facts_per_part, logits_at_once
        )

    @cached_property
    def parts(self) -> tuple[range, ...]:
        """Ranges of facts."""
        n, step = len(self.facts), self.facts_per_part
        return part_ranges(n, step)

    @cached_property
    def sizes(self) -> Sequence[int]:
        """Queries of each part."""
        return [sum(_n_queries(self.facts[i]) for i in part) for part in self.parts]

    @property
    def unit(self) -> str:
        """See `Stage`."""
        return "queries"

    @property
    def identity(self) -> dict[str, Any]:
        """What the items depend on."""
        return {
            **model_identity(self.exported),
            "data sha256": self.data_sha256,
            "vocabulary": self.ranked.name,
            "vocabulary sha256": self.ranked.sha256,
            "with P159": self.with_p159,
            "facts per part": self.facts_per_part,
        }

    @property
    def metadata(self) -> dict[str, Any]:
        """The model, and which facts were excluded before the run."""
        return {**model_metadata(self.exported), "excluded": dict(self.excluded)}

    @cached_property
    def tokenizer(self) -> MaskTokenizer:
        """The model's tokenizer."""
        return self.exported.tokenizer

    @cached_property
    def ranked_ids(self) -> Ids:
        """The ranked tokens, int32 [m], ascending."""
        return self.ranked.ids(self.tokenizer, self.exported.vocab_size)

    @cached_property
    def gold(self) -> Ids:
        """The token of each fact's answer, int32 [n], or `NOT_ONE_TOKEN`."""
        texts, words = [fact.affirmative for fact in self.facts], [fact.gold for fact in self.facts]
        return target_ids(self.tokenizer, texts, words)

    def check(self, say: Callable[[str], None]) -> None:
        """Refuse a query that the model cannot take, and data without a fact that counts; see `Stage`."""
        excluded, counting = dict(self.excluded), []
        for part in self.parts:
            own, fewer = self._counting(part)
            counting += own
            excluded = _summed(excluded, fewer)
        if not counting:
            reasons = "; ".join(f"{count:,}: {why}" for why, count in excluded.items())
            raise InputError(f"none of {len(self.facts):,} facts counts ({reasons})")
        asked = [
            (text, fact.location)
            for fact in (self.facts[i] for i in counting)
            for texts in queries(fact).values()
            for text in texts
        ]
        encode_texts(self.exported, self.tokenizer, *zip(*asked, strict=True))
        say(f"{len(counting):,} facts count, {len(self.ranked_ids):,} tokens are ranked")

    def prepare(self, number: int) -> Prepared:
        """The token ids of a part's queries."""
        part = self.parts[number]
        counting, excluded = self._counting(part)
        groups: dict[int, list[tuple[str, int, tuple[str, ...]]]] = {}
        for row in counting:
            for condition, texts in queries(self.facts[row]).items():
                groups.setdefault(len(texts), []).append((condition, row, texts))
        asked = [self._encode(*zip(*own, strict=True)) for own in groups.values()]
        skipped = sum(_n_queries(self.facts[row]) for row in set(part) - set(counting))
        return Prepared(tuple(asked), excluded, skipped)

    def decide(self, model: LanguageModel, number: int, prepared: Prepared | None, advance: Advance) -> PartResult:
        """See `Stage`.

        Returns:
            One row for each fact, and one for each of its misprimed queries, with the columns of `items.SCHEMA`.
        """
        prepared = prepared or self.prepare(number)
        advance(prepared.skipped, 0)
        answers = self._answers(model, prepared.asked, advance)
        frames = [self._rows(*own) for own in zip(prepared.asked, answers, strict=True)]
        rows = pl.concat([pl.DataFrame(schema={**SCHEMA, _ORDER: pl.Int64}), *frames], how="diagonal")
        return PartResult(_in_order(rows, _ORDER).drop(_ORDER), dict(prepared.excluded))

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        """items.parquet, condition by condition, and summary.parquet."""
        items = pl.concat([parts.rows.filter(pl.col("condition") == condition) for condition in CONDITIONS])
        return {ITEMS_FILE: items, SUMMARY_FILE: summarise(items.select(USED).collect(engine="streaming"))}

    def _counting(self, part: range) -> tuple[list[int], dict[str, int]]:
        """The facts of a part that count, and why the others do not → how many."""
        gold = self.gold[part.start : part.stop]
        unread = np.array([not self._reads(self.facts[row]) for row in part], np.bool_)
        several = ~unread & (gold == NOT_ONE_TOKEN)
        foreign = ~unread & ~several & ~np.isin(gold, self.ranked_ids)
        reasons = ((NOT_READ, unread), (SEVERAL, several), (NOT_RANKED, foreign))
        excluded = {why: int(which.sum()) for why, which in reasons if which.any()}
        return (part.start + np.flatnonzero(~(unread | several | foreign))).tolist(), excluded

    def _reads(self, fact: Fact) -> bool:
        """Whether the model reads all words of a fact's queries."""
        return all(self.tokenizer.reads(text) for texts in queries(fact).values() for text in texts)

    def _encode(self, conditions: Sequence[str], rows: Sequence[int], texts: Sequence[tuple[str, ...]]) -> Asked:
        by_side = tuple(zip(*texts, strict=True))
        locations = [self.facts[row].location for row in rows]
        encoded = []
        for side in by_side:
            found: dict[int, tuple[Ids, int]] = {}
            for bucket in encode_texts(self.exported, self.tokenizer, side, locations):
                found |= zip(
                    bucket.rows.tolist(), zip(bucket.ids, bucket.mask_position.tolist(), strict=True), strict=True
                )
            encoded.append([found[row] for row in range(len(rows))])
        return Asked(tuple(conditions), tuple(rows), by_side, tuple(encoded))

    def _answers(self, model: LanguageModel, asked: Sequence[Asked], advance: Advance) -> list[Answers]:
        """What the model answers to each of `asked`; the batches of all of them run together."""
        gold = [self.gold[list(own.rows)] for own in asked]
        top = min(TOP, len(self.ranked_ids))
        answers = [Answers.empty(len(own.queries), len(own.rows), top) for own in asked]
        planned = batches(model, asked, max(1, self.logits_at_once // self.exported.vocab_size))

        def judge(number: int, logits: list[Logits]) -> None:
            batch = planned[number]
            first, *negations = logits
            for place, part in enumerate(batch.alike):
                rows, sides = batch.rows[part], [first[part], *negations[place : place + 1]]
                answers[batch.group].put(rows, sides, gold[batch.group][rows], self.ranked_ids)
            done = sum(map(len, logits))
            advance(done, done)

        for _ in model.reduce_logits([batch.sentences for batch in planned], judge):
            pass
        return answers

    def _rows(self, asked: Asked, answers: Answers) -> pl.DataFrame:
        facts = [self.facts[row] for row in asked.rows]
        items = item_rows(facts, asked.conditions, asked.queries, answers, self.tokenizer)
        return items.with_columns(pl.Series(_ORDER, asked.rows, dtype=pl.Int64))


def queries(fact: Fact) -> dict[str, tuple[str, ...]]:
    """What a fact is asked in each condition: a query, or a query and its negation."""
    original: tuple[str, ...] = (fact.affirmative,) if fact.negated is None else (fact.affirmative, fact.negated)
    return {ORIGINAL: original} | {f"misprimed-{kind}": (text,) for kind, text in fact.misprimed.items()}


def _n_queries(fact: Fact) -> int:
    return 1 + (fact.negated is not None) + len(fact.misprimed)


def _in_order(rows: pl.DataFrame, *then: str) -> pl.DataFrame:
    """Rows condition by condition, else as they are, so that their order does not depend on the parts."""
    order = pl.col("condition").replace_strict(list(CONDITIONS), range(len(CONDITIONS)), return_dtype=pl.Int32)
    return rows.sort(order, *then, maintain_order=True)


def _summed(first: Mapping[str, int], second: Mapping[str, int]) -> dict[str, int]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in {**first, **second}}
