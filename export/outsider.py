"""The outsider of `verify --torch`: it computes with transformers alone, from texts as a user has written them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Ids = Sequence[int]
# Scripts without spaces between words: those of China and Japan, Thai, Lao, Burmese, Khmer.
_UNSPACED = "[\u2e80-\u312f\u31a0-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"


@dataclass(frozen=True)
class Outsider:
    """A `Reference` that knows nothing of how the program encodes, composes and joins texts."""

    model: Any  # in fp32, with eager attention
    tokenizer: Any
    is_causal: bool = False
    begins_with_bos: bool = False
    name, at_once = "PyTorch", 1  # PyTorch divides each operator between the cores itself

    def masked(self, text: str, filled: Ids = (), masks: int = 1, query: int = 0, *, bos: bool = False) -> Any:
        ids, mask, behind, *_ = self._around_mask(text, bos)
        return self._logits([*ids, *filled, *mask * masks, *behind])[len(ids) + query - self.is_causal]

    def words(self, text: str, words: Sequence[str], *, bos: bool = False) -> list[tuple[int, ...]]:
        (ids, _, _, before, after), found = self._around_mask(text, bos), []
        for word in words:
            tokens, stop = self._read(before + word + after, bos), len(before + word)
            own = [token for token in tokens[len(ids) :] if token[1][0] < stop and not token[2]]
            is_whole = [token for token, *_ in tokens[: len(ids)]] == ids and all(
                end <= stop for _, (_, end), *_ in own
            )
            word_ids = tuple(token for token, *_ in own)
            found.append(word_ids if is_whole and not {*word_ids} & {*self.tokenizer.all_special_ids} else ())
        return found

    def span(self, before: str | None, text: str, joiner: str | None, *, by_word: bool, longest: int, bos: bool) -> Any:
        start, text = (before or "").strip(), text.strip()
        if start:
            unspaced = re.search(rf"{_UNSPACED}[\W\d_]*\Z", start) and re.match(rf"[\W\d_]*?{_UNSPACED}", text)
            start += joiner if joiner is not None else "" if unspaced else " "
        ids, ends, special, word = zip(*self._read(start + text, bos), strict=True)
        own, found = [place for place in range(len(ids)) if not special[place]], []
        room = longest - (len(ids) - len(own))  # tokens of the text in a window
        for number, place in enumerate(own):
            if (start and ends[place][1] <= len(start.rstrip())) or (self.is_causal and not place):
                continue
            first, step = min(number - room // 2, len(own) - room), max(1, room // 2)
            first = -((room - number - 1) // step) * step if self.is_causal else first
            kept = [i for i in range(len(ids)) if special[i] or i in own[max(0, first) :][:room]]
            hidden = {i for i in own if by_word and i > place and word[i] == word[place] is not None} | {place}
            asked, row = [self.tokenizer.mask_token_id if i in hidden else ids[i] for i in kept], kept.index(place)
            logits = self._logits(asked[:row])[-1] if self.is_causal else self._logits(asked)[row]
            found.append(float(torch.tensor(logits).double().log_softmax(-1)[ids[place]]))
        return np.array(found)

    def pair(self, first: str, second: str, max_length: int) -> Any:
        read = self.tokenizer(first, second, truncation=True, max_length=max_length, return_tensors="pt")
        return np.asarray(self.model(**read).logits.detach()[0])

    def _logits(self, ids: Ids) -> Any:
        return np.asarray(self.model(input_ids=torch.tensor([ids])).logits.detach()[0])

    def _around_mask(self, text: str, bos: bool) -> tuple[list[int], list[int], list[int], str, str]:
        """The ids before a mask, its own, and those behind it; the texts before and behind it."""
        before, after = text.strip().split("[MASK]" if self.is_causal else self.tokenizer.mask_token)
        before = re.sub(r"\s+\Z", " ", before)
        if self.is_causal:  # without EOS: the text goes on
            tokens = self._read(before.removesuffix(" "), bos)
            return (
                [own for i, (own, _, is_special, _) in enumerate(tokens) if not (i and is_special)],
                [],
                [],
                before,
                "",
            )
        mask, number = self.tokenizer.mask_token, self.tokenizer.mask_token_id
        ids, close = ([token for token, *_ in self._read(own + mask + after, bos)] for own in (before, before.rstrip()))
        # A mask that leaves the space before it: in training it stood for a word's own token, if that has the space.
        space = self.tokenizer.convert_ids_to_tokens(ids[ids.index(number) - 1])
        held = any(token != space and token.startswith(space) for token in self.tokenizer.get_vocab())
        ids = close if len(close) < len(ids) and held else ids
        place = ids.index(number)
        return ids[:place], ids[place : place + 1], ids[place + 1 :], before, after

    def _read(self, text: str, bos: bool) -> list[tuple[int, tuple[int, int], int, int | None]]:
        """Each token of a text: its id, the characters it covers, whether it is special, and its word."""
        read = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        own = zip(read["input_ids"], read["offset_mapping"], read["special_tokens_mask"], read.word_ids(), strict=True)
        begins = read["input_ids"][:1] == [self.tokenizer.bos_token_id]
        is_without = (bos or self.begins_with_bos) and not begins
        return [*[(self.tokenizer.bos_token_id, (0, 0), 1, None)] * is_without, *own]
