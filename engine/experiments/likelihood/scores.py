"""The log-probability of each token of some sentences, from a masked or a causal model."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ...inference.causal import CausalLM
from ...inference.model import LanguageModel
from .choices import Method
from .encoding import Encoder, Sentence
from .queries import Queries, queries

_TOKENS_AT_ONCE = 2**18  # token ids of masked copies in memory: 1 MB, many batches on every device


def pseudo_logprobs(
    model: LanguageModel,
    encoder: Encoder,
    sentences: Sequence[Sentence],
    method: Method,
    longest: int,
    advance: Callable[[int], None],
) -> NDArray[np.float32]:
    """The log-probability of each scored token at its mask; see `queries`.

    Args:
        model: A masked model.
        encoder: The encoder of the sentences.
        sentences: The sentences.
        method: Which tokens are masked together.
        longest: The largest number of tokens that the model takes.
        advance: Called with the number of tokens that were scored; several threads may call it.

    Returns:
        float32 [scored tokens of all sentences], natural logarithms, sentence by sentence.
    """
    found = np.empty(sum(len(sentence.scored) for sentence in sentences), np.float32)
    for together in _together(_copies(encoder, sentences, method, longest)):
        groups = [(asked.ids, asked.position, asked.expected) for asked in together]
        for asked, decided in zip(together, model.decide_each(groups, advance), strict=True):
            found[asked.slot] = decided.expected_logprob
    return found


def _copies(encoder: Encoder, sentences: Sequence[Sentence], method: Method, longest: int) -> Iterator[Queries]:
    """All masked copies, as many at a time as may be in memory."""
    for group in encoder.groups(sentences, longest):
        at_once = max(1, _TOKENS_AT_ONCE // group.ids.shape[1])
        yield from queries(group, method, encoder.tokenizer.mask_id, at_once)


def _together(copies: Iterable[Queries]) -> Iterator[list[Queries]]:
    """Copies of several lengths, as many as may be in memory: the more of them, the less do cores wait."""
    held: list[Queries] = []
    for asked in copies:
        if held and sum(own.ids.size for own in held) + asked.ids.size > _TOKENS_AT_ONCE:
            yield held
            held = []
        held.append(asked)
    if held:
        yield held


def causal_logprobs(
    model: CausalLM, encoder: Encoder, sentences: Sequence[Sentence], longest: int, advance: Callable[[int], None]
) -> NDArray[np.float32]:
    """The log-probability of each scored token, given those before it; one run of a sentence gives all of them.

    Arguments and result are those of `pseudo_logprobs`; the model is a causal one.
    """
    found = np.empty(sum(len(sentence.scored) for sentence in sentences), np.float32)
    for group in encoder.groups(sentences, longest):
        for start in range(0, len(group.ids), size := model.batch_size(group.ids.shape[1])):
            slot = group.slot[start : start + size, 1:]
            wanted = slot >= 0
            found[slot[wanted]] = model.token_logprobs(group.ids[start : start + size])[wanted]
            advance(int(wanted.sum()))
    return found
