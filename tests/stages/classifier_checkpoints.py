"""Tiny classifiers of several families with random weights: of pairs of texts, or of tokens."""

from random_checkpoints import random_model, save
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    DistilBertConfig,
    ElectraConfig,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLNetConfig,
)
from word_tokenizer import labelled, word_tokenizer

LOADERS = {
    "text-classification": AutoModelForSequenceClassification,
    "token-classification": AutoModelForTokenClassification,
}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
SIZES |= {"max_position_embeddings": 66}
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 66}
FAMILIES = {  # they are exported for both tasks
    "bert": (BertConfig, SIZES),
    "albert": (AlbertConfig, SIZES | {"embedding_size": 16}),
    "electra": (ElectraConfig, SIZES | {"embedding_size": 16}),
    "distilbert": (DistilBertConfig, DISTIL),
    "roberta": (RobertaConfig, SIZES),
}
XLNET = (XLNetConfig, {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64})  # for pairs of texts alone
SEGMENTED = {"bert", "albert", "electra"}
SENTENCE = "a the man woman dog is are not never sleeping running outside . , in park two no one who likes to"
WORDS = SENTENCE.split()
PAIRS = [
    ("a man is sleeping .", "a man is not sleeping ."),
    ("two dog are running in the park", "no one is outside"),
    ("the woman who likes to , never , outside . " * 4, "the dog ."),
    ("a", "the"),
]
LABELS = ("entailment", "neutral", "contradiction")
UNSEGMENTED = {"model_input_names": ["input_ids", "attention_mask"]}
SEGMENTS_TOO = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}


def angle_tokenizer(special, processor, **options):
    """A token for each word, and special ones such as <pad>."""
    backend = Tokenizer(models.WordLevel({token: i for i, token in enumerate([*special, *WORDS])}, unk_token="<unk>"))
    backend.pre_tokenizer, backend.post_processor = pre_tokenizers.Whitespace(), processor
    backend.add_special_tokens(special)
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", mask_token="<mask>", **options)


def roberta_like_tokenizer():
    """<s> first </s></s> second </s>, all in segment 0."""
    processor = processors.RobertaProcessing(sep=("</s>", 2), cls=("<s>", 0))
    return angle_tokenizer(["<s>", "<pad>", "</s>", "<unk>", "<mask>"], processor, **UNSEGMENTED)


def xlnet_like_tokenizer():
    """first <sep> second <sep> <cls>, the last one in segment 2; padded at the left."""
    texts = {"single": "$A:0 <sep>:0 <cls>:2", "pair": "$A:0 <sep>:0 $B:1 <sep>:1 <cls>:2"}
    processor = processors.TemplateProcessing(**texts, special_tokens=[("<sep>", 4), ("<cls>", 3)])
    special = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"]
    return angle_tokenizer(special, processor, padding_side="left", **SEGMENTS_TOO)


def save_classifier(folder, family, names=LABELS, task="text-classification", **overrides):
    """A checkpoint of a family with random weights that takes 64 tokens; XLNet takes 512."""
    make, sizes = (FAMILIES | {"xlnet": XLNET})[family]
    if family == "roberta":
        tokenizer = roberta_like_tokenizer()
    elif family == "xlnet":
        tokenizer = xlnet_like_tokenizer()
    else:
        tokenizer = word_tokenizer(WORDS, **({} if family in SEGMENTED else UNSEGMENTED))
    ids = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    config = make(**ids, **labelled(names), **sizes | overrides)
    return save(folder, random_model(LOADERS[task], config), tokenizer)
