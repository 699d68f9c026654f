"""`negengine bench likelihood`: likelihoods of sentences, against minicons and against a loop in PyTorch.

All systems give the sum of the log-probabilities of each sentence, float64 [n]: every measurement is also a check that
all compute the same.
"""

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from ..engine.inference.exported import load_exported
from ..engine.inference.spans import Encoder, Method, causal_logprobs, pseudo_logprobs
from ..engine.text.lexicon import load_lexicon
from ..export.quiet import quiet
from .rounds import Effort
from .shapes import Measured
from .subject import Measurement, Subject
from .system import LOOP, Answers, Choice, Fp32, Items, Place, System
from .torch_models import Loop, TorchSystem

CACHED = "PyTorch, loop with KV cache"
_AT_A_TIME = (1, 4, 16, 64)  # sentences that minicons is given
Texts = Items[str]


def sentences(n: int, seed: int = 0) -> Texts:
    """Sentences of the bundled lexicon: `Jessica is a dancer who likes to smoke.`, about 12 tokens."""
    lexicon, random = load_lexicon(), np.random.default_rng(seed)
    drawn = [random.integers(0, len(words), n) for words in (lexicon.names, lexicon.professions, lexicon.verbs)]
    return Texts(
        tuple(
            f"{lexicon.names[name]} is {lexicon.professions[profession]} who likes to {lexicon.verbs[verb]}."
            for name, profession, verb in zip(*(own.tolist() for own in drawn), strict=True)
        )
    )


