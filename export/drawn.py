"""Texts as a language model knows them, drawn from the model itself: they show what a graph of low precision is worth.

Random tokens would not: on them a model is as uncertain as it never is on a text, so rounding decides.
"""

import inspect
from functools import partial
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel

from .checkpoint import Checkpoint
from .observe import told_in_one_line
from .parity import on_all_cores
from .samples import Sample, pattern_texts

_TEXTS, _AT_ONCE = 8, 4  # texts, and how many are drawn together
_ASKED = 8  # tokens of a text that are asked for
_BEGIN, _END = 2, 16  # tokens that a text of a causal model is given, and has at its end
_ROUNDS = 8  # in which the tokens of a masked model are drawn

Ids = NDArray[np.int64]
Logits = NDArray[np.float32]
Part = tuple[np.random.Generator, Ids]  # texts that are drawn together
Texts = tuple[Ids, dict[int, Logits]]  # drawn texts [n, L]; a place → the logits [n, K] of the tokens there


def drawn(model: PreTrainedModel, checkpoint: Checkpoint) -> list[Sample]:
    """Inputs that ask for tokens of the drawn texts, which they expect; none for a model of shorter texts.

    A causal model goes on with the beginnings of sentences, and its logits on the way are kept. A masked model begins
    with a mask for each token of a sentence, and fills them in several rounds (Ghazvininejad et al. 2019), each token
    with its own probability.
    """
    tokenizer, words = checkpoint.tokenizer, _words(checkpoint)
    sentences = islice(pattern_texts("not", _TEXTS), _TEXTS)
    encoded = [tokenizer(text, return_special_tokens_mask=True) for text in sentences]
    if checkpoint.is_causal:
        begun, places = np.array([own["input_ids"][:_BEGIN] for own in encoded]), np.arange(_BEGIN, _END)
        draw = partial(_continued, model, checkpoint.name, words)
    else:
        begun = np.array([encoded[0]["input_ids"]] * _TEXTS)
        places = np.flatnonzero(np.array(encoded[0]["special_tokens_mask"]) == 0)
        begun[:, places] = tokenizer.mask_token_id
        draw = partial(_filled, model, checkpoint.name, words, places)
    if max(begun.shape[1], int(places[-1]) + 1) > checkpoint.longest:
        return []
    parts = np.split(begun, _TEXTS // _AT_ONCE)
    asked = np.unique(places[np.linspace(0, len(places) - 1, _ASKED).astype(np.int64)]).tolist()
    found = []
    given = [(np.random.default_rng(number), part) for number, part in enumerate(parts)]
    for texts, logits in on_all_cores(draw, given):
        for row, text in enumerate(texts.astype(np.int32)):
            for at in asked:
                ids, expected = text[: at if checkpoint.is_causal else None].copy(), int(text[at])
                if not checkpoint.is_causal:
                    ids[at] = tokenizer.mask_token_id
                known = logits[at][row] if at in logits and at != asked[-1] else None
                found.append(Sample(ids, at - checkpoint.is_causal, expected=expected, is_known=True, logits=known))
    return found


def _continued(model: PreTrainedModel, name: str, words: Ids, part: Part) -> Texts:
    random, ids = part
    logits: dict[int, Logits] = {}
    while (at := ids.shape[1]) < _END:
        logits[at] = _logits(model, name, ids, logits_to_keep=1)[:, -1].copy()
        ids = np.concatenate([ids, _choice(random, logits[at], words)[:, None]], axis=1)
    return ids, logits


def _filled(model: PreTrainedModel, name: str, words: Ids, places: Ids, part: Part) -> Texts:
    random, ids = part
    for now in np.array_split(random.permutation(places), _ROUNDS):
        ids[:, now] = _choice(random, _logits(model, name, ids)[:, now], words)
    return ids, {}


def _words(checkpoint: Checkpoint) -> Ids:
    """The ids that a text can have."""
    tokenizer = checkpoint.tokenizer
    special = {*tokenizer.all_special_ids, checkpoint.padding_id}
    return np.array(sorted({own for own in tokenizer.get_vocab().values() if own < checkpoint.vocabulary} - special))


def _logits(model: PreTrainedModel, name: str, ids: Ids, **options: int) -> Logits:
    takes = inspect.signature(model.forward).parameters
    given = {key: own for key, own in {"use_cache": False, **options}.items() if key in takes}
    with torch.inference_mode(), told_in_one_line(name, f"running it in PyTorch on {ids.shape[1]} tokens"):
        found: Logits = model(input_ids=torch.from_numpy(ids), **given).logits.numpy()
    return found


def _choice(random: np.random.Generator, logits: Logits, words: Ids) -> Ids:
    """One of the words for each row of logits, with the model's probabilities (Gumbel 1954); [..., V] -> [...]."""
    among = logits[..., words]
    return np.asarray(words[np.argmax(among + random.gumbel(size=among.shape), axis=-1)])
