"""A row for each family that is exported: a tiny model with random weights, and its real kind of tokenizer.

`docs/families.md` has the same rows, which a test compares with what the exports say. Each function writes the files
of a kind of tokenizer, as checkpoints of the family have them; transformers makes the fast tokenizer from them.
"""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import sentencepiece
from tiny_checkpoints import random_model
from transformers import CONFIG_MAPPING, TOKENIZER_MAPPING, AutoModelForMaskedLM, AutoTokenizer, PreTrainedTokenizerFast

from ..conftest import SMALL

_BRACKETS = ("[CLS]", "[SEP]", "[MASK]")
_TEXT = (
    "a an anna maria john dancer architect who likes like to doesn t smoke dance she he is isn very happy",
    "Anna likes to smoke. She is happy to dance. He doesn't like to. smoke Maria isn't.",
)
_CHARACTERS = "".join(map(chr, range(33, 127)))


def wordpiece(folder: Path, family: str) -> None:
    """`vocab.txt`; MPNet has RoBERTa's special tokens in it."""
    vocabulary = _small("WordPiece cased").backend.get_vocab()
    entries = sorted(vocabulary, key=vocabulary.__getitem__)
    if family == "mpnet":
        entries = ["<s>", "<pad>", "</s>", "[UNK]", *(entry for entry in entries if entry[0] != "["), "<mask>"]
    (folder / "vocab.txt").write_text("".join(f"{entry}\n" for entry in entries), "utf-8")


def byte_level(folder: Path, family: str) -> None:
    """`vocab.json` and `merges.txt`; DeBERTa has BERT's special tokens in it."""
    model = json.loads(_small("byte-level BPE").backend.to_str())["model"]
    vocabulary = model["vocab"]
    if family == "deberta":
        renamed = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<unk>": "[UNK]"}
        vocabulary = {renamed.get(token, token): number for token, number in vocabulary.items()}
    mask = "[MASK]" if family == "deberta" else "<mask>"
    (folder / "vocab.json").write_text(json.dumps(vocabulary | {mask: len(vocabulary)}), "utf-8")
    merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
    (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", "utf-8")


def tokenizer_json(folder: Path, family: str, kind: str = "WordPiece cased") -> None:
    """`tokenizer.json`, for families without a fast tokenizer of their own."""
    tokenizer = _small(kind)
    special = {"mask_token": tokenizer.mask_token}
    for role, tokens in {"pad_token": ("[PAD]", "<pad>"), "unk_token": ("[UNK]", "<unk>")}.items():
        special[role] = next(token for token in tokens if tokenizer.backend.token_to_id(token) is not None)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend, **special).save_pretrained(folder)


tokenizer_json_of_bytes = partial(tokenizer_json, kind="byte-level BPE")  # ModernBERT's


def unigram(folder: Path, family: str, kind: str = "unigram") -> None:
    """A SentencePiece model, and the name of the class that reads it."""
    own = TOKENIZER_MAPPING[CONFIG_MAPPING[family]]
    (folder / own.vocab_files_names["vocab_file"]).write_bytes(_sentencepiece(family, kind))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": own.__name__}), "utf-8")


sentencepiece_bpe = partial(unigram, kind="bpe")


@cache
def _sentencepiece(family: str, kind: str) -> bytes:
    """A trained SentencePiece model with the family's special tokens."""
    special = {"control_symbols": list(_BRACKETS), "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
    if family in {"camembert", "xlm-roberta"}:
        special = {}
    elif family == "big_bird":
        special |= {"bos_id": 2, "eos_id": 3}
    elif family in {"deberta-v2", "rembert"}:
        special |= {"pad_piece": "[PAD]", "unk_piece": "[UNK]"}
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_TEXT * 20),
        model_writer=model,
        model_type=kind,
        vocab_size=150,
        hard_vocab_limit=False,
        character_coverage=1.0,
        required_chars=_CHARACTERS,
        num_threads=1,
        minloglevel=2,
        **special,
    )
    return model.getvalue()


_small = cache(lambda kind: SMALL[kind]())


SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128}
SMALLER = SIZES | {"num_hidden_layers": 2}
RELATIVE = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]}
NARROW = {"embedding_size": 32}
XLM = {"emb_dim": 64, "n_layers": 2, "n_heads": 4}
DEBERTA_V2 = SMALLER | RELATIVE | {"position_buckets": 32, "norm_rel_ebd": "layer_norm", "share_att_key": True}


