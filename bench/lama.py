"""`negengine bench lama`: of each fact, the answer's log-probability, and the correlation of a query with its negation.

The answers are float64 [n, 2]. LAMA's own program (`scripts/batch_eval_KB_completion.py` with
`lama/evaluation_metrics.py`) sorts facts by their words, pads batches of 32, and takes the log-softmax at all
positions. For each fact it makes a list of the first 10,000 tokens in Python and the correlation by scipy, in as many
threads as there are cores. At the end it pickles the lists. It can rank the tokens of a list alone; here all are
ranked, as in ours.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import stats

from ..engine.basics.errors import InputError
from ..engine.experiments.lama.facts import Fact, Facts, read_facts
from ..engine.experiments.lama.lama import SAME_AS_AFFIRMATIVE, Lama
from ..engine.inference.free_text import MASK
from ..engine.runs.stage import Stage, changed
from ..engine.text.tokenizer import NOT_ONE_TOKEN
from .made import made_facts, one_token_verbs
from .ours import OwnRun
from .shapes import Measured
from .subject import Measurement, largest_difference, mixed_up, of_paper
from .system import PAPER, Answers, Choice, Place
from .torch_models import Loop, TorchSystem

_BATCH, _TOP = 32, 10_000
_KEPT = 3


@dataclass(frozen=True, eq=False)
class Queries:
    """Facts with a query and its negation."""

    facts: tuple[Fact, ...]  # all of them count for the model
    gold: NDArray[np.int64]  # int64 [n], the tokens of their answers

    def __len__(self) -> int:
        return len(self.facts)

    def head(self, n: int) -> "Queries":
        return Queries(self.facts[:n], self.gold[:n])


def queries(measured: Measured, path: Path | None) -> Queries:
    """Facts that count for the model, in a random order. Raises InputError if there are none."""
    exported = measured.exported
    read = made_facts(one_token_verbs(exported)) if path is None else read_facts([path]).facts
    facts = [replace(fact, misprimed={}) for fact in read if fact.negated is not None]
    facts = [fact for fact in facts if (fact.corpus, fact.relation) != SAME_AS_AFFIRMATIVE]
    tokens = changed(Lama(), facts=Facts(tuple(facts), {})).stage(exported).tokens
    gold = np.array([tokens[fact.affirmative, fact.gold] for fact in facts])
    counting = mixed_up([row for row, token in enumerate(gold.tolist()) if token != NOT_ONE_TOKEN])
    if not counting:
        raise InputError(f"{path}: no fact has a negation, and an answer that is one token of {exported.name}")
    return Queries(tuple(facts[row] for row in counting), gold[counting].astype(np.int64))


class Paper(TorchSystem[Queries]):
    """LAMA's own program."""

    name = PAPER
    reference = True
    fewer = 4

    def about(self, choice: Choice) -> str:  # noqa: ARG002
        return (
            f"LAMA: batches of {_BATCH} padded, all log-probabilities; fact by fact, scipy and the first {_TOP:,} "
            "tokens, which are pickled"
        )

    def open(self, place: Place) -> None:
        super().open(place)
        known = self._tokenizer.convert_ids_to_tokens(list(range(len(self._tokenizer))))
        self._words = [*known, *[""] * (self._model.config.vocab_size - len(known))]
        self._threads = place.threads

    def run(self, work: Queries, choice: Choice) -> Answers:  # noqa: ARG002
        order = sorted(range(len(work)), key=lambda row: len(work.facts[row].affirmative.split()))
        found, results = np.empty((len(work), 2)), []
        with ThreadPool(self._threads) as pool, TemporaryFile() as file:
            for start in range(0, len(order), _BATCH):
                rows = order[start : start + _BATCH]
                facts = [work.facts[row] for row in rows]
                sides = [
                    self._logprobs([fact.affirmative for fact in facts]),
                    self._logprobs([str(fact.negated) for fact in facts]),
                ]
                pairs = list(zip(*sides, work.gold[rows].tolist(), strict=True))
                ranked = pool.map(self._ranking, pairs)
                logprobs = [logprob for _, logprob in ranked]
                found[rows] = np.stack([logprobs, pool.map(self._correlation, pairs)], axis=1)
                results += [first for first, _ in ranked]
            pickle.dump(results, file)
        return found

    def _logprobs(self, texts: Sequence[str]) -> Iterator[tuple[torch.Tensor, int]]:
        """The log-probabilities at all positions of each text, and the position of its mask."""
        masked = [text.replace(MASK, self._tokenizer.mask_token) for text in texts]
        encoded = self._tokenizer(masked, padding=True, return_tensors="pt").to(self._device)
        with torch.inference_mode():
            logprobs = self._model(**encoded).logits.log_softmax(-1).cpu()
        positions = (encoded["input_ids"] == self._tokenizer.mask_token_id).int().argmax(1)
        yield from zip(logprobs, positions.tolist(), strict=True)

    def _ranking(self, pair: tuple[Any, Any, int]) -> tuple[list[dict[str, Any]], float]:
        (logprobs, position), _, gold = pair
        own = logprobs[position]
        values, ids = (column.numpy() for column in own.topk(min(_TOP, len(own))))
        first = []
        for place in range(len(ids)):  # number by number, as the program does it
            token = ids[place].item()
            entry = {"place": place, "token": token, "logprob": values[place].item(), "word": self._words[token]}
            first.append(entry)
        (ids == gold).nonzero()
        return first, float(own[gold])

    @staticmethod
    def _correlation(pair: tuple[Any, Any, int]) -> float:
        sides = [logprobs[position] for logprobs, position in pair[:2]]
        for own in sides:
            own.topk(1)
        return float(stats.spearmanr(*(own.numpy() for own in sides))[0])


