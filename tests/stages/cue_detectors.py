"""A cue detector whose labels are known: each word of its small vocabulary has one, whatever stands beside it."""

from pathlib import Path

import torch
from negengine.engine.experiments.cues.cue_words import LABELS
from tokenizers import normalizers, pre_tokenizers
from transformers import BertConfig, BertForTokenClassification
from word_tokenizer import UNMASKED, labelled, word_tokenizer

LABELLED = dict.fromkeys(["not", "n't", "never", "nobody"], "SINGLE")
LABELLED |= {"unhappy": "PREFIX", "careless": "SUFFIX", "neither": "MULTI-B", "nor": "MULTI-I"}
OTHERS = ["i", "you", "do", "know", "came", "she", "was", ".", ",", "it", "rained"]
LONGEST = 24


def write_detector(folder: Path, labels=LABELS) -> Path:
    """A checkpoint that takes 24 tokens."""
    steps = {"normalizer": normalizers.Lowercase(), "pre_tokenizer": pre_tokenizers.WhitespaceSplit()}
    tokenizer = word_tokenizer([*LABELLED, *OTHERS], UNMASKED, **steps)
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=LONGEST, **sizes, **labelled(labels))
    torch.manual_seed(0)
    model = BertForTokenClassification(config).eval()
    with torch.no_grad():
        words = model.bert.embeddings.word_embeddings.weight
        words.zero_()
        for token, number in tokenizer.get_vocab().items():
            words[number, labels.index(LABELLED.get(token, labels[0])) if len(labels) == len(LABELS) else 0] = 1.0
        model.bert.embeddings.position_embeddings.weight.mul_(0.01)
        model.classifier.weight.zero_()
        model.classifier.weight[:, : len(labels)] = torch.eye(len(labels))
    model.save_pretrained(folder)
    return folder
