"""`negengine bench lama`: of each fact, the answer's log-probability, and the correlation of a query with its negation.

LAMA's own program (`scripts/batch_eval_KB_completion.py` with `lama/evaluation_metrics.py`) sorts facts by their words,
pads batches of 32, and takes the log-softmax at all positions; then it goes on fact by fact in Python.
"""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from scipy import stats

from ..engine.basics.errors import InputError
from ..engine.experiments.lama.facts import Fact, Facts, read_facts
from ..engine.experiments.lama.lama import SAME_AS_AFFIRMATIVE, Lama
from ..engine.inference.exported import ExportedModel
from ..engine.inference.free_text import MASK
from ..engine.runs.stage import Stage, changed
from ..engine.text.tokenizer import NOT_ONE_TOKEN
from .made import made_facts, one_token_verbs
from .ours import OwnRun
from .shapes import Measured
from .subject import Measurement, Subject, mixed_up
from .system import PAPER, Answers, Choice, Items, Place
from .torch_models import Loop, TorchSystem

_BATCH, _TOP = 32, 10_000
_KEPT = 3

# Facts with a query and its negation, all of which count for the model, and the tokens of their answers.
Queries = Items[tuple[Fact, int]]


def queries(measured: Measured, path: Path | None) -> Queries:
    """Facts in a random order. Raises InputError if none counts for the model."""
    exported = measured.exported
    read = made_facts(one_token_verbs(exported)) if path is None else read_facts([path]).facts
    facts = [replace(fact, misprimed={}) for fact in read if fact.negated is not None]
    facts = [fact for fact in facts if (fact.corpus, fact.relation) != SAME_AS_AFFIRMATIVE]
    tokens = changed(Lama(), facts=Facts(tuple(facts), {})).stage(exported).tokens
    gold = [int(tokens[fact.affirmative, fact.gold]) for fact in facts]
    counting = mixed_up([row for row, token in enumerate(gold) if token != NOT_ONE_TOKEN])
    if not counting:
        raise InputError(f"{path}: no fact has a negation, and an answer that is one token of {exported.name}")
    return Queries(tuple((facts[row], gold[row]) for row in counting))


class Paper(TorchSystem[Queries]):
    """LAMA's own program."""

    name = PAPER
    said = (
        f"LAMA: batches of {_BATCH} padded, all log-probabilities; fact by fact, scipy and the first {_TOP:,} tokens, "
        "which are pickled"
    )
    reference = True
    fewer = 4

    def open(self, place: Place) -> None:
        super().open(place)
        known = self._tokenizer.convert_ids_to_tokens(list(range(len(self._tokenizer))))
        self._words = [*known, *[""] * (self._model.config.vocab_size - len(known))]
        self._threads = place.threads

    def run(self, work: Queries, choice: Choice) -> Answers:  # noqa: ARG002
        order = sorted(range(len(work)), key=lambda row: len(work.items[row][0].affirmative.split()))
        found, results = np.empty((len(work), 2)), []
        with ThreadPool(self._threads) as pool, TemporaryFile() as file:
            for start in range(0, len(order), _BATCH):
                rows = order[start : start + _BATCH]
                facts, gold = zip(*(work.items[row] for row in rows), strict=True)
                texts = [fact.affirmative for fact in facts], [str(fact.negated) for fact in facts]
                sides = [self._logprobs(own) for own in texts]
                pairs = list(zip(*sides, gold, strict=True))
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
            first.append({"place": place, "token": token, "logprob": values[place].item(), "word": self._words[token]})
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
            own, gold = zip(*work.items[start : start + 8 * size], strict=True)
            affirmative = self._logits([fact.affirmative for fact in own], size)
            negated = self._logits([str(fact.negated) for fact in own], size)
            answer = affirmative.gather(1, torch.tensor(gold, device=affirmative.device)[:, None])
            (affirmative > answer).sum(1)  # the rank
            for side in (affirmative, negated):
                (side.topk(_KEPT).values - side.logsumexp(1, keepdim=True)).tolist()
            rows = slice(start, start + len(own))
            found[rows, 0] = (answer - affirmative.logsumexp(1, keepdim=True))[:, 0].cpu().numpy()
            ranks = [stats.rankdata(side.cpu().numpy(), axis=1) for side in (affirmative, negated)]
            one, other = (own - own.mean(axis=1, keepdims=True) for own in ranks)
            found[rows, 1] = (one * other).sum(axis=1) / np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
        return found

    def _logits(self, texts: Sequence[str], size: int) -> torch.Tensor:
        rows, found = zip(*self.batches(texts, size), strict=True)
        together = torch.cat(found)
        back = torch.from_numpy(np.argsort(np.concatenate(rows), kind="stable")).to(together.device)
        return together[back]


def _stage(exported: ExportedModel, items: Sequence[tuple[Fact, int]]) -> Stage[Any, Any]:
    return changed(Lama(with_p159=True), facts=Facts(tuple(fact for fact, _ in items), {})).stage(exported)


def _measurements(measured: Measured, path: Path | None) -> list[Measurement]:
    own = OwnRun("lama", _stage, ["gold_logprob", "spearman"])
    return [Measurement([Paper(), QueryLoop(), QueryLoop(row_alone=True), own], queries(measured, path).head)]


SUBJECT = Subject("lama", "facts", _measurements, data="negated-lama")
