"""A tiny encoder, made in the tests: two layers of 32 values, some thirty words. Nothing is downloaded."""

from pathlib import Path

import torch
from transformers import BertConfig, BertForMaskedLM, BertModel, PreTrainedTokenizerFast
from word_tokenizer import word_tokenizer

torch.set_num_threads(1)  # the models are so small that threads would wait for each other most of the time

SENTENCE = "a the man woman dog is are not never sleeping running outside . , in park two no one who likes to walk eat"


def tokenizer() -> PreTrainedTokenizerFast:
    """[CLS] first [SEP] second [SEP], a token for each word, the second text in segment 1."""
    return word_tokenizer(SENTENCE.split(), cls_token="[CLS]", sep_token="[SEP]")


def save_encoder(folder: Path, *, pooler: bool = True, words: PreTrainedTokenizerFast | None = None, **sizes) -> Path:
    """A BERT with random weights; without its pooler as a masked language model has it."""
    words = words or tokenizer()
    usual = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(
        vocab_size=len(words), max_position_embeddings=40, pad_token_id=words.pad_token_id, **usual | sizes
    )
    torch.manual_seed(0)
    (BertModel if pooler else BertForMaskedLM)(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder
