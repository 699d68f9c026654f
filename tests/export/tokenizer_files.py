"""The files of tokenizers as checkpoints have them: lists of words and merges, SentencePiece files, tokenizer.json.

Each function writes the files of one kind for a family. transformers makes the fast tokenizer from them, as it does for
published checkpoints.
"""

import io
import json
from functools import cache, partial
from pathlib import Path

import sentencepiece
from negengine.engine.text.tokenizer import MaskTokenizer
from transformers import CONFIG_MAPPING, TOKENIZER_MAPPING, PreTrainedTokenizerFast

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
    """A SentencePiece file, which transformers converts."""
    _, fast = TOKENIZER_MAPPING[CONFIG_MAPPING[family]]
    (folder / fast.vocab_files_names["vocab_file"]).write_bytes(_sentencepiece(family, kind))


sentencepiece_bpe = partial(unigram, kind="bpe")


@cache
def _sentencepiece(family: str, kind: str) -> bytes:
    """A trained SentencePiece model with the family's special tokens."""
    special = {"control_symbols": _BRACKETS, "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1}
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


@cache
def _small(kind: str) -> MaskTokenizer:
    return SMALL[kind]()
