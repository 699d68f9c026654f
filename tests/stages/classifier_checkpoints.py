"""Tiny classifiers of several families with random weights: of pairs of texts, or of tokens."""

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AutoModelForSequenceClassification,
    BertConfig,
    DistilBertConfig,
    ElectraConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
)

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
FAMILIES = {
    "bert": (BertConfig, SIZES),
    "albert": (AlbertConfig, SIZES | {"embedding_size": 16}),
    "electra": (ElectraConfig, SIZES | {"embedding_size": 16}),
    "distilbert": (DistilBertConfig, {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    "roberta": (RobertaConfig, SIZES),
}
SEGMENTED = {"bert", "albert", "electra"}
SENTENCE = "a the man woman dog is are not never sleeping running outside . , in park two no one who likes to"
WORDS = SENTENCE.split()
LABELS = ("entailment", "neutral", "contradiction")


def bert_like_tokenizer(**options):
    """[CLS] first [SEP] second [SEP], the second text in segment 1."""
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    backend.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", mask_token="[MASK]", **options)


UNSEGMENTED = {"model_input_names": ["input_ids", "attention_mask"]}


def roberta_like_tokenizer():
    """<s> first </s></s> second </s>, all in segment 0."""
    vocabulary = {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *WORDS, "<mask>"])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.RobertaProcessing(sep=("</s>", 2), cls=("<s>", 0))
    backend.add_special_tokens(["<s>", "<pad>", "</s>", "<unk>", "<mask>"])
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", mask_token="<mask>", **UNSEGMENTED)


def save_classifier(folder, family, names=LABELS, loader=AutoModelForSequenceClassification, **overrides):
    """A checkpoint of a family with random weights that takes 64 tokens."""
    make, sizes = FAMILIES[family]
    if family == "roberta":
        tokenizer = roberta_like_tokenizer()
    else:
        tokenizer = bert_like_tokenizer(**({} if family in SEGMENTED else UNSEGMENTED))
    config = make(
        vocab_size=len(tokenizer),
        max_position_embeddings=66,
        pad_token_id=tokenizer.pad_token_id,
        id2label=dict(enumerate(names)),
        label2id={name: i for i, name in enumerate(names)},
        **sizes | overrides,
    )
    torch.manual_seed(0)
    model = loader.from_config(config).eval()
    with torch.no_grad():  # biases and normalisations too, so that nothing is neutral by chance
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