def pairs(n: int) -> Texts:
    """Minimal pairs, a good sentence and then the bad one, which differs in one word: early, in the middle, or late."""
    words = ((" is ", " are "), (" likes ", " like "), (".", "s."))
    every = enumerate(sentences((n + 1) // 2).items)
    return Texts(tuple(own for number, good in every for own in (good, good.replace(*words[number % 3], 1)))).head(n)


class CausalLoop(Loop[Texts]):
    """Sentences through a causal model, with the logits of all tokens."""

    kind = AutoModelForCausalLM

    def run(self, work: Texts, choice: Choice) -> Answers:
        found = np.zeros(len(work))
        encoded = self._tokenizer(list(work.items), return_special_tokens_mask=True)
        for rows, padded in self.padded(encoded["input_ids"], choice["batch"]):
            logprobs = self._model(**padded).logits[:, :-1].log_softmax(-1)
            scores = logprobs.gather(2, padded["input_ids"][:, 1:, None])[:, :, 0].double().cpu().numpy()
            for place, row in enumerate(rows.tolist()):
                special = np.array(encoded["special_tokens_mask"][row][1:], bool)
                found[row] = scores[place, : len(special)][~special].sum()
        return found


class CachedLoop(TorchSystem[Texts]):
    """Pairs of sentences, one after the other: keys and values of what a pair shares are computed once."""

    kind = AutoModelForCausalLM
    name, said = CACHED, "one pair at a time, whose beginning is read once"

    def run(self, work: Texts, choice: Choice) -> Answers:  # noqa: ARG002
        found: list[float] = []
        encoded = self._tokenizer(list(work.items), return_special_tokens_mask=True)
        for start in range(0, len(work), 2):
            pair = [np.array(ids) for ids in encoded["input_ids"][start : start + 2]]
            same = pair[0][: min(map(len, pair)) - 1] == pair[-1][: min(map(len, pair)) - 1]
            shared = len(same) if same.all() else int(same.argmin())
            with torch.inference_mode():
                begun = self._model(torch.from_numpy(pair[0][None, :shared]), use_cache=True)
                for ids, special in zip(pair, encoded["special_tokens_mask"][start:], strict=False):
                    cache = copy.deepcopy(begun.past_key_values)
                    rest = self._model(torch.from_numpy(ids[None, shared:]), past_key_values=cache)
                    logprobs = torch.cat([begun.logits[0], rest.logits[0]])[:-1].log_softmax(-1)
                    own = logprobs[torch.arange(len(ids) - 1), torch.from_numpy(ids[1:])]
                    found.append(own[torch.tensor(special[1:]) == 0].double().sum().item())
        return np.array(found)


class MaskedLoop(Loop[Texts]):
    """The masked copies of all sentences, sorted by length."""

    def run(self, work: Texts, choice: Choice) -> Answers:
        found = np.zeros(len(work))
        encoded = self._tokenizer(list(work.items), return_special_tokens_mask=True)
        copies = []  # number of the sentence, ids, position, token
        for row, (ids, special) in enumerate(zip(encoded["input_ids"], encoded["special_tokens_mask"], strict=True)):
            for place in np.flatnonzero(np.array(special) == 0).tolist():
                masked = [*ids[:place], self._tokenizer.mask_token_id, *ids[place + 1 :]]
                copies.append((row, masked, place, ids[place]))
        owner, masked_ids, position, token = zip(*copies, strict=True)
        for rows, padded in self.padded(masked_ids, choice["batch"]):
            logits = self.at(padded, torch.tensor(np.take(position, rows)))
            scores = logits[torch.arange(len(rows)), torch.tensor(np.take(token, rows))] - logits.logsumexp(1)
            np.add.at(found, np.take(owner, rows), scores.double().cpu().numpy())
        return found


class Minicons(System[Texts]):
    """minicons' MaskedLMScorer or IncrementalLMScorer, with the number of sentences at a time that is fastest."""

    name, said = "minicons", "{batch} sentences at a time"
    needs = ("minicons",)

    def choices(self, place: Place) -> Sequence[Choice]:  # noqa: ARG002
        return [{"batch": size} for size in _AT_A_TIME]

    def open(self, place: Place) -> None:
        from minicons import scorer  # noqa: PLC0415 - optional

        torch.set_num_threads(place.threads)
        is_causal = load_exported(place.exported).is_causal
        kind = scorer.IncrementalLMScorer if is_causal else scorer.MaskedLMScorer
        with quiet(), warnings.catch_warnings(action="ignore"):
            self._model = kind(place.checkpoint, place.torch_device)
        self._model.tokenizer.batch_encode_plus = self._model.tokenizer.__call__  # transformers 5 has no other name
        # Of a causal model it also scores a special token at the end, if the tokenizer adds one; the others do not.
        special = self._model.tokenizer("a", return_special_tokens_mask=True)["special_tokens_mask"]
        self._added = special[-1] if is_causal else 0

    def run(self, work: Texts, choice: Choice) -> Answers:
        found: list[float] = []
        for start in range(0, len(work), choice["batch"]):
            texts = list(work.items[start : start + choice["batch"]])
            found += self._model.sequence_score(
                texts, reduction=lambda own: own[: len(own) - self._added].sum(0).item()
            )
        return np.array(found)


class Own(Fp32[Texts]):
    """`negengine likelihood` without its files."""

    def open(self, place: Place) -> None:
        super().open(place)
        self._encoder = Encoder(self._exported.tokenizer, self._exported.is_causal)

    def run(self, work: Texts, choice: Choice) -> Answers:  # noqa: ARG002
        model, encoder, longest = self._model, self._encoder, self._exported.max_length
        encoded = encoder.encode(work.items)
        if self._exported.is_causal:
            found = causal_logprobs(model, encoder, encoded, longest, lambda _: None)  # type: ignore[arg-type]
        else:
            found = pseudo_logprobs(model, encoder, encoded, Method.ORIGINAL, longest, lambda _: None)
        counts = np.array([len(one.scored) for one in encoded])
        sums: Answers = np.add.reduceat(found.astype(np.float64), np.cumsum(counts) - counts)
        return sums


def _measurements(measured: Measured, *_: object) -> Iterator[Measurement]:
    is_causal = measured.exported.is_causal
    encoder = Encoder(measured.exported.tokenizer, is_causal)
    loops: list[System[Texts]] = (
        [CausalLoop(), CachedLoop()] if is_causal else [MaskedLoop(), MaskedLoop(row_alone=True)]
    )

    def known(work: Texts) -> dict[str, Any]:
        tokens = np.mean([len(one.ids) for one in encoder.encode(work.items)])
        return {"causal": is_causal, "tokens": float(tokens)}

    yield Measurement([*loops, Minicons(), Own()], pairs if is_causal else sentences, known)


SUBJECT = Subject(
    "likelihood",
    "sentences",
    _measurements,
    Effort(tried=16, fewest=32),
    times={"times minicons": Minicons.name, "times loop": LOOP, "times cached loop": CACHED},
    described=lambda found: f"{'in minimal pairs, ' * found['causal']}of {found['tokens']:.1f} tokens, fp32",
)
