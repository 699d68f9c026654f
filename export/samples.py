"""The inputs on which an export is compared: sentences of the real patterns and strings of random tokens."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..engine.basics.errors import InputError
from ..engine.text.lexicon import Lexicon, load_lexicon
from ..engine.text.pattern_files import load_patterns
from ..engine.text.tokenizer import MASK_TOKEN
from .checkpoint import Checkpoint
from .observe import Feeds

USUAL = 512  # tokens; of longer inputs the values are compared with PyTorch, and not measured
_SENTENCES_PER_PATTERN = 8
_PAIRS = 24
_AT_ONCE = 16  # samples of one length in a batch


@dataclass(frozen=True, eq=False)
class Sample:
    """One input of a model."""

    ids: NDArray[np.int32]  # [L], with special tokens
    position: int | None = None  # of the mask; None where the logits are one row for the whole input, or one a token
    segments: NDArray[np.int32] | None = None  # [L], 0 for a first text, 1 for a second; None where none are taken
    expected: int | None = None  # the token that the model drew at the mask, or behind the position
    is_known: bool = False  # whether the model knows such texts: it drew them, or people write such pairs
    # PyTorch's, float32 [K], of the beginning of another sample of a causal model: one run of that shows both.
    logits: NDArray[np.float32] | None = None


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples of one length: their numbers among all, and their inputs to a finished graph."""

    numbers: list[int]
    feeds: Feeds


def with_masks(checkpoint: Checkpoint, _: bool) -> Sequence[Sample]:
    """Sentences of all bundled patterns, and strings of random tokens with one mask."""
    tokenizer = checkpoint.tokenizer
    mask = tokenizer.mask_token_id
    found = []
    for text in pattern_texts(tokenizer.mask_token):
        ids = _encoded(checkpoint, text)
        (positions,) = np.nonzero(ids == mask)
        if len(positions) != 1:
            raise InputError(f"{checkpoint.name}: its tokenizer does not keep {tokenizer.mask_token} whole")
        if len(ids) <= checkpoint.longest:
            found.append(Sample(ids, int(positions[0])))
    # No mask but the one, and no padding: where it stands, PyTorch counts positions anew in some families.
    for ids, position in _random_strings(checkpoint, {mask, tokenizer.pad_token_id}):
        ids[position] = mask
        found.append(Sample(ids, position))
    return found


def before_masks(checkpoint: Checkpoint, _: bool) -> Sequence[Sample]:
    """Sentences of all bundled patterns up to their masks, and strings of random tokens."""
    found = []
    for text in pattern_texts(MASK_TOKEN):
        before, _mask, _after = text.partition(MASK_TOKEN)
        ids = _encoded(checkpoint, before.removesuffix(" "))
        if len(ids) and ids[-1] == checkpoint.tokenizer.eos_token_id:  # the text goes on
            ids = ids[:-1]
        if 1 < len(ids) <= checkpoint.longest:
            found.append(Sample(ids, len(ids) - 1))
    special = checkpoint.tokenizer.all_special_ids
    # In the random strings any row is asked for, not the last one alone.
    return [*found, *(Sample(ids, position) for ids, position in _random_strings(checkpoint, special))]


def of_pairs(checkpoint: Checkpoint, segments: bool) -> Sequence[Sample]:
    """Text pairs, and strings of random tokens whose second half is the second text."""
    found = []
    lexicon = load_lexicon()
    for i in range(_PAIRS):
        name, profession, verb, _ = _fillers(lexicon, i, _PAIRS).values()
        text = f"{name} is {profession} who {'likes' if i % 2 else 'does not like'} to {verb}." * (1 + i % 3)
        encoding = checkpoint.tokenizer(text, f"{name} {'likes' if i % 3 else 'never liked'} to {verb}, after all.")
        ids = np.array(encoding["input_ids"][: checkpoint.longest], np.int32)
        second = np.array(encoding.get("token_type_ids", [0] * len(ids))[: len(ids)], np.int32)
        found.append(Sample(ids, segments=second if segments else None, is_known=True))
    for ids, _ in _random_strings(checkpoint, checkpoint.tokenizer.all_special_ids):
        second = (np.arange(len(ids)) * 2 >= len(ids)).astype(np.int32)
        found.append(Sample(ids, segments=second if segments else None))
    return found


def of_sentences(checkpoint: Checkpoint, _: bool) -> Sequence[Sample]:
    """Sentences of all bundled patterns with a word at the mask, and strings of random tokens."""
    sentences = [_encoded(checkpoint, text) for text in pattern_texts("not")]
    random = [ids for ids, _ in _random_strings(checkpoint, checkpoint.tokenizer.all_special_ids)]
    return [Sample(ids) for ids in [*(ids for ids in sentences if len(ids) <= checkpoint.longest), *random]]


def _encoded(checkpoint: Checkpoint, text: str) -> NDArray[np.int32]:
    return np.array(checkpoint.tokenizer(text)["input_ids"], np.int32)


def pattern_texts(word: str, n: int = _SENTENCES_PER_PATTERN) -> Iterator[str]:
    """So many sentences of each bundled pattern, with a word at the mask."""
    lexicon = load_lexicon()
    for pattern in load_patterns().all:
        for i in range(n):
            yield pattern.text(_fillers(lexicon, i, n), word)


def _fillers(lexicon: Lexicon, i: int, n: int) -> dict[str, str]:
    """The i-th of n fillers, which are spread over the lists."""
    name = i * len(lexicon.names) // n
    profession, verb = lexicon.professions[7 * i % len(lexicon.professions)], lexicon.verbs[37 * i % len(lexicon.verbs)]
    pronoun = lexicon.pronouns[lexicon.genders[name]]
    return {"NAME": lexicon.names[name], "PROF": profession, "ACT": verb, "PRON": pronoun}


def _random_strings(checkpoint: Checkpoint, special: Iterable[int]) -> Iterator[tuple[NDArray[np.int32], int]]:
    """A string of random tokens for each length that is compared, and a position in it."""
    tokens = np.array(sorted(set(range(checkpoint.vocabulary)) - {checkpoint.padding_id, *special}), np.int32)
    random = np.random.default_rng(0)
    for length in checkpoint.compared_lengths:
        yield random.choice(tokens, length), int(random.integers(length))


def whole(samples: Sequence[Sample]) -> list[int]:
    """The numbers of the samples that are not the beginning of another one."""
    return [number for number, sample in enumerate(samples) if sample.logits is None]


def batches(samples: Sequence[Sample], asked: Iterable[int]) -> list[Batch]:
    """The samples of these numbers as inputs of a finished graph, in batches of one length."""
    by_length: dict[int, list[int]] = {}
    for number in asked:
        by_length.setdefault(len(samples[number].ids), []).append(number)
    groups = [same[i : i + _AT_ONCE] for _, same in sorted(by_length.items()) for i in range(0, len(same), _AT_ONCE)]
    found = []
    for numbers in groups:
        own = [samples[number] for number in numbers]
        feeds = {
            "input_ids": np.stack([sample.ids for sample in own]),
            "mask_position": np.array([sample.position or 0 for sample in own], np.int32),
            "expected_id": np.array([sample.expected or 0 for sample in own], np.int32),
        }
        segments = [sample.segments for sample in own if sample.segments is not None]
        found.append(Batch(numbers, feeds | ({"token_type_ids": np.stack(segments)} if segments else {})))
    return found
