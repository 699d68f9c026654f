"""The outsider of `verify --torch`: with transformers alone it reads a user's own texts and computes."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..engine.basics.errors import InputError

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
        ids, mask, *_ = self._around_mask(text, bos)
        if self.is_causal:  # the token that follows what stands before the mask
            return self._logits([*ids, *filled])[-1]
        return self._logits([*ids[:mask], *filled, *ids[mask : mask + 1] * masks, *ids[mask + 1 :]])[mask + query]

    def words(self, text: str, words: Sequence[str], *, bos: bool = False) -> list[tuple[int, ...]]:
        (ids, mask, before, after), found = self._around_mask(text, bos), []
        for start, stop, word in ((len(before), len(before) + len(word), word) for word in words):
            every, ends, *_ = self._read(before + word + after, bos)
            last = max((i for i, (begin, end) in enumerate(ends) if begin < stop and end > start), default=-1)
            own, is_whole = (
                every[mask : last + 1],
                every[:mask] == ids[:mask] and last >= mask and ends[last][1] <= stop,
            )
            found.append(tuple(own) if is_whole and not {*own} & {*self.tokenizer.all_special_ids} else ())
        return found

    def span(self, before: str | None, text: str, joiner: str | None, *, by_word: bool, longest: int, bos: bool) -> Any:
        start, text = (before or "").strip(), text.strip()
        if start:
            unspaced = re.search(rf"{_UNSPACED}[\W\d_]*\Z", start) and re.match(rf"[\W\d_]*?{_UNSPACED}", text)
            start += joiner if joiner is not None else "" if unspaced else " "
        (ids, ends, special, word), found = self._read(start + text, bos), []
        own = [place for place in range(len(ids)) if not special[place]]
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

    def _around_mask(self, text: str, bos: bool) -> tuple[list[int], int, str, str]:
        mask = "[MASK]" if self.is_causal else self.tokenizer.mask_token
        before, found, after = text.strip().partition(mask)
        if not found or mask in after:
            raise InputError(f"PyTorch needs one {mask} in {text!r}")
        before = re.sub(r"\s+\Z", " ", before)
        if self.is_causal:  # without EOS: the text goes on
            ids, _, special, _ = self._read(before.removesuffix(" "), bos)
            ids = ids[:-1] if len(ids) > 1 and special[-1] else ids
            return ids, len(ids), before, ""
        # A mask that leaves the space before it: in training it stood for the word's own token, which had that space.
        ids = min((self._read(own + mask + after, bos)[0] for own in (before, before.rstrip())), key=len)
        return ids, ids.index(self.tokenizer.mask_token_id), before, after

    def _read(self, text: str, bos: bool) -> Any:
        """The tokens of a text: ids, the characters they cover, whether they are special, and their words."""
        read = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        found = read["input_ids"], read["offset_mapping"], read["special_tokens_mask"], read.word_ids()
        if (bos or self.begins_with_bos) and found[0][:1] != [self.tokenizer.bos_token_id]:
            for own, first in zip(found, (self.tokenizer.bos_token_id, (0, 0), 1, None), strict=True):
                own.insert(0, first)
        return found
