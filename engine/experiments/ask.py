"""Questions to a language model and its answers: the one stage that decides them; it knows no experiment.

items of an experiment → questions → token ids in batches → answers → rows of items.parquet → summary.parquet
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..basics.errors import InputError
from ..inference.batches import finished, in_batches
from ..inference.exported import ExportedModel
from ..inference.free_text import encode_texts
from ..inference.judge import judge, top_tokens, with_tokens
from ..inference.model import LanguageModel
from ..requests.items import ITEMS_FILE, SUMMARY_FILE, model_identity
from ..requests.summary import frame, means
from ..requests.vocabulary import Ranked, target_ids
from ..runs.masked_stages import RankStage
from ..runs.record import model_metadata
from ..runs.stage import Advance, Files, FinishedParts, PartResult, part_ranges
from ..statistics import LIBRARIES
from ..statistics.rank_correlation import spearman
from ..text.tokenizer import NOT_ONE_TOKEN
from .experiment import Experiment

Ids = NDArray[np.int32]
Logits = NDArray[np.float32]
Item = TypeVar("Item")
LOGITS_AT_ONCE = 2**22  # of the first texts of a batch, on one core: 16 MB, and twice that for log-probabilities
NOT_READ = "words follow the answer, which a causal model does not read"
SEVERAL = "the answer is not one token of the model"
NOT_RANKED = "the answer is not among the ranked tokens"


@dataclass(frozen=True)
class Question:
    """A text with one [MASK], or two whose logits are compared; the words whose ranks are asked for at the first."""

    texts: tuple[str, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answers to n questions; log-probabilities are natural logarithms over the whole vocabulary."""

    rows: Mapping[tuple[str, ...], int]  # texts of a question → its row
    words: Mapping[tuple[int, str], int]  # row and word → the word's place in `rank` and `logprob`
    top: Ids  # [sides, n, k], the first k ranked tokens of each text
    top_logprob: NDArray[np.float64]  # [sides, n, k]
    rank: Ids  # [w], of each word among the ranked tokens, from 1; 0 if it is not one token
    logprob: NDArray[np.float64]  # [w], of each word; NaN if it is not one token
    correlation: NDArray[np.float64]  # [n], Spearman's, of the ranked scores of two texts; NaN: not defined
    token_text: Callable[[int], str]

    def tops(self, row: int, side: int = 0, prefix: str = "") -> dict[str, Any]:
        """The first choices of a question, by the columns of `top_schema`."""
        found: dict[str, Any] = {}
        both = zip(self.top[side, row].tolist(), self.top_logprob[side, row].tolist(), strict=True)
        for i, (token, logprob) in enumerate(both, 1):
            found |= {f"{prefix}top{i}": self.token_text(token), f"{prefix}top{i}_logprob": logprob}
        return found

    def of_word(self, row: int, word: str) -> tuple[int, float]:
        """Rank (0 if it is not one token) and log-probability (then NaN) of a word of a question."""
        place = self.words[row, word]
        return int(self.rank[place]), float(self.logprob[place])


