"""A model's own tokenizer: for sentences with one mask, and for the sentences of a causal model, which end in a mask.

The mask of a causal model has an id outside the vocabulary; no graph ever gets it. A full stop behind it is dropped,
and so is the space before it, which is part of the next token ("Ġsmoke"); words behind it are refused.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Encoding, Tokenizer, processors
from tokenizers.models import WordPiece

from ..basics.errors import InputError, first_line
from ..basics.reading import read_regular
from .spelling import before_mask, with_mask

NOT_ONE_TOKEN = -1  # instead of a token id, if the word is not one token
_FILE = "tokenizer.json"
_MOST = 2**28  # bytes: ten times those of the largest vocabularies
MASK_TOKEN = "[MASK]"  # noqa: S105 - not a password
_SPACE_MARKS = {" ", "\N{LOWER ONE EIGHTH BLOCK}"}  # printable, and no text


def load_tokenizer(folder: Path) -> Tokenizer:
    """Read tokenizer.json of an exported model. Raises InputError if it is missing or damaged."""
    path = folder / _FILE
    content = read_regular(path, _MOST, "export the model again")
    try:
        return Tokenizer.from_buffer(content)
    except ValueError as error:
        raise InputError(f"{path}: not a tokenizer ({first_line(error)}); export the model again") from error


def begin_with(tokenizer: Tokenizer, token: str) -> None:
    """Let a tokenizer put one of its tokens before every text, if it does not do so yet."""
    token_id = tokenizer.token_to_id(token)
    if token_id in CausalTokenizer(tokenizer, 0).prefix:
        return
    template = processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, token_id)]
    )
    before = tokenizer.post_processor
    tokenizer.post_processor = template if before is None else processors.Sequence([before, template])


class MaskTokenizer:
    """A model's own tokenizer, without truncation and padding, and its mask token."""

    reads_behind: ClassVar[bool] = True

    def __init__(self, tokenizer: Tokenizer, mask_token: str, mask_id: int | None = None) -> None:
        mask_id = tokenizer.token_to_id(mask_token) if mask_id is None else mask_id
        if mask_id is None:
            raise InputError(f"the tokenizer has no token {mask_token!r}; give the model's own mask token")
        tokenizer.no_truncation()
        tokenizer.no_padding()
        _let_swallow(tokenizer, mask_id)
        self.backend, self.mask_token, self.mask_id = tokenizer, mask_token, mask_id
        self.vocab_size: int = tokenizer.get_vocab_size()

    @classmethod
    def load(cls, folder: Path, mask_token: str) -> "MaskTokenizer":
        tokenizer = load_tokenizer(folder)
        try:
            return cls(tokenizer, mask_token)
        except InputError as error:
            raise InputError(f"{folder / _FILE}: {error}") from error

    def reads(self, text: str) -> bool:
        """Whether the model reads all words of a text: a causal model, only those before the mask."""
        _, mask, after = text.rpartition(self.mask_token)
        return self.reads_behind or not mask or not any(character.isalnum() for character in after)

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of each text, special tokens included: int32 [length]."""
        return self.encode_any(texts)

    def encode_any(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of each text, whether or not the model can be asked about it."""
        encodings = self.backend.encode_batch_fast([with_mask(text, self.mask_token) for text in texts])
        return [np.array(encoding.ids, dtype=np.int32) for encoding in encodings]

    def encode_masked(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of texts. InputError if one of them does not hold exactly one mask."""
        sentences = self.encode(texts)
        for text, ids in zip(texts, sentences, strict=True):
            if (masks := np.count_nonzero(ids == self.mask_id)) != 1:
                raise InputError(f"{masks} mask tokens in {text!r}; a sentence needs one {self.mask_token}")
        return sentences

    def word_tokens(self, contexts: Sequence[tuple[str, str]], words: Sequence[str]) -> NDArray[np.int32]:
        """The token that a model must predict at the mask for each word, or `NOT_ONE_TOKEN`: int32 [n]."""
        found = self.word_sequences(contexts, words)
        single = (own[0] if isinstance(own, tuple) and len(own) == 1 else NOT_ONE_TOKEN for own in found)
        return np.fromiter(single, np.int32)

    def word_sequences(
        self,
        contexts: Sequence[tuple[str, str]],
        words: Sequence[str],
        masked: Sequence[NDArray[np.int32]] | None = None,
    ) -> list[tuple[int, ...] | str]:
        """The tokens that a model must predict for each word from the mask's position on; or, as a text, why it cannot.

        The text with the word at the mask is tokenized. The word's tokens must cover nothing else but a space before it
        ("Ġsmoke", not "smoke"), and the tokens before the word must be those of the masked text. They may cover less
        than the word, because normalisers drop accents. Those after it may change: a model sees the masked text's.
        `masked` are the ids of the masked texts, from `encode`.
        """
        contexts = [(before_mask(before), after.rstrip() if self.reads_behind else "") for before, after in contexts]
        if masked is None:
            each = list(dict.fromkeys(contexts))
            ids_of = dict(zip(each, self.encode_any([self.mask_token.join(own) for own in each]), strict=True))
            masked = [ids_of[own] for own in contexts]
        special = self.special_ids()
        texts = [before + word + after for (before, after), word in zip(contexts, words, strict=True)]
        found: list[tuple[int, ...] | str] = []
        encodings = self.backend.encode_batch(texts)
        for (before, _), word, encoding, asked in zip(contexts, words, encodings, masked, strict=True):
            ids = asked.tolist()
            if self.mask_id not in ids:
                found.append("the sentence has no mask")
                continue
            mask = ids.index(self.mask_id)
            last = _last_token(encoding, mask, len(before), len(before) + len(word))
            own = tuple(encoding.ids[mask : last + 1]) if last is not None else ()
            if encoding.ids[:mask] != ids[:mask]:
                found.append(f"{word!r} changes the tokens before it")
            elif not own:
                found.append(f"the tokens of {word!r} hold more than the word")
            elif refused := [token for token in own if token in special]:
                found.append(f"{word!r} holds the token {self.backend.id_to_token(refused[0])}")
            else:
                found.append(own)
        return found

    def alone(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """The ids of each text when it stands alone, without special tokens."""
        return (encoding.ids for encoding in self.backend.encode_batch_fast(list(texts), add_special_tokens=False))

    def token_text(self, token_id: int) -> str:
        """A token as a person reads it: without a leading space, but with WordPiece's mark: "##ing" is not a word."""
        token: str | None = self.backend.id_to_token(token_id)
        if token is None:  # models may have more output rows than their tokenizer has tokens
            return f"#{token_id}"
        if isinstance(self.backend.model, WordPiece):
            return token
        return self._decoded([token_id]) or token

    def is_text(self, token_id: int) -> bool:
        """Whether a sentence can hold a token as text: not a part of a character, white space or a control alone."""
        token: str | None = self.backend.id_to_token(token_id)
        if token is None:
            return False
        is_wordpiece = isinstance(self.backend.model, WordPiece)
        text = token if is_wordpiece else str(self.backend.decode([token_id], skip_special_tokens=False))
        shown = any(own.isprintable() and own not in _SPACE_MARKS for own in text)
        return shown and "\N{REPLACEMENT CHARACTER}" not in text

    def word_text(self, tokens: Sequence[int]) -> str:
        """Tokens that stand one after the other as a person reads them: one word, or several with spaces."""
        if isinstance(self.backend.model, WordPiece):
            mark = self.backend.model.continuing_subword_prefix
            first, *more = [self.token_text(token) for token in tokens]
            return first + "".join(text[len(mark) :] if text.startswith(mark) else f" {text}" for text in more)
        return self._decoded(tokens) or " ".join(self.token_text(token) for token in tokens)

    def _decoded(self, tokens: Sequence[int]) -> str:
        """The text of tokens; empty if they are a part of a character only, as byte-level ones may be."""
        text = str(self.backend.decode(list(tokens), skip_special_tokens=False)).strip()
        return "" if "\N{REPLACEMENT CHARACTER}" in text else text

    def same_text(self, ids: NDArray[np.int32], expected: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Which `ids`, int32 [n], differ from the expected, int32 [n] or [n, k], but read the same: bool [n]."""
        accepted = (expected[:, None] if expected.ndim == 1 else expected).T
        tokens, rows = np.unique(np.stack([ids, *accepted]), return_inverse=True)
        texts = np.array([self.token_text(token) for token in tokens.tolist()], dtype=object)
        one, *others = texts[rows.reshape(1 + len(accepted), -1)]
        reads_the_same = np.any([one == other for other in others], axis=0)
        return np.asarray(reads_the_same & (ids != accepted).all(axis=0))

    def special_ids(self) -> frozenset[int]:
        """The ids that are not words: special tokens and the unknown token."""
        return frozenset(self._special_tokens() | ({self.unknown_id} if self.unknown_id is not None else set()))

    def unranked_ids(self, size: int) -> NDArray[np.int64]:
        """The outputs of a model that are not words, int64, ascending: special tokens, and rows without a token."""
        special = self.special_ids()
        return np.array([i for i in range(size) if i in special or self.backend.id_to_token(i) is None], np.int64)

    def known(self, tokens: Iterable[str]) -> frozenset[str]:
        """Those of some tokens that the vocabulary has."""
        return frozenset(token for token in tokens if self.backend.token_to_id(token) is not None)

    def special_token_in(self, texts: Sequence[str]) -> list[str | None]:
        """The first special token that each text holds, such as "[PAD]"; a word that is unknown is not one."""
        special = self._special_tokens() - {self.unknown_id}
        found = [next((token for token in ids if token in special), None) for ids in self.alone(texts)]
        return [None if token is None else str(self.backend.id_to_token(token)) for token in found]

    def unknown(self, texts: Sequence[str]) -> list[str]:
        """The texts that hold the unknown token: the model does not know some of their letters."""
        return [text for text, ids in zip(texts, self.alone(texts), strict=True) if self.unknown_id in ids]

    def most_tokens(self, texts: Sequence[str]) -> int:
        """An upper bound on the tokens of any of these texts, special tokens not counted, within any sentence."""
        normalizer = self.backend.normalizer  # a token covers a byte of the normalised text, or marks a word's start
        forms = set(texts) | {normalizer.normalize_str(text) for text in texts if normalizer}
        return max((len(form.encode()) + len(form.split()) for form in forms), default=0)

    def n_special_tokens(self) -> int:
        return int(self.backend.num_special_tokens_to_add(is_pair=False))

    def _special_tokens(self) -> set[int]:
        return {token_id for token_id, token in self.backend.get_added_tokens_decoder().items() if token.special}

    @cached_property
    def unknown_id(self) -> int | None:
        """The id that stands for text that the vocabulary cannot express; None where there is none."""
        if unknown := getattr(self.backend.model, "unk_token", None):
            return self.backend.token_to_id(unknown)
        # A Unigram model tells its own nowhere but in the file: it is `<unk>` in ALBERT, and `[UNK]` in DeBERTa.
        found = re.search(r'"unk_id":\s*(\d+)', self.backend.to_str())
        return int(found[1]) if found else None


def _let_swallow(tokenizer: Tokenizer, mask_id: int) -> None:
    """Let a mask take the space before it where tokens of words do: in training it stood for such a token.

    Masks of published models do so; those of tokenizers that people train often leave the space, which then is a token
    that no text of the training had. Where no token holds a space and a word, it stays.
    """
    mask = tokenizer.get_added_tokens_decoder().get(mask_id)
    if mask is None or mask.lstrip:
        return
    apart, close = (Counter(tokenizer.encode(text).tokens) for text in (f"a {mask.content}", f"a{mask.content}"))
    own = tuple(apart - close)
    if own and any(entry not in own and entry.startswith(own) for entry in tokenizer.get_vocab()):
        flags = {name: getattr(mask, name) for name in ("rstrip", "single_word", "normalized", "special")}
        tokenizer.add_special_tokens([AddedToken(mask.content, lstrip=True, **flags)])


def _last_token(encoding: Encoding, first: int, start: int, stop: int) -> int | None:
    """The last token of a word whose first token is given; None if these tokens hold anything else."""
    offsets = encoding.offsets
    covering = [i for i, (begin, end) in enumerate(offsets) if begin < stop and end > start]
    if not covering or not first <= covering[0] <= covering[-1]:
        return None
    last = covering[-1]
    begins = [offsets[i][0] for i in range(first, last + 1)]
    # A token can be a space alone, or a part of a character: several tokens cover the same characters then.
    return last if min(begins) >= start - 1 and offsets[last][1] <= stop else None


class CausalTokenizer(MaskTokenizer):
    """A causal model's own tokenizer, and a mask that it does not know."""

    reads_behind: ClassVar[bool] = False

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        # a model may have more logits than its tokenizer has tokens
        super().__init__(tokenizer, MASK_TOKEN, max(vocab_size, tokenizer.get_vocab_size()))
        encoding = tokenizer.encode("a")
        first = next((i for i, special in enumerate(encoding.special_tokens_mask) if not special), len(encoding.ids))
        # The ids that stand before every text, int32 [n]; empty for GPT-2.
        self.prefix: NDArray[np.int32] = np.array(encoding.ids[:first], np.int32)

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of each text up to its mask, int32 [length]; InputError for words behind it, or nothing before it."""
        found = self.encode_any(texts)
        for text, ids in zip(texts, found, strict=True):
            if not self.reads(text):
                raise InputError(
                    f"words follow the mask in {text!r}: a causal model reads only what stands before it; give a "
                    "sentence that ends in the mask, or a masked language model"
                )
            if len(ids) and ids[0] == self.mask_id:
                raise InputError(
                    f"nothing stands before the mask in {text!r}, and the tokenizer does not begin a text with a token "
                    "of its own: give words before the mask, or export the model with --bos"
                )
        return found

    def encode_any(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        parts = [with_mask(text, self.mask_token).partition(self.mask_token) for text in texts]
        before = [start.removesuffix(" ") if mask else start for start, mask, _ in parts]
        masks = (np.full(text.count(self.mask_token), self.mask_id, np.int32) for text in texts)
        return [
            np.concatenate([self.prefix, np.array(ids, np.int32), mask])
            for ids, mask in zip(self.alone(before), masks, strict=True)
        ]

    def n_special_tokens(self) -> int:
        return len(self.prefix)

    def token_text(self, token_id: int) -> str:
        return self.mask_token if token_id == self.mask_id else super().token_text(token_id)
