"""From sentences to scores: token ids, masked copies, log-probabilities of tokens; special tokens are not scored.

Pseudo-log-likelihoods are sums of the log-probabilities of masked tokens. The masked copies of a sentence:

    original          each token is masked alone (Salazar, Liang, Nguyen and Kirchhoff 2020, "Masked Language Model
                      Scoring", section 2)
    within-word-l2r   with a token, those after it in the same word are masked, too: otherwise the pieces of a long
                      word give each other away (Kauf and Ivanova 2023, "A Better Way to Do Masked Language Model
                      Scoring", section 2)

A sentence that is longer than the model is refused, or scored in windows of the W tokens that fit. In a masked model
each token has its own: the W tokens nearest to it (one more on its left if W is even). Those of a causal model begin
every W / 2 tokens, rounded down; each scores the tokens that the window before did not reach.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from ..basics.errors import InputError
from ..basics.reading import MOST_JSON, parse_json, read_regular
from ..text.spelling import joiner as usual_joiner
from ..text.token_ids import rows_by_length
from ..text.tokenizer import MaskTokenizer
from ..text.word_marks import Mark, WordClass, WordMarks
from .batches import Steps, finished, gathered
from .causal import LOGITS, LOGPROBS, CausalLM
from .exported import ExportedModel
from .model import LanguageModel

Ids = NDArray[np.int32]
NO_WORD = -1
_WINDOWS_AT_ONCE = 256
TOKENS_AT_ONCE = 2**18  # token ids of masked copies in memory: 1 MB, many batches on every device


class Method(StrEnum):
    """How a masked language model scores a sentence."""

    ORIGINAL = "original"
    WITHIN_WORD = "within-word-l2r"


def behind(before: str, text: str, joiner: str | None = None) -> tuple[str, int]:
    """Two texts without white space at their ends, as a model reads them; how many first characters are not scored.

    `joiner` is what stands between them, by default a space, or nothing between scripts without spaces. The space
    before a word is a part of its token, so it is scored.
    """
    whole = before + (usual_joiner(before, text) if joiner is None else joiner) + text
    return whole, len((before + (joiner or "")).rstrip())


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence of L tokens as the model reads it."""

    ids: Ids  # [L], special tokens included
    scored: NDArray[np.int64]  # [n], the positions of the scored tokens, ascending
    word: Ids  # [L], the number of its word, as the tokenizer divides the text first; `NO_WORD` for special tokens
    start: Ids  # [L], the first character that a token covers
    content: slice  # from the first token of the text to behind its last one

    @property
    def tokens(self) -> Ids:
        return self.ids[self.scored]


@dataclass(frozen=True, eq=False)
class Group:
    """Rows of one length that a model reads: sentences, or windows of long ones."""

    ids: Ids  # [m, L]
    word: Ids  # [m, L], as in `Sentence`
    slot: NDArray[np.int64]  # [m, L], where a token's score belongs in those of all sentences; -1: not scored


@dataclass(frozen=True)
class Encoder:
    """How texts become sentences."""

    tokenizer: MaskTokenizer
    is_causal: bool = False

    @classmethod
    def of(cls, exported: ExportedModel, *, bos: bool) -> "Encoder":
        """Raises InputError if the model cannot begin a text with its BOS token."""
        return cls(exported.tokenizer_with(bos=bos), exported.is_causal)

    def encode(self, texts: Sequence[str], behind: Sequence[int] | None = None) -> list[Sentence]:
        """`behind` says for each text how many of its first characters are given, and not scored."""
        encodings = self.tokenizer.backend.encode_batch(list(texts))
        return [self._sentence(*own) for own in zip(encodings, behind or [0] * len(texts), strict=True)]

    def _sentence(self, encoding: Encoding, given: int) -> Sentence:
        ids = np.array(encoding.ids, np.int32)
        words = [NO_WORD if number is None else number for number in encoding.word_ids]
        start, stop = np.array(encoding.offsets, np.int32).reshape(len(ids), 2).T
        (content,) = np.nonzero(np.array(encoding.special_tokens_mask, np.int32) == 0)
        first, last = (int(content[0]), int(content[-1]) + 1) if len(content) else (len(ids), len(ids))
        scored = content[stop[content] > given] if given else content
        scored = scored[scored > 0] if self.is_causal else scored
        return Sentence(ids, scored.astype(np.int64), np.array(words, np.int32), start, slice(first, last))

    def alone(self, sentence: Sentence) -> Sentence:
        """The scored tokens without the text before them; of a causal model, a first one has no score."""
        content, n = sentence.content, len(sentence.scored)
        kept = np.r_[: content.start, sentence.scored, content.stop : len(sentence.ids)]
        scored = np.arange(content.start, content.start + n)
        scored = scored[scored > 0] if self.is_causal else scored
        own = sentence.ids[kept], scored, sentence.word[kept], sentence.start[kept]
        return Sentence(*own, slice(content.start, content.start + n))

    def groups(self, sentences: Sequence[Sentence], longest: int) -> Iterator[Group]:
        """Everything that a model must read to score some sentences; those of more than `longest` tokens in windows."""
        slots = np.cumsum([0, *(len(sentence.scored) for sentence in sentences)])
        short = [number for number, sentence in enumerate(sentences) if len(sentence.ids) <= longest]
        for rows in rows_by_length([sentences[number].ids for number in short]):
            group = [(sentences[short[row]], int(slots[short[row]])) for row in rows.tolist()]
            yield Group(
                np.stack([sentence.ids for sentence, _ in group]),
                np.stack([sentence.word for sentence, _ in group]),
                np.stack([_slots(sentence, first) for sentence, first in group]),
            )
        for number, sentence in enumerate(sentences):
            if len(sentence.ids) > longest:
                windows = _strided if self.is_causal else _centred
                yield from windows(sentence, _slots(sentence, int(slots[number])), longest)