class QueryLoop(Loop[Queries]):
    """Both queries of all facts sorted; ranks and correlations of a batch at once."""

    def run(self, work: Queries, choice: Choice) -> Answers:
        found, size = np.empty((len(work), 2)), choice["batch"]
        for start in range(0, len(work), 8 * size):  # logits of some batches at a time are in memory
            own = work.facts[start : start + 8 * size]
            affirmative = self._logits([fact.affirmative for fact in own], size)
            negated = self._logits([str(fact.negated) for fact in own], size)
            gold = torch.from_numpy(work.gold[start : start + len(own)]).to(affirmative.device)[:, None]
            answer = affirmative.gather(1, gold)
            (affirmative > answer).sum(1)  # the rank
            for side in (affirmative, negated):
                (side.topk(_KEPT).values - side.logsumexp(1, keepdim=True)).tolist()
            rows = slice(start, start + len(own))
            found[rows, 0] = (answer - affirmative.logsumexp(1, keepdim=True))[:, 0].cpu().numpy()
            found[rows, 1] = _correlations(affirmative, negated)
        return found

    def _logits(self, texts: Sequence[str], size: int) -> torch.Tensor:
        rows, found = zip(*self.batches(texts, size), strict=True)
        together = torch.cat(found)
        back = torch.from_numpy(np.argsort(np.concatenate(rows), kind="stable")).to(together.device)
        return together[back]


class Own(OwnRun[Queries]):
    """`negengine lama`."""

    command = "lama"

    def any_stage(self) -> Stage[Any, Any]:
        return self._stage(())

    def run(self, work: Queries, choice: Choice) -> Answers:  # noqa: ARG002
        return self.items(self._stage(work.facts), ["gold_logprob", "spearman"]).to_numpy().astype(np.float64)

    def _stage(self, facts: tuple[Fact, ...]) -> Stage[Any, Any]:
        return changed(Lama(with_p159=True), facts=Facts(facts, {})).stage(self.exported)


def _correlations(one: torch.Tensor, other: torch.Tensor) -> NDArray[np.float64]:
    """Spearman's correlation of each row of two tensors, float64 [n]."""
    ranks = [stats.rankdata(own.cpu().numpy(), axis=1) for own in (one, other)]
    centred = [own - own.mean(axis=1, keepdims=True) for own in ranks]
    scale = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    found: NDArray[np.float64] = (centred[0] * centred[1]).sum(axis=1) / scale
    return found


def _measurements(measured: Measured, path: Path | None) -> list[Measurement[Queries]]:
    return [Measurement([Paper(), QueryLoop(), QueryLoop(row_alone=True), Own()], queries(measured, path).head)]


SUBJECT = of_paper("lama", "facts", largest_difference, measurements=_measurements, data="negated-lama")
