"""`negengine probe`: how probable is a target at the mask of a user's own sentence?

A part is a range of the table's rows, read where they lie. A model reads each different sentence of a part once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ...basics.choices import TargetMethod
from ...basics.errors import InputError
from ...basics.printable import counted
from ...inference.batches import finished
from ...inference.judge import top_tokens, with_tokens
from ...inference.model import LanguageModel
from ...inference.words import score_whole_words, score_words
from ...requests.items import ITEMS_FILE, SUMMARY_FILE
from ...requests.vocabulary import Ranked, Vocabulary
from ...runs.masked_stages import RankStage
from ...runs.stage import Advance, Files, FinishedParts, PartResult
from ...text.word_marks import WordMarks
from ..own_table import COLUMNS, ROW, TOKENS, TableStage, divided, part_rows
from .probe_items import Answers, item_rows, result_schema, summarise
from .probe_sentences import Columns, Encoded, Encoder, Ids, Rows64, mask_faults

LOGITS_AT_ONCE = 2**22  # 16 MB, and twice that for their exponentials
_TRIED = 256  # sentences whose time is measured


@dataclass(frozen=True, eq=False)
class OwnStimuli(TableStage[Encoded], RankStage[Encoded]):
    """A run of the probe."""

    name: ClassVar[str] = "probe"

    columns: Columns
    ranked: Ranked
    top: int = 1  # how many first choices are kept
    method: TargetMethod = TargetMethod.LEFT_TO_RIGHT
    bos: bool = False  # whether the model's BOS token is put before each sentence
    logits_at_once: int = LOGITS_AT_ONCE  # how many logits are in memory

    @property
    def sizes(self) -> Sequence[int]:
        return self.stimuli.sizes

    @property
    def unit(self) -> str:
        return "rows"

    @classmethod
    def held(cls, rows: pl.DataFrame, counts: Mapping[str, float]) -> int:  # noqa: ARG003
        return rows[ROW].n_unique()

    @property
    def identity(self) -> dict[str, Any]:
        return {
            **super().identity,
            "vocabulary": self.ranked.name,
            "vocabulary sha256": self.ranked.sha256,
            "top": self.top,
            "method": str(self.method),
            **({"bos": True} if self.bos else {}),
        }

    @property
    def metadata(self) -> dict[str, Any]:
        return {**super().metadata, "ranked words": self.ranked.known(self.exported.tokenizer), "rows": self.stimuli.n}

    @cached_property
    def ranked_ids(self) -> Ids | None:
        """[m], ascending; None for all."""
        if self.ranked.name == Vocabulary.ALL:
            return None
        return self.ranked.ids(self.exported.tokenizer, self.exported.vocab_size)

    @cached_property
    def marks(self) -> WordMarks:
        """How the vocabulary marks words; an `InputError` if it does not."""
        return WordMarks.of(self.exported.tokenizer, self.exported.vocab_size)

    def check(self, say: Callable[[str], None]) -> None:
        """Refuse a row that the model cannot be asked about; with `skip_bad`, a table without a row that it can."""
        first = ""
        for number in range(len(self.stimuli.parts)):
            rows = self.prepare(number).rows
            for bad in rows.skipped.head(1).iter_rows(named=True):
                first = first or f"{self.stimuli.location(number, bad['row'], bad['line'])}: {bad['reason']}"
            if first and not self.skip_bad:
                raise InputError(first)
            if self.skip_bad and len(rows.frame):
                break
        else:
            if self.skip_bad:
                raise InputError(first)
        say(f"{counted(self.stimuli.n, 'row')}{', of which bad ones are skipped' * self.skip_bad}")

    def prepare(self, number: int) -> Encoded:
        tokenizer = self.exported.tokenizer_with(bos=self.bos)
        encoder = Encoder(self.columns, self.exported, tokenizer, self.ranked_ids)
        return encoder.encode(self.stimuli.read(number, self.faults))

    def faults(self, frame: pl.DataFrame) -> pl.Series:
        return frame.select(mask_faults(self.columns, self.exported.mask_token)).to_series()

    def work(self, part: Encoded) -> dict[str, int]:
        rows, several = len(part.rows.frame), int((part.words.counts > 1).sum())
        return {
            "rows": rows,
            "items (rows × targets)": rows * len(self.columns.targets),
            "different sentences": len(part.texts),
            **({"targets of several tokens": several} if several else {}),
            TOKENS: sum(bucket.ids.size for bucket in part.buckets),
        }

    def read_some(self, model: LanguageModel, part: Encoded) -> int:
        some = max(part.buckets, key=lambda bucket: bucket.ids.size)
        ids, mask = some.ids[:_TRIED], some.mask_position[:_TRIED]
        model.decide(ids, mask, np.zeros(len(ids), np.int32))
        return int(ids.size)

    def decide(self, model: LanguageModel, number: int, prepared: Encoded | None, advance: Advance) -> PartResult:
        """One row for each row of the table and target; then, with `skip_bad`, the rows that are skipped."""
        asked = prepared or self.prepare(number)
        ranked = self.exported.vocab_size if self.ranked_ids is None else len(self.ranked_ids)
        answers = Answers.empty(len(asked.words), min(self.top, ranked))
        skipped = len(asked.rows.skipped)
        advance(skipped, 0)
        self._answer(model, asked, answers, advance)
        items = item_rows(asked, self.columns, answers, self.exported.tokenizer)
        judged = self.columns.is_wanted is not None
        schema = {ROW: pl.Int64(), **self.stimuli.schema, **result_schema(self.top, judged=judged)}
        rows = part_rows(items, asked.rows, schema, skip_bad=self.skip_bad)
        return self.audited(model, PartResult(rows, {"skipped": skipped}))

    @staticmethod
    def publish(parts: FinishedParts) -> Files:
        columns = Columns.from_json(parts.metadata[COLUMNS])
        items, skipped = divided(parts.rows)
        summary = summarise(items.select(columns.used).collect(engine="streaming"), columns)
        return {ITEMS_FILE: items, SUMMARY_FILE: summary, **skipped}

    def _answer(self, model: LanguageModel, asked: Encoded, answers: Answers, advance: Advance) -> None:
        def several_targets(_: int, sentences: int) -> None:
            advance(0, sentences)  # they do not complete a row

        targets = len(self.columns.targets)
        told = advance if targets == 1 else several_targets
        alone = (asked.words.counts == 1) & (self.method is not TargetMethod.WHOLE_WORD)
        single, several = np.flatnonzero(alone), np.flatnonzero(~alone)
        distinct = len(np.unique(asked.sentence[single])) == len(single)
        if distinct and self.top == 1 and self.ranked_ids is None:
            self._decide(model, asked, single, answers, told)
        else:
            self._judge(model, asked, single, answers, told)
        self._score(model, asked, several, answers, several_targets)
        advance(len(several) if targets == 1 else len(asked.words) // targets, 0)

    def _decide(self, model: LanguageModel, asked: Encoded, items: Rows64, answers: Answers, advance: Advance) -> None:
        """One target for each sentence: the model's own decisions say everything, and no logits are copied."""
        item_of = np.full(len(asked.texts), -1, np.int64)
        item_of[asked.sentence[items]] = items
        buckets = asked.with_sentences(asked.sentence[items])
        expected_of = [asked.words.tokens[item_of[bucket.rows], 0] for bucket in buckets]
        groups = [(own.ids, own.mask_position, expected) for own, expected in zip(buckets, expected_of, strict=True)]
        decided = model.decide_each(groups, lambda n: advance(n, n))
        for bucket, expected, found in zip(buckets, expected_of, decided, strict=True):
            own = item_of[bucket.rows]
            answers.logprob[own], answers.rank[own] = found.expected_logprob, found.expected_rank
            answers.is_top1[own] = found.repeated(expected)
            answers.top[own, 0], answers.top_logprob[own, 0] = found.top1, found.top1_logprob

    def _judge(self, model: LanguageModel, asked: Encoded, items: Rows64, answers: Answers, advance: Advance) -> None:
        """Several targets, ranked words or first choices: from all logits of a batch at a time."""
        ranked = self.ranked_ids
        order = items[np.argsort(asked.sentence[items], kind="stable")]
        starts = np.searchsorted(asked.sentence[order], np.arange(len(asked.texts) + 1))
        for bucket in asked.with_sentences(asked.sentence[items]):
            size = max(1, min(model.batch_size(bucket.ids.shape[1]), self.logits_at_once // self.exported.vocab_size))
            for start in range(0, len(bucket.rows), size):
                part = slice(start, start + size)
                sentences = bucket.rows[part].tolist()
                own = np.concatenate([order[starts[i] : starts[i + 1]] for i in sentences])
                place = np.repeat(np.arange(len(sentences)), [starts[i + 1] - starts[i] for i in sentences])
                sentence, tokens = (bucket.ids[part], bucket.mask_position[part]), asked.words.tokens[own, 0]
                logits = model.logits(*sentence)
                if model.correct is not None:
                    best = top_tokens(logits if ranked is None else logits[:, ranked], answers.top.shape[1])
                    read = with_tokens(best if ranked is None else ranked[best], place, tokens)
                    model.correct([sentence], [logits], [read])
                answers.judge(own, place, tokens, logits, ranked)
                advance(len(own), len(sentences))

    def _score(self, model: LanguageModel, asked: Encoded, items: Rows64, answers: Answers, advance: Advance) -> None:
        if not len(items):
            return
        buckets, words, causal = asked.by_item(items), asked.words.take(items), self.exported.is_causal

        def told(queries: int) -> None:
            advance(0, queries)

        if self.method is TargetMethod.WHOLE_WORD:
            scores = score_whole_words(model, buckets, words, self.marks, causal=causal, advance=told)
        else:
            scores = finished(score_words(model, buckets, words, self.method, causal=causal, advance=told))
        answers.put_words(items, scores)
