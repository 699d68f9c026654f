"""The outsider of `verify --torch`: it computes with transformers alone, from texts as a user has written them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import regex
import torch

# Scripts without spaces between words: those of China and Japan, Thai, Lao, Burmese, Khmer.
_UNSPACED = "[\u2e80-\u312f\u31a0-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]"


@dataclass(frozen=True)
class Outsider:
    """A `Reference` that knows nothing of how the program encodes, composes and joins texts."""

    model: Any  # in fp32, with eager attention
    tokenizer: Any
    longest: int  # tokens that the model takes
    is_causal: bool = False
    begins_with_bos: bool = False
    name, at_once = "PyTorch", 1  # PyTorch divides each operator between the cores itself

    def masked(self, text: str, filled: Any = (), masks: int = 1, query: int = 0, *, bos: bool = False) -> Any:
        ids, behind, *_ = self._around_mask(text, bos)
        return self._at([*ids, *filled, *[self.tokenizer.mask_token_id] * masks, *behind], len(ids) + query).numpy()

    def words(self, text: str, words: Sequence[str], *, bos: bool = False) -> Iterator[tuple[int, ...]]:
        (ids, _, before, after), special = self._around_mask(text, bos), {*self.tokenizer.all_special_ids}
        for word in words:
            (read, spans, added, _), end = zip(*self._read(before + word + after, bos), strict=True), len(before + word)
            own = [i for i in range(len(ids), len(read)) if spans[i][0] < end and not added[i]]
            is_whole = [*read[: len(ids)]] == ids and all(spans[i][1] <= end and read[i] not in special for i in own)
            yield tuple(read[i] for i in own) if is_whole else ()

    def span(self, before: str | None, text: str, joiner: str | None, how: Any) -> Any:
        start, text = (before or "").strip(), text.strip() + " a" * how.ends  # a word could begin behind the text
        usual = "" if regex.search(rf"{_UNSPACED}[\W\d_]*\0[\W\d_]*{_UNSPACED}", f"{start}\0{text}") else " "
        start = start and start + (usual if joiner is None else joiner)
        given, read = len(start.rstrip()), self._read(start + text, how.bos)
        ids, spans, special, word = zip(*(t for t in read if not how.alone or t[2] or t[1][1] > given), strict=True)
        own, room = [i for i in range(len(ids)) if not special[i]], self.longest - sum(special) + how.ends  # a window
        for number, place in enumerate(own):
            if not given or spans[place][1] > given:
                first, step = min(number - room // 2, len(own) - room), max(1, room // 2)
                first = -((room - number - 1) // step) * step if self.is_causal else first
                kept = [i for i in range(len(ids)) if special[i] or i in own[max(0, first) :][:room]]
                hidden = {i for i in own if how.by_word and i > place and word[i] == word[place] is not None} | {place}
                asked = [self.tokenizer.mask_token_id if i in hidden else ids[i] for i in kept]
                logprobs = self._at(asked, kept.index(place)).double().log_softmax(-1)
                yield logprobs.numpy(), ids[place], spans[place][0] - len(start)

    def pair(self, first: str, second: str, max_length: int) -> Any:
        read = self.tokenizer(first, second, truncation=True, max_length=max_length, return_tensors="pt")
        return self.model(**read).logits[0].detach().numpy()

    def _at(self, ids: Sequence[int], place: int) -> Any:
        row = torch.tensor([ids[:place] if self.is_causal else ids])  # a causal model reads what stands before
        logits = self.model(input_ids=row).logits if row.numel() else torch.full([1, 1, len(self.tokenizer)], torch.nan)
        return logits[0, place - self.is_causal].detach()

    def _around_mask(self, text: str, bos: bool) -> tuple[list[int], list[int], str, str]:
        """The ids before a mask and those behind it; the texts before and behind it."""
        mask = "" if self.is_causal else self.tokenizer.mask_token
        before, after = text.strip().split(mask or "[MASK]")
        before, after = regex.sub(r"\s+\Z", " ", before), after if mask else ""  # a causal model reads nothing behind
        # A mask stands for a word's own token, which holds the space before it, if a token is a space and letters.
        takes = not mask or any(len(token) > 1 and token[0] in " Ġ▁" for token in self.tokenizer.get_vocab())
        read = enumerate(self._read((before.rstrip() if takes else before) + mask + after, bos))
        ids = [token for i, (token, _, added, _) in read if mask or not (i and added)]  # without EOS: the text goes on
        place = ids.index(self.tokenizer.mask_token_id) if mask else len(ids)
        return ids[:place], ids[place + 1 :], before, after

    def _read(self, text: str, bos: bool) -> list[tuple[int, tuple[int, int], int, int | None]]:
        """Each token of a text: its id, the characters it covers, whether it is special, and its word."""
        read = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        own = zip(read["input_ids"], read["offset_mapping"], read["special_tokens_mask"], read.word_ids(), strict=True)
        begins = not (bos or self.begins_with_bos) or read["input_ids"][:1] == [self.tokenizer.bos_token_id]
        return [*own] if begins else [(self.tokenizer.bos_token_id, (0, 0), 1, None), *own]
