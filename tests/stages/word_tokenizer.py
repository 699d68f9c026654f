"""Tokenizers of tiny checkpoints: a token for each word, and BERT's special tokens."""

from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
UNMASKED = SPECIAL[:-1]


def word_tokenizer(
    words: Iterable[str],
    special: tuple[str, ...] = SPECIAL,
    *,
    pre_tokenizer: Any = None,
    normalizer: Any = None,
    **options: Any,
) -> PreTrainedTokenizerFast:
    """[CLS] first [SEP] second [SEP], the second text in segment 1."""
    vocabulary = {token: number for number, token in enumerate([*special, *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizer or pre_tokenizers.Whitespace()
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    backend.add_special_tokens(list(special))
    mask = {"mask_token": "[MASK]"} if "[MASK]" in special else {}
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", **mask, **options)


def labelled(names: Iterable[str]) -> dict[str, Any]:
    """The labels of a head, as a configuration has them."""
    names = list(names)
    return {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}
