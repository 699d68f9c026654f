"""Tiny checkpoints with random weights, made in the tests: encoders, classifiers of several families, a cue detector.

Nothing is downloaded. The weights of the cue detector are chosen: its labels are known.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from negengine.engine.experiments.cues.cue_words import LABELS as CUE_LABELS
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AlbertConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    BertForMaskedLM,
    BertForTokenClassification,
    BertModel,
    DistilBertConfig,
    ElectraConfig,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    RobertaConfig,
    XLNetConfig,
)


def random_model(loader: Any, config: PretrainedConfig, weights: float = 0.25) -> PreTrainedModel:
    """A model whose weights (with this spread), biases and normalisations are random: nothing is neutral by chance."""
    torch.manual_seed(0)
    model = loader.from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            spread = 0.1 if "norm" in name.lower() or "ln_" in name or name.endswith("bias") else weights
            parameter.add_(torch.randn_like(parameter) * spread)
    return model


def save(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


SEGMENTS_TOO = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


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
    options = SEGMENTS_TOO | options | ({"mask_token": "[MASK]"} if "[MASK]" in special else {})
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", **options)


def labelled(names: Iterable[str]) -> dict[str, Any]:
    """The labels of a head, as a configuration has them."""
    names = list(names)
    return {"id2label": dict(enumerate(names)), "label2id": {name: number for number, name in enumerate(names)}}


SENTENCE = "a the man woman dog is are not never sleeping running outside . , in park two no one who likes to walk eat"
WORDS = SENTENCE.split()
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def tokenizer() -> PreTrainedTokenizerFast:
    """[CLS] first [SEP] second [SEP], a token for each word, the second text in segment 1."""
    return word_tokenizer(WORDS, cls_token="[CLS]", sep_token="[SEP]")


def save_encoder(folder: Path, *, pooler: bool = True, words: PreTrainedTokenizerFast | None = None, **sizes) -> Path:
    """A BERT; without its pooler as a masked language model has it."""
    words = words or tokenizer()
    own = {"vocab_size": len(words), "pad_token_id": words.pad_token_id, "max_position_embeddings": 40}
    config = BertConfig(**own, **SIZES | sizes)
    torch.manual_seed(0)
    (BertModel if pooler else BertForMaskedLM)(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


LOADERS = {
    "text-classification": AutoModelForSequenceClassification,
    "token-classification": AutoModelForTokenClassification,
}
OF_64_TOKENS = SIZES | {"max_position_embeddings": 66}
DISTIL = {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 66}
FAMILIES = {  # they are exported for both tasks
    "bert": (BertConfig, OF_64_TOKENS),
    "albert": (AlbertConfig, OF_64_TOKENS | {"embedding_size": 16}),
    "electra": (ElectraConfig, OF_64_TOKENS | {"embedding_size": 16}),
    "distilbert": (DistilBertConfig, DISTIL),
    "roberta": (RobertaConfig, OF_64_TOKENS),
}
XLNET = (XLNetConfig, {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64})  # for pairs of texts alone
SEGMENTED = {"bert", "albert", "electra"}
PAIRS = [
    ("a man is sleeping .", "a man is not sleeping ."),
    ("two dog are running in the park", "no one is outside"),
    ("the woman who likes to , never , outside . " * 4, "the dog ."),
    ("a", "the"),
]
LABELS = ("entailment", "neutral", "contradiction")
UNSEGMENTED = {"model_input_names": ["input_ids", "attention_mask"]}


def angle_tokenizer(special, processor, **options):
    """A token for each word, and special ones such as <pad>."""
    backend = Tokenizer(models.WordLevel({token: i for i, token in enumerate([*special, *WORDS])}, unk_token="<unk>"))
    backend.pre_tokenizer, backend.post_processor = pre_tokenizers.Whitespace(), processor
    backend.add_special_tokens(special)
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", mask_token="<mask>", **options)


def roberta_like_tokenizer():
    """<s> first </s></s> second </s>, all in segment 0."""
    processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
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


def permuted(folder, classifier, order, names):
    """A copy of a classifier whose labels have another order, and perhaps other names."""
    copy = shutil.copytree(classifier, folder)
    weights = load_file(copy / "model.safetensors")
    last = [name for name, own in weights.items() if own.shape[0] == len(order) and "classifier" in name]
    assert len(last) == 2
    save_file({n: own[list(order)] if n in last else own for n, own in weights.items()}, copy / "model.safetensors")
    config = json.loads((copy / "config.json").read_text()) | labelled(names)
    (copy / "config.json").write_text(json.dumps(config))
    return copy


CUES = dict.fromkeys(["not", "n't", "never", "nobody"], "SINGLE")
CUES |= {"unhappy": "PREFIX", "careless": "SUFFIX", "neither": "MULTI-B", "nor": "MULTI-I"}
OTHERS = ["i", "you", "do", "know", "came", "she", "was", ".", ",", "it", "rained"]


def write_detector(folder: Path, labels=CUE_LABELS) -> Path:
    """A cue detector that takes 24 tokens; each word has its label, whatever stands beside it."""
    steps = {"normalizer": normalizers.Lowercase(), "pre_tokenizer": pre_tokenizers.WhitespaceSplit()}
    tokenizer = word_tokenizer([*CUES, *OTHERS], SPECIAL[:-1], **steps)
    tokenizer.save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=24, **sizes, **labelled(labels))
    torch.manual_seed(0)
    model = BertForTokenClassification(config).eval()
    with torch.no_grad():
        words = model.bert.embeddings.word_embeddings.weight
        words.zero_()
        for token, number in tokenizer.get_vocab().items():
            words[number, labels.index(CUES.get(token, labels[0])) if len(labels) == len(CUE_LABELS) else 0] = 1.0
        model.bert.embeddings.position_embeddings.weight.mul_(0.01)
        model.classifier.weight.zero_()
        model.classifier.weight[:, : len(labels)] = torch.eye(len(labels))
    model.save_pretrained(folder)
    return folder
