"""Triplets of verbs of several tokens, decided again: one query after the other, without composition or batches.

The text is tokenized with one mask, the mask is repeated for each token of the verb, and the verb's tokens are filled
in from left to right. The verb is repeated if every token is the first choice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..choices import Precision
from ..inference.exported import ExportedModel
from ..inference.free_text import log_softmax
from ..library.sentences import drawn
from ..negation.runs import ScoresRun, SelectionRun
from ..negation.select import NEAR_TIE
from ..negation.several import TOKENS
from ..sentences.tokenizer import MaskTokenizer
from .agreement import ROUNDING, Compared, Verdict
from .asked import was_exact
from .reference import Logits, Reference, each


def several_again(
    run: SelectionRun | ScoresRun, exported: ExportedModel, reference: Reference, sample: int, seed: int
) -> list[Compared]:
    """Decide a random sample of a run's triplets of verbs of several tokens again.

    Args:
        run: A run with such verbs.
        exported: Its model.
        reference: What decides again.
        sample: How many to draw.
        seed: Of the choice.
    """
    rows = drawn(run.sentence_rows().filter(pl.col(TOKENS) > 1), sample, seed).collect()
    if isinstance(run, SelectionRun):  # it records no number but the decision
        kind = str(Precision.FP32 if was_exact(run) else Precision.MIXED)
        rows = rows.with_columns(precision=pl.lit(kind), answer=pl.lit(None, pl.String), rank=pl.lit(None, pl.Int32))
    tokenizer = exported.tokenizer

    def one(row: dict[str, Any]) -> Compared:
        name = f"{row['item']} ({row['expected']}) in {row['condition']}"
        is_exact = row["precision"] == Precision.FP32
        tokens = _tokens(row, tokenizer)
        if isinstance(tokens, str):
            return Compared(name, Verdict.WRONG, tokens, is_exact)
        asked = _asked(row, tokens, tokenizer, reference)
        verdict, why = asked.decision(row["repeated"])
        if verdict is Verdict.AGREES and is_exact:
            why = asked.numbers(row, tokenizer)
            verdict = Verdict.WRONG if why else verdict
        return Compared(name, verdict, why, is_exact)

    return each(rows.to_dicts(), one, reference.at_once)


def _contexts(row: dict[str, Any], tokenizer: MaskTokenizer) -> tuple[str, str]:
    """What stands before the masks of a text, and what follows them."""
    before, _, after = row["sentence"].partition(tokenizer.mask_token * row[TOKENS])
    return before, after


def _tokens(row: dict[str, Any], tokenizer: MaskTokenizer) -> tuple[int, ...] | str:
    """The verb's tokens in the very sentence; or why it does not have those that the run tells."""
    [found] = tokenizer.word_sequences([_contexts(row, tokenizer)], [row["expected"]])
    if isinstance(found, tuple) and len(found) != row[TOKENS]:
        return f"the verb has {len(found)} tokens, in the run {row[TOKENS]}"
    return found


def _asked(row: dict[str, Any], tokens: Sequence[int], tokenizer: MaskTokenizer, reference: Reference) -> "_Asked":
    before, after = _contexts(row, tokenizer)
    [single] = tokenizer.encode_masked([before + tokenizer.mask_token + after])
    mask = int(np.flatnonzero(single == tokenizer.mask_id)[0])
    found = []
    for filled in range(len(tokens)):
        masks = [tokenizer.mask_id] * (len(tokens) - filled)
        ids = np.array([*single[:mask], *tokens[:filled], *masks, *single[mask + 1 :]], np.int32)
        found.append(reference.at(ids, mask + filled))
    return _Asked(np.array(tokens), np.stack(found))


@dataclass(frozen=True, eq=False)
class _Asked:
    """The logits of a verb's queries.

    Attributes:
        tokens: int64 [k].
        logits: float32 [k, V].
    """

    tokens: NDArray[np.int64]
    logits: Logits

    @property
    def own(self) -> NDArray[np.float32]:
        """The logits of the verb's tokens, float32 [k]."""
        own: NDArray[np.float32] = self.logits[np.arange(len(self.tokens)), self.tokens]
        return own

    @property
    def margins(self) -> NDArray[np.float32]:
        """The logits of the verb's tokens minus the best others, float32 [k]."""
        others = self.logits.copy()
        others[np.arange(len(self.tokens)), self.tokens] = -np.inf
        margins: NDArray[np.float32] = self.own - others.max(axis=1)
        return margins

    def decision(self, repeated: bool) -> tuple[Verdict, str]:
        """Whether the verb is repeated, as the run says."""
        # Of equal logits the smaller id is first: a margin of 0 can be either.
        certainly, possibly = bool((self.margins > 0).all()), bool((self.margins >= 0).all())
        if possibly if repeated else not certainly:
            return Verdict.AGREES, ""
        # The one query that would have to come out in another way.
        least = float(self.margins.min())
        said = f"the verb was {'' if repeated else 'not '}repeated, but not so now (margin {abs(least):.2g} logits)"
        return Verdict.NEAR_TIE if abs(least) < NEAR_TIE else Verdict.WRONG, said

    def numbers(self, row: dict[str, Any], tokenizer: MaskTokenizer) -> str:
        """What differs of rank, log-probabilities and first choice; empty if nothing does."""
        own, k = self.own[:, None], len(self.tokens)
        lowest = 1 + int((self.logits > own + ROUNDING).sum(axis=1).max())
        highest = int((self.logits > own - ROUNDING).sum(axis=1).max())
        if row["rank"] is not None and not lowest <= row["rank"] <= max(lowest, highest):
            return f"rank {row['rank']}, but now {lowest}"
        logprobs = log_softmax(self.logits)
        sums = {
            "logprob": float(logprobs[np.arange(k), self.tokens].sum()),
            "answer_logprob": float(logprobs.max(axis=1).sum()),
        }
        for name, now in sums.items():
            if row[name] is not None and abs(row[name] - now) > k * ROUNDING * max(1.0, abs(now)):
                return f"{name} {row[name]:.4f}, but now {now:.4f}"
        best = np.sort(self.logits, axis=1)[:, -2:]
        if row["answer"] is None or (best[:, 1] - best[:, 0] < ROUNDING).any():
            return ""
        choices = self.logits.argmax(axis=1)
        wrong = np.flatnonzero(choices != self.tokens)
        now_said = tokenizer.word_text(choices[: wrong[0] + 1 if len(wrong) else k].tolist())
        return "" if now_said == row["answer"] else f"the first choice was {row['answer']!r}, but now {now_said!r}"
