"""The outsider of `verify --torch`: it computes with transformers alone, from texts as a user has written them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import regex
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
        ids, behind, *_ = self._around_mask(text, bos)
        hidden = [] if self.is_causal else [self.tokenizer.mask_token_id] * masks
        return self._logits([*ids, *filled, *hidden, *behind])[len(ids) + query - self.is_causal]

    def words(self, text: str, words: Sequence[str], *, bos: bool = False) -> list[tuple[int, ...]]:
        (ids, _, before, after), found, special = self._around_mask(text, bos), [], {*self.tokenizer.all_special_ids}
        for word in words:
            tokens, stop = self._read(before + word + after, bos), len(before + word)
            own = [(token, end) for token, (start, end), added, _ in tokens[len(ids) :] if start < stop and not added]
            is_whole = [token for token, *_ in tokens[: len(ids)]] == ids and all(end <= stop for _, end in own)
            read = tuple(token for token, _ in own)
            found.append(read if is_whole and not {*read} & special else ())
        return found

    def span(self, before: str | None, text: str, joiner: str | None, *, by_word: bool, longest: int, bos: bool) -> Any:
        start, text = (before or "").strip(), text.strip()
        unspaced = regex.search(rf"{_UNSPACED}[\W\d_]*\Z", start) and regex.match(rf"[\W\d_]*?{_UNSPACED}", text)
        start = start and start + (joiner if joiner is not None else "" if unspaced else " ")
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
            found.append(torch.tensor(logits).double().log_softmax(-1)[ids[place]])
        return torch.tensor(found, dtype=torch.float64).numpy()

    def pair(self, first: str, second: str, max_length: int) -> Any:
        read = self.tokenizer(first, second, truncation=True, max_length=max_length, return_tensors="pt")
        return self.model(**read).logits[0].detach().numpy()

    def _logits(self, ids: Ids) -> Any:
        return self.model(input_ids=torch.tensor([ids])).logits[0].detach().numpy()

    def _around_mask(self, text: str, bos: bool) -> tuple[list[int], list[int], str, str]:
        """The ids before a mask and those behind it; the texts before and behind it."""
        mask = "[MASK]" if self.is_causal else self.tokenizer.mask_token
        before, after = text.strip().split(mask)
        before = regex.sub(r"\s+\Z", " ", before)
        if self.is_causal:  # without EOS: the text goes on
            ids = [own for i, (own, _, added, _) in enumerate(self._read(before.rstrip(), bos)) if not (i and added)]
            return ids, [], before, ""
        # A mask stands for a word's own token, which holds the space before it, unless no token is a space and letters.
        spaced = [len(token) for token in self.tokenizer.get_vocab() if token.startswith((" ", "Ġ", "▁"))]
        close = before if spaced and max(spaced) == 1 else before.rstrip()
        ids = [token for token, *_ in self._read(close + mask + after, bos)]
        place = ids.index(self.tokenizer.mask_token_id)
        return ids[:place], ids[place + 1 :], before, after

    def _read(self, text: str, bos: bool) -> list[tuple[int, tuple[int, int], int, int | None]]:
        """Each token of a text: its id, the characters it covers, whether it is special, and its word."""
        read = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        own = zip(read["input_ids"], read["offset_mapping"], read["special_tokens_mask"], read.word_ids(), strict=True)
        begins = not (bos or self.begins_with_bos) or read["input_ids"][:1] == [self.tokenizer.bos_token_id]
        return [*own] if begins else [(self.tokenizer.bos_token_id, (0, 0), 1, None), *own]