def _slots(sentence: Sentence, first: int) -> NDArray[np.int64]:
    slot = np.full(len(sentence.ids), -1, np.int64)
    slot[sentence.scored] = first + np.arange(len(sentence.scored))
    return slot


def _centred(sentence: Sentence, slot: NDArray[np.int64], longest: int) -> Iterator[Group]:
    """A window for each scored token of a masked model, some at a time."""
    around = _room(sentence, longest)
    first, n = sentence.content.start, sentence.content.stop - sentence.content.start
    for begin in range(0, len(sentence.scored), _WINDOWS_AT_ONCE):
        own = sentence.scored[begin : begin + _WINDOWS_AT_ONCE]
        starts = first + np.clip(own - first - around // 2, 0, n - around)
        taken = [_window(sentence, start, around) for start in starts.tolist()]
        only = np.stack([np.where(place == token, slot[token], -1) for place, token in zip(taken, own, strict=True)])
        places = np.stack(taken)
        yield Group(sentence.ids[places], sentence.word[places], only)


def _strided(sentence: Sentence, slot: NDArray[np.int64], longest: int) -> Iterator[Group]:
    """Windows of a causal model, each half a window behind the one before."""
    room = _room(sentence, longest)
    first, stop = sentence.content.start, sentence.content.stop
    reached = first
    for start in range(first, stop, max(1, room // 2)):
        width = min(room, stop - start)
        places = _window(sentence, start, width)
        own = np.where((places >= reached) & (places < stop), slot[places], -1)
        yield Group(sentence.ids[places][None], sentence.word[places][None], own[None])
        reached = start + width
        if reached == stop:
            return


def _room(sentence: Sentence, longest: int) -> int:
    """How many tokens of a text fit between its special tokens."""
    content = int(sentence.content.stop) - int(sentence.content.start)
    return longest - (len(sentence.ids) - content)


def _window(sentence: Sentence, start: int, width: int) -> NDArray[np.int64]:
    """The positions of a window: the special tokens before the text, some of its tokens, those behind it."""
    before = np.arange(sentence.content.start)
    behind = np.arange(sentence.content.stop, len(sentence.ids))
    return np.concatenate([before, np.arange(start, start + width), behind])


@dataclass(frozen=True, eq=False)
class Queries:
    """Masked copies of one length."""

    ids: Ids  # [q, L]
    position: Ids  # [q], of the mask that is asked for
    expected: Ids  # [q], the token that stands there in the sentence
    slot: NDArray[np.int64]  # [q], where its log-probability belongs


def queries(group: Group, method: Method, mask_id: int, at_once: int) -> Iterator[Queries]:
    """The masked copies of some rows, at most `at_once` in memory."""
    owners, positions = np.nonzero(group.slot >= 0)
    columns = np.arange(group.ids.shape[1])
    for start in range(0, len(owners), at_once):
        owner, position = owners[start : start + at_once], positions[start : start + at_once]
        ids, every = group.ids[owner], np.arange(len(owner))
        expected = ids[every, position]
        if method is Method.WITHIN_WORD:
            word = group.word[owner]
            own = word[every, position][:, None]
            ids[(word == own) & (own >= 0) & (columns > position[:, None])] = mask_id
        ids[every, position] = mask_id
        yield Queries(ids, position.astype(np.int32), expected, group.slot[owner, position])


def pseudo_logprobs(
    model: LanguageModel,
    encoder: Encoder,
    sentences: Sequence[Sentence],
    method: Method,
    longest: int,
    advance: Callable[[int], None],
) -> NDArray[np.float32]:
    """The log-probability of each scored token at its mask: natural logarithms; threads call `advance` with copies."""
    found = np.empty(sum(len(sentence.scored) for sentence in sentences), np.float32)

    def scoring(together: Sequence[Queries]) -> Steps[None]:
        groups = [(asked.ids, asked.position, asked.expected) for asked in together]
        for asked, decided in zip(together, (yield from model.deciding_each(groups, advance)), strict=True):
            found[asked.slot] = decided.expected_logprob

    copies = (
        asked
        for group in encoder.groups(sentences, longest)
        for asked in queries(group, method, encoder.tokenizer.mask_id, max(1, TOKENS_AT_ONCE // group.ids.shape[1]))
    )
    finished(gathered(map(scoring, _together(copies))))
    return found


def _together(copies: Iterable[Queries]) -> Iterator[list[Queries]]:
    """Copies of several lengths, as many as may be in memory: the more of them, the less do cores wait."""
    held: list[Queries] = []
    for asked in copies:
        if held and sum(own.ids.size for own in held) + asked.ids.size > TOKENS_AT_ONCE:
            yield held
            held = []
        held.append(asked)
    if held:
        yield held


def causal_logprobs(
    model: CausalLM, encoder: Encoder, sentences: Sequence[Sentence], longest: int, advance: Callable[[int], None]
) -> NDArray[np.float32]:
    """The log-probability of each scored token, given those before it; beginnings that are alike are read once."""
    found = np.empty(sum(len(sentence.scored) for sentence in sentences), np.float32)
    texts, asked = list[Ids](), []
    for group in encoder.groups(sentences, longest):
        row, column = np.nonzero(group.slot >= 0)
        asked.append((row + len(texts), column - 1, group.ids[row, column], group.slot[row, column]))
        texts += list(group.ids[:, : column.max(initial=1)])
    if not texts:
        return found
    owner, place, expected, slot = map(np.concatenate, zip(*asked, strict=True))

    def put(question: NDArray[np.int64], at: NDArray[np.int64], logprobs: NDArray[np.float32]) -> None:
        found[slot[question]] = logprobs[at]

    finished(model.following(texts, (owner, place, expected), [LOGPROBS], put, advance))
    return found


def log_beginnings(
    model: CausalLM, sentences: Sequence[Sentence], places: Sequence[NDArray[np.int64]], begins: tuple[Ids, Ids]
) -> list[NDArray[np.float64]]:
    """For some places of each sentence: the log-probability that a word begins there, or the text ends.

    `begins` are the tokens that have the space before their word, with the end of a text; and all others, with it. The
    latter count at the first place of a sentence whose token is one of them: the first word of a text is chosen among
    them (Pimentel and Meister 2024, theorem 2 and section 4.2).
    """
    from scipy import special  # noqa: PLC0415 - half a second

    counts = [len(own) for own in places]
    owner, first = np.repeat(np.arange(len(places)), counts), np.cumsum([0, *counts])[:-1]
    found = np.empty((len(owner), 2))

    def put(question: NDArray[np.int64], at: NDArray[np.int64], logits: NDArray[np.float32]) -> None:
        exact = (row.astype(np.float64) for row in logits)  # one at a time: all of them would need much memory
        found[question] = np.array(
            [[special.logsumexp(row[own]) - special.logsumexp(row) for own in begins] for row in exact]
        )[at]

    asked = owner, np.concatenate([*places, owner[:0]]) - 1, np.zeros(len(owner), np.int32)
    finished(model.following([one.ids for one in sentences], asked, [LOGITS], put))
    unmarked = [not np.isin(one.ids[own[0]], begins[0]) for one, own in zip(sentences, places, strict=True)]
    chosen = found[:, 0]
    chosen[first[unmarked]] = found[first[unmarked], 1]
    return np.split(chosen, np.cumsum(counts)[:-1])


def beginnings(exported: ExportedModel) -> tuple[Ids, Ids]:
    """The tokens that have the space before their word, and all others, each with those that end a text.

    InputError if the vocabulary has no such tokens.
    """
    marks = WordMarks.of(exported.tokenizer, exported.vocab_size)
    if marks.mark is not Mark.BEGINNING:
        raise InputError(
            f"--bow-correction: the tokens of {exported.name} do not hold the space before a word, so nothing is to be "
            "corrected; leave it out"
        )
    path, marked = exported.folder / "config.json", marks.classes == WordClass.BEGINS
    ends = parse_json(read_regular(path, MOST_JSON).decode(), str(path)).get("eos_token_id")
    one, other = marked.copy(), ~marked & (marks.classes != WordClass.UNUSED)
    one[ends if isinstance(ends, list) else [] if ends is None else [ends]] = True
    other |= one & ~marked
    return np.flatnonzero(one).astype(np.int32), np.flatnonzero(other).astype(np.int32)