class Asked(Experiment, Generic[Item]):
    """An experiment whose items are questions; a subclass is a frozen dataclass."""

    unit: ClassVar[str] = "items"  # what the items are, as a plural
    clusters: ClassVar[str] = "items"  # what items share that makes them depend on each other, as a plural
    metrics: ClassVar[Sequence[str] | Mapping[str, pl.Expr]]  # columns of items.parquet: truth values or numbers
    top: ClassVar[int] = 5  # how many first choices of each text are kept
    items_per_part: ClassVar[int] = 512
    # whether an item counts only if all its words are single, ranked tokens of the model
    needs_words: ClassVar[bool] = False
    rows_file: ClassVar[str | None] = ITEMS_FILE
    further_rows_files: ClassVar[tuple[str, ...]] = ()

    @cached_property
    @abstractmethod
    def items(self) -> Sequence[Item]:
        """What is asked about, in the order of items.parquet; read before the model is opened."""

    @property
    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """What the items depend on, as JSON values: digests of data, seeds."""

    @abstractmethod
    def questions(self, item: Item) -> Sequence[Question]: ...

    @abstractmethod
    def rows(self, items: Sequence[Item], answers: Answers) -> pl.DataFrame:
        """The rows of items.parquet for some items; the same columns and types for any of them."""

    @classmethod
    def held(cls, rows: pl.DataFrame, counts: Mapping[str, float]) -> int:
        """The items: those of the rows, and those that do not count."""
        return cls.items_in(rows) + int(sum(counts.get(why, 0) for why in (NOT_READ, SEVERAL, NOT_RANKED)))

    @classmethod
    def items_in(cls, rows: pl.DataFrame) -> int:
        """How many items have these rows."""
        return len(rows)

    def location(self, item: Item) -> str | None:
        """File and line of an item, for messages; by default its own, if it has any."""
        return getattr(item, "location", None)

    @property
    def ranked(self) -> Ranked:
        return Ranked()

    @property
    def excluded(self) -> Mapping[str, int]:
        """Why items of the data are not among `items` → how many."""
        return {}

    @classmethod
    def summarise(cls, items: pl.DataFrame) -> pl.DataFrame:
        """The rows of summary.parquet: each metric of each data set, condition and split, with its interval."""
        return frame(means(items, tuple(cls.metrics)))

    @classmethod
    def publish(cls, parts: FinishedParts) -> Files:
        items = parts.rows.collect()
        return {ITEMS_FILE: items, SUMMARY_FILE: cls.summarise(items)}

    @staticmethod
    def rows_of(files: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
        return files[ITEMS_FILE]

    def stage(self, exported: ExportedModel) -> "AskStage[Item]":
        return AskStage(exported, self)


@dataclass(frozen=True, eq=False)
class Prepared:
    """The questions of a part."""

    items: list[Any]  # those that count
    excluded: dict[str, int]  # why an item does not count → how many
    skipped: int  # how many texts the others have
    questions: Mapping[tuple[str, ...], tuple[str, ...]]  # texts of each question → its words; each text is asked once
    encoded: Mapping[str, tuple[Ids, int]]  # text → token ids, and the position of its mask


@dataclass(frozen=True, eq=False)
class AskStage(RankStage[Prepared], Generic[Item]):
    """The stage of an experiment whose items are questions. A part is a range of items; its tokens say which count."""

    libraries: ClassVar[tuple[str, ...]] = LIBRARIES

    exported: ExportedModel
    experiment: Asked[Item]
    logits_at_once: int = LOGITS_AT_ONCE  # of the first texts of a batch, in the memory of one core

    @property
    def name(self) -> str:  # type: ignore[override]  # other stages have one name each
        return self.experiment.name

    @property
    def publish(self) -> Callable[[FinishedParts], Files]:  # type: ignore[override]
        return self.experiment.publish

    @property
    def identity(self) -> dict[str, Any]:
        step = {f"{self.experiment.unit} per part": self.experiment.items_per_part}
        return {**model_identity(self.exported), **self.experiment.identity, **step}

    @property
    def metadata(self) -> dict[str, Any]:
        excluded = dict(self.experiment.excluded)
        return {**model_metadata(self.exported), **({"excluded": excluded} if self.experiment.needs_words else {})}

    @cached_property
    def parts(self) -> tuple[range, ...]:
        return part_ranges(len(self.experiment.items), self.experiment.items_per_part)

    @cached_property
    def asked(self) -> Sequence[tuple[Item, Sequence[Question]]]:
        return [(item, self.experiment.questions(item)) for item in self.experiment.items]

    @cached_property
    def sizes(self) -> Sequence[int]:
        return [sum(map(len, _merged(self.asked[part.start : part.stop]))) for part in self.parts]

    @property
    def planned(self) -> Sequence[int]:
        return [len(part) for part in self.parts]

    @property
    def notes(self) -> Sequence[str]:
        return self.experiment.ranked.left_out(self.exported.tokenizer)

    @cached_property
    def ranked_ids(self) -> Ids:
        """The ranked tokens, [m], ascending."""
        return self.experiment.ranked.ids(self.exported.tokenizer, self.exported.vocab_size)

    @cached_property
    def tokens(self) -> Mapping[tuple[str, str], int]:
        """Text and word → the word's token at the mask of the text, or `NOT_ONE_TOKEN`."""
        every = (question for _, questions in self.asked for question in questions)
        asked = list(dict.fromkeys((question.texts[0], word) for question in every for word in question.words))
        found = target_ids(self.exported.tokenizer, [text for text, _ in asked], [word for _, word in asked])
        return dict(zip(asked, found.tolist(), strict=True))

    def check(self, say: Callable[[str], None]) -> None:
        """Refuse a text that the model cannot take, and data without an item that counts."""
        counting, excluded = self._counting(self.asked, self.experiment.excluded)
        if not counting:
            reasons = "; ".join(f"{count:,}: {why}" for why, count in excluded.items())
            n, unit = len(self.experiment.items), self.experiment.unit
            raise InputError(f"none of {n:,} {unit} counts ({reasons})")
        locations: dict[str, str] = {}
        for item, questions in counting:
            for question in questions:
                for text in question.texts:
                    locations.setdefault(text, self.experiment.location(item) or repr(text))
        encode_texts(self.exported, self.exported.tokenizer, list(locations), list(locations.values()))
        say(f"{len(counting):,} {self.experiment.unit} count, {len(locations):,} texts, "
            f"{len(self.ranked_ids):,} tokens are ranked")  # fmt: skip

    def prepare(self, number: int) -> Prepared:
        part = self.parts[number]
        asked = self.asked[part.start : part.stop]
        counting, excluded = self._counting(asked, {})
        questions = _merged(counting)
        texts = list(dict.fromkeys(text for own in questions for text in own))
        encoded: dict[str, tuple[Ids, int]] = {}
        for bucket in encode_texts(self.exported, self.exported.tokenizer, texts):
            own = zip(bucket.rows.tolist(), bucket.ids, bucket.mask_position.tolist(), strict=True)
            encoded |= {texts[row]: (ids, position) for row, ids, position in own}
        skipped = sum(map(len, _merged(asked))) - sum(map(len, questions))
        return Prepared([item for item, _ in counting], excluded, skipped, questions, encoded)

    def decide(self, model: LanguageModel, number: int, prepared: Prepared | None, advance: Advance) -> PartResult:
        own = prepared or self.prepare(number)
        advance(own.skipped, 0)
        rows = self.experiment.rows(own.items, self._answers(model, own, advance))
        return self.audited(model, PartResult(rows, own.excluded))

    def _counting(
        self, asked: "Sequence[tuple[Item, Sequence[Question]]]", before: Mapping[str, int]
    ) -> "tuple[list[tuple[Item, Sequence[Question]]], dict[str, int]]":
        """The items that count, and why the others do not → how many."""
        excluded, counting = Counter(before), []
        for item, questions in asked:
            if why := self._fault(questions) if self.experiment.needs_words else "":
                excluded[why] += 1
            else:
                counting.append((item, questions))
        return counting, dict(excluded)

    def _fault(self, questions: Sequence[Question]) -> str:
        if not all(self.exported.tokenizer.reads(text) for question in questions for text in question.texts):
            return NOT_READ
        tokens = [self.tokens[question.texts[0], word] for question in questions for word in question.words]
        if NOT_ONE_TOKEN in tokens:
            return SEVERAL
        return "" if self._ranked.issuperset(tokens) else NOT_RANKED

    @cached_property
    def _ranked(self) -> frozenset[int]:
        return frozenset(self.ranked_ids.tolist())

    def _answers(self, model: LanguageModel, asked: Prepared, advance: Advance) -> Answers:
        questions = list(asked.questions.items())
        n, sides = len(questions), max((len(texts) for texts, _ in questions), default=1)
        asked_words = ((row, word) for row, (_, words) in enumerate(questions) for word in words)
        places = {key: place for place, key in enumerate(asked_words)}
        top = min(self.experiment.top, len(self.ranked_ids))
        answers = Answers(
            rows={texts: row for row, (texts, _) in enumerate(questions)},
            words=places,
            top=np.zeros((sides, n, top), np.int32),
            top_logprob=np.full((sides, n, top), np.nan),
            rank=np.zeros(len(places), np.int32),
            logprob=np.full(len(places), np.nan),
            correlation=np.full(n, np.nan),
            token_text=self.exported.tokenizer.token_text,
        )
        encoded = [[asked.encoded[text] for text in texts] for texts, _ in questions]
        planned = in_batches(encoded, max(1, self.logits_at_once // self.exported.vocab_size), model.divide_together)

        def answered(number: int, logits: list[Logits]) -> None:
            batch = planned[number]
            first, *others = logits
            for place, part in enumerate(batch.alike):
                self._judge(questions, batch.rows[part], [first[part], *others[place : place + 1]], answers)
            done = sum(map(len, logits))
            advance(done, done)

        def read(number: int, logits: list[Logits]) -> list[Ids]:
            best = [self.ranked_ids[top_tokens(self._of_ranked(own), top)] for own in logits]
            _, place, tokens = self._expected(questions, planned[number].rows, places)
            return [with_tokens(best[0], place, tokens), *best[1:]]

        finished(model.reduce_logits([batch.sentences(encoded) for batch in planned], answered, read))
        return answers

    def _judge(
        self,
        questions: Sequence[tuple[Any, Sequence[str]]],
        rows: NDArray[np.int64],
        logits: Sequence[Logits],
        answers: Answers,
    ) -> None:
        """Fill in the answers to some questions, from the logits float32 [rows, V] of their first and second texts."""
        which, places, tokens = self._expected(questions, rows, answers.words)
        ranked = None if len(self.ranked_ids) == logits[0].shape[1] else self.ranked_ids
        for side, own in enumerate(logits):
            found = judge(own, answers.top.shape[2], places, tokens, ranked)
            answers.top[side, rows], answers.top_logprob[side, rows] = found.top, found.top_logprob
            if side == 0:
                answers.rank[which], answers.logprob[which] = found.rank, found.logprob
        if len(logits) == 2:
            answers.correlation[rows] = spearman(*map(self._of_ranked, logits))

    def _of_ranked(self, logits: Logits) -> Logits:
        return logits if len(self.ranked_ids) == logits.shape[1] else logits[:, self.ranked_ids]

    def _expected(
        self,
        questions: Sequence[tuple[Any, Sequence[str]]],
        rows: NDArray[np.int64],
        words: Mapping[tuple[int, str], int],
    ) -> NDArray[np.int64]:
        """The words of some questions that are one token: their places in `words`, which question, their tokens."""
        found = [
            (words[row, word], place, token)
            for place, row in enumerate(rows.tolist())
            for word in questions[row][1]
            if (token := self.tokens[questions[row][0][0], word]) != NOT_ONE_TOKEN
        ]
        return np.array(found, np.int64).reshape(-1, 3).T


def _merged(asked: Sequence[tuple[Any, Sequence[Question]]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Texts of each question → its words; the same texts are asked once."""
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for _, questions in asked:
        for question in questions:
            found.setdefault(question.texts, {}).update(dict.fromkeys(question.words))
    return {texts: tuple(words) for texts, words in found.items()}