@dataclass(frozen=True)
class Row:
    """A family, or one form of it."""

    family: str  # `model_type` in transformers
    sizes: dict[str, Any]  # what its configuration says besides the vocabulary and the positions
    tokenizer: Callable[[Path, str], None]  # writes the tokenizer's files, as such checkpoints have them
    attentions: int = 3  # how many attentions one operator computes: of all layers, or of none
    weights: float = 0.25  # the spread of its random weights


BIG_BIRD = SMALLER | {"block_size": 16, "num_random_blocks": 3}
DEBERTA_V3 = DEBERTA_V2 | {"position_biased_input": False, "legacy": False, "tie_word_embeddings": False}
CONVOLUTION = {"conv_kernel_size": 3, "conv_act": "gelu", "position_biased_input": False}
ESM = SMALLER | {"mask_token_id": 4, "token_dropout": True}
MOBILE = SMALLER | {"embedding_size": 32, "intra_bottleneck_size": 32, "num_feedforward_networks": 2}
# The window of 16 tokens is shorter than the longest input: a mask that must not be taken for a neutral one.
MODERN = SIZES | {"local_attention": 16, "global_attn_every_n_layers": 3}
REMBERT = SMALLER | {"input_embedding_size": 32, "output_embedding_size": 48}
ROWS = {
    "albert": Row("albert", SIZES | NARROW, unigram),
    "bert": Row("bert", SIZES, wordpiece),
    "big_bird": Row("big_bird", BIG_BIRD, unigram, 2),
    "camembert": Row("camembert", SIZES, unigram),
    "convbert": Row("convbert", SMALLER | NARROW | {"conv_kernel_size": 3}, wordpiece, 0),
    "data2vec-text": Row("data2vec-text", SMALLER, byte_level, 2),
    "deberta": Row("deberta", SIZES | RELATIVE, byte_level),
    "deberta-v2": Row("deberta-v2", DEBERTA_V2 | CONVOLUTION, unigram, 0),
    "deberta-v3": Row("deberta-v2", DEBERTA_V3, unigram, 0),
    "distilbert": Row("distilbert", {"dim": 64, "n_layers": 3, "n_heads": 4, "hidden_dim": 128}, wordpiece),
    "electra": Row("electra", SIZES | NARROW, wordpiece),
    "ernie": Row("ernie", SMALLER | {"use_task_id": True}, tokenizer_json, 2),
    "esm": Row("esm", ESM, tokenizer_json, 2),
    "flaubert": Row("flaubert", XLM, tokenizer_json, 0),
    "ibert": Row("ibert", SMALLER, byte_level, 2),
    "layoutlm": Row("layoutlm", SMALLER, wordpiece, 2),
    "megatron-bert": Row("megatron-bert", SMALLER, wordpiece, 2),
    # Its layers are not normalised: with larger weights, values of 7,000 leave the logits two digits, in PyTorch too.
    "mobilebert": Row("mobilebert", MOBILE, wordpiece, 2, weights=0.1),
    "modernbert": Row("modernbert", MODERN, tokenizer_json_of_bytes),
    "luke": Row("luke", SMALLER | {"entity_vocab_size": 9, "entity_emb_size": 8}, tokenizer_json_of_bytes, 2),
    "mpnet": Row("mpnet", SIZES, wordpiece),
    "nystromformer": Row("nystromformer", SMALLER, tokenizer_json, 0),
    "rembert": Row("rembert", REMBERT, unigram, 2),
    "roberta": Row("roberta", SIZES, byte_level),
    "roberta-prelayernorm": Row("roberta-prelayernorm", SMALLER, tokenizer_json_of_bytes, 2),
    "roformer": Row("roformer", SMALLER | NARROW, tokenizer_json, 2),
    "squeezebert": Row("squeezebert", SMALLER | {"embedding_size": 64}, wordpiece, 0),
    "xlm": Row("xlm", XLM, tokenizer_json, 0),
    "xlm-roberta-xl": Row("xlm-roberta-xl", SMALLER, tokenizer_json_of_bytes, 2),
    "xlm-roberta": Row("xlm-roberta", SIZES, unigram),
    "xlm-roberta (BPE)": Row("xlm-roberta", SMALLER, sentencepiece_bpe, 2),
}


def save_tiny(row: Row, folder: Path) -> None:
    folder.mkdir()
    row.tokenizer(folder, row.family)
    CONFIG_MAPPING[row.family]().save_pretrained(folder)  # tells which tokenizer it is
    tokenizer = AutoTokenizer.from_pretrained(folder)
    sizes = {"max_position_embeddings": 130, "pad_token_id": tokenizer.pad_token_id, **row.sizes}
    config = CONFIG_MAPPING[row.family](vocab_size=len(tokenizer), **sizes)
    random_model(AutoModelForMaskedLM, config, row.weights).save_pretrained(folder)
