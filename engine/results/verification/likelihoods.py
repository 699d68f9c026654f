"""Likelihoods of sentences computed again, one token at a time: no batches, no vectors, no graph that decides."""

from math import sqrt
from typing import Any

from ...experiments.likelihood.choices import Method
from ...experiments.likelihood.encoding import Encoder, Ids, Sentence
from ...experiments.likelihood.runs import LikelihoodRun
from ...inference.exported import ExportedModel
from ...inference.free_text import log_softmax
from .agreement import ROUNDING, Compared, Verdict
from .reference import Reference, each

FEWER = 10
"""Of so many items that are asked for, one sentence is drawn: each of its tokens is a run of the model."""


def likelihoods_again(
    run: LikelihoodRun, exported: ExportedModel, reference: Reference, sample: int, seed: int
) -> list[Compared]:
    """Compare the log-likelihoods of a random sample of sentences.

    Args:
        run: A finished run.
        exported: Its model.
        reference: What computes them again.
        sample: How many items are asked for; see `FEWER`.
        seed: Of the choice.
    """
    encoder = Encoder(exported.tokenizer, exported.is_causal)

    def one(row: dict[str, Any]) -> Compared:
        [sentence] = encoder.encode([row["sentence"]])
        now = sum(
            _logprob(reference, sentence, position, run.method, encoder.tokenizer.mask_id, exported.max_length)
            for position in sentence.scored.tolist()
        )
        name = f"{row['item']} ({row['condition']})"
        if abs(now - row["logprob"]) <= ROUNDING * max(1.0, sqrt(len(sentence.scored))):
            return Compared(name, Verdict.AGREES)
        return Compared(name, Verdict.WRONG, f"log-likelihood {row['logprob']:.4f}, but now {now:.4f}")

    rows = run.sentences(sample=max(1, sample // FEWER), seed=seed)
    return each(rows.to_dicts(), one, reference.at_once)


def _logprob(
    reference: Reference, sentence: Sentence, position: int, method: Method | None, mask_id: int, longest: int
) -> float:
    """The log-probability of one token."""
    token, ids, place = int(sentence.ids[position]), sentence.ids.copy(), position
    if method is not None:
        ids[position] = mask_id
        word = int(sentence.word[position])
        for later in range(position + 1, len(ids)):
            if method is Method.WITHIN_WORD and word >= 0 and int(sentence.word[later]) == word:
                ids[later] = mask_id
    if len(ids) > longest:
        ids, place = _window(sentence, ids, position, longest, is_causal=method is None)
    return float(log_softmax(reference.at(ids, place))[token])


def _window(sentence: Sentence, ids: Ids, position: int, longest: int, *, is_causal: bool) -> tuple[Ids, int]:
    """The window of a token of a long sentence, and the token's place in it; see `encoding`."""
    first, stop = sentence.content.start, sentence.content.stop
    room = longest - first - (len(ids) - stop)
    if is_causal:
        start, step = first, max(1, room // 2)
        while start + room <= position:
            start += step
    else:
        start = min(max(position - room // 2, first), stop - room)
    kept = [*range(first), *range(start, min(start + room, stop)), *range(stop, len(ids))]
    return ids[kept], kept.index(position)
