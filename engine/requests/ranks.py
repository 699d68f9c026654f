"""The kind `AtRank`: a text with one [MASK] and a rank, and the tokens that a model has there.

Special tokens and the unknown one have no rank; of equal logits the smaller id is first. A token that is not a text of
its own (a byte, a space) keeps its rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..inference.again import Draw, Question, Sample, named
from ..inference.exported import ExportedModel
from ..inference.free_text import MASK, reduce_logits
from ..inference.judge import logprobs_of, top_tokens
from ..inference.model import LanguageModel
from .stage import AdvanceTexts, Columns, Kind, RequestStage
from .word import Word, Words


@dataclass(frozen=True, eq=False)
class RanksOfTexts:
    """Texts as token ids, and the rank of each request."""

    texts: Words
    ranks: NDArray[np.int64]

    @property
    def why(self) -> Sequence[str | None]:
        return self.texts.why

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class AtRank(Kind[RanksOfTexts]):
    """The token at a rank, and those at the next ranks."""

    name: ClassVar[str] = "rank"
    asks: ClassVar[Mapping[str, Any]] = {"text": pl.String, "at_rank": pl.Int32}
    stage: ClassVar[type[RequestStage]] = RequestStage

    columns: tuple[str, ...] = ("token",)  # of the token at the rank, then of those at the next ranks

    @property
    def answers(self) -> Mapping[str, Any]:
        """Of each token its text and its id; of the first its log-probability, and whether it is a text of its own."""
        tokens = dict.fromkeys(self.columns, pl.String) | {f"{name}_id": pl.Int32 for name in self.columns}
        return {**tokens, f"{self.columns[0]}_logprob": pl.Float64, f"{self.columns[0]}_is_text": pl.Boolean}

    def again(self, draw: Draw, requests: pl.LazyFrame) -> Sample:
        name, others = self.columns[0], (draw.tokenizer.unranked_ids(draw.exported.vocab_size),)

        def question(row: Mapping[str, Any]) -> Question:
            text, token = row["text"].strip().replace(MASK, draw.tokenizer.mask_token), ((row[f"{name}_id"],),)
            asked = Question(named(row), text, draw.tokenizer, token, unranked=others)
            return replace(asked, rank=row["at_rank"], logprob=row[f"{name}_logprob"])

        return Sample("tokens at ranks", [question(row) for row in draw.rows(requests)])

    def prepare(self, exported: ExportedModel, requests: pl.DataFrame) -> RanksOfTexts:
        texts = Word().prepare(exported, requests.with_columns(word=pl.lit(None, pl.String)))
        return RanksOfTexts(texts, requests["at_rank"].to_numpy().astype(np.int64))

    def answer(self, model: LanguageModel, asked: RanksOfTexts, advance: AdvanceTexts) -> Columns:
        exported, depth = model.exported, int(asked.ranks.max(initial=0)) + len(self.columns) - 1
        tokenizer, unranked = exported.tokenizer, exported.tokenizer.unranked_ids(exported.vocab_size)
        used, text = np.unique(asked.texts.text, return_inverse=True)
        every = [asked.texts.ids[i] for i in used.tolist()]
        ids, logprobs = np.empty((len(every), depth), np.int64), np.empty((len(every), depth))

        def put(rows: NDArray[np.int64], logits: NDArray[np.float32]) -> None:
            ids[rows] = best = top_tokens(logits, depth, unranked)
            logprobs[rows] = logprobs_of(logits, best)
            advance(len(rows))

        reduce_logits(model, every, tokenizer.mask_id, put)
        place, columns, first = asked.ranks - 1, dict[str, Any](), self.columns[0]
        for more, name in enumerate(self.columns):
            own = ids[text, place + more]
            columns |= {name: [tokenizer.token_text(token) for token in own.tolist()], f"{name}_id": own}
        return {
            **columns,
            f"{first}_logprob": logprobs[text, place],
            f"{first}_is_text": [tokenizer.is_text(token) for token in columns[f"{first}_id"].tolist()],
        }
