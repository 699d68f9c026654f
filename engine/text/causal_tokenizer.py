"""The tokenizer of a causal model: sentences that end in a mask.

A causal model predicts the next token from those before it. So a sentence is what stands before its mask, and then the
mask. What follows the mask is not read: a full stop is dropped, and a text with words there is refused. The mask has an
id outside the vocabulary, which no graph ever gets: composition, buckets and display treat it as any other mask.

    "She is happy to [MASK]."  ->  She Ġis Ġhappy Ġto [MASK]           GPT-2
                                   <s> ▁She ▁is ▁happy ▁to [MASK]      Llama

The space before the mask belongs to the next token ("Ġsmoke", "▁smoke"), so it is dropped with the mask. Tokens that a
tokenizer puts before every text (the `<s>` of Llama, the `</s>` of OPT) stay; those that it puts behind are dropped, as
the text goes on.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ..errors import InputError
from .tokenizer import MaskTokenizer, load_tokenizer

MASK_TOKEN = "[MASK]"  # noqa: S105 - not a password
_EXAMPLE = "a"


class CausalTokenizer(MaskTokenizer):
    """A causal model's own tokenizer, and a mask that it does not know.

    Attributes:
        prefix: The ids that stand before every text, int32 [n]; empty for GPT-2.
    """

    reads_behind: ClassVar[bool] = False

    def __init__(self, tokenizer: Tokenizer, vocab_size: int) -> None:
        """Wrap a tokenizer, and switch its truncation and padding off.

        Args:
            tokenizer: The model's own.
            vocab_size: The number of the model's logits, which may be more than the tokenizer has tokens.
        """
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.backend = tokenizer
        self.mask_token = MASK_TOKEN
        self.vocab_size = tokenizer.get_vocab_size()
        self.mask_id = max(vocab_size, self.vocab_size)
        encoding = tokenizer.encode(_EXAMPLE)
        first = next((i for i, special in enumerate(encoding.special_tokens_mask) if not special), len(encoding.ids))
        self.prefix: NDArray[np.int32] = np.array(encoding.ids[:first], np.int32)

    @classmethod
    def of(cls, folder: Path, vocab_size: int) -> "CausalTokenizer":
        """Read tokenizer.json from an exported model's folder.

        Args:
            folder: Of the export.
            vocab_size: The number of the model's logits.

        Raises:
            InputError: There is no such file, or it is damaged.
        """
        return cls(load_tokenizer(folder), vocab_size)

    def encode(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of each text up to its mask, int32 [length]; of all of it, where it has none.

        Raises:
            InputError: Words stand behind a mask, or nothing before it.
        """
        for text in texts:
            if not self.reads(text):
                raise InputError(
                    f"words follow the mask in {text!r}: a causal model reads only what stands before it; give a "
                    "sentence that ends in the mask, or a masked language model"
                )
        found = self.encode_any(texts)
        if any(len(ids) and ids[0] == self.mask_id for ids in found):
            empty = next(text for text, ids in zip(texts, found, strict=True) if len(ids) and ids[0] == self.mask_id)
            raise InputError(
                f"nothing stands before the mask in {empty!r}, and the tokenizer does not begin a text with a token of "
                "its own: give words before the mask, or export the model with --bos"
            )
        return found

    def encode_any(self, texts: Sequence[str]) -> list[NDArray[np.int32]]:
        """The ids of each text up to its mask; see `MaskTokenizer`."""
        before = [self._before(text) for text in texts]
        encodings = self.backend.encode_batch_fast(before, add_special_tokens=False)
        masks = (np.full(text.count(self.mask_token), self.mask_id, np.int32) for text in texts)
        return [
            np.concatenate([self.prefix, np.array(encoding.ids, np.int32), mask])
            for encoding, mask in zip(encodings, masks, strict=True)
        ]

    def n_special_tokens(self) -> int:
        """The number of tokens before every text."""
        return len(self.prefix)

    def token_text(self, token_id: int) -> str:
        """A token as a person reads it; see `MaskTokenizer`."""
        return self.mask_token if token_id == self.mask_id else super().token_text(token_id)

    def _before(self, text: str) -> str:
        before, mask, _ = text.partition(self.mask_token)
        return before.removesuffix(" ") if mask else text
