"""A tiny encoder, made in the tests: two layers of 32 values, some thirty words. Nothing is downloaded."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast

torch.set_num_threads(1)  # the models are so small that threads would wait for each other most of the time

SENTENCE = "a the man woman dog is are not never sleeping running outside . , in park two no one who likes to walk eat"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def tokenizer() -> PreTrainedTokenizerFast:
    """[CLS] first [SEP] second [SEP], a token for each word, the second text in segment 1."""
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *SENTENCE.split()])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    backend.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", mask_token="[MASK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def save_encoder(folder: Path, *, pooler: bool = True, words: PreTrainedTokenizerFast | None = None, **sizes) -> Path:
    """A BERT with random weights; without its pooler as a masked language model has it."""
    words = words or tokenizer()
    config = BertConfig(
        vocab_size=len(words),
        max_position_embeddings=40,
        pad_token_id=0,
        **{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64} | sizes,
    )
    torch.manual_seed(0)
    (BertModel if pooler else BertForMaskedLM)(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
