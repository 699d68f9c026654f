"""Tiny checkpoints of causal families with random weights, and their kinds of tokenizers. Nothing is downloaded."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tiny_checkpoints import random_model, save
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    GPT2Config,
    GPTBigCodeConfig,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    ModernBertDecoderConfig,
    MptConfig,
    Olmo3Config,
    OPTConfig,
    Phi3Config,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
)

_WORDS = "smoke dance sing swim walk argue sleep hunt dig laugh agree cook"
_TEXTS = [
    f"{name} is {profession} who {likes} to {verb}. {pronoun} is happy to {verb}. Paris is the capital of France."
    for name, pronoun in (("Jessica", "She"), ("Maria", "She"), ("John", "He"), ("Peter", "He"))
    for profession in ("a dancer", "an architect", "a doctor")
    for likes in ("likes", "does not like")
    for verb in _WORDS.split()
]


def byte_level(first: str = "") -> PreTrainedTokenizerFast:
    """As GPT-2 and Pythia have it; with a token before every text, as OPT."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>"] if first else ["<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    how = {"vocab_size": 420, "initial_alphabet": alphabet, "special_tokens": special, "show_progress": False}
    tokenizer.train_from_iterator(_TEXTS, trainers.BpeTrainer(**how))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if first:
        own = [(first, tokenizer.token_to_id(first))]
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{first} $A", special_tokens=own)
    own = {"bos_token": first, "eos_token": first, "pad_token": "<pad>"} if first else {"bos_token": "<|endoftext|>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **own)


def llama_like() -> PreTrainedTokenizerFast:
    """SentencePiece's BPE as Llama's tokenizer.json has it: spaces become ▁, unknown characters become bytes."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    words = pre_tokenizers.Split("▁", "merged_with_next")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.Split(".", "isolated")])
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    trainer = trainers.BpeTrainer(vocab_size=164, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    tokenizer.train_from_iterator(_TEXTS, trainer)
    content = json.loads(tokenizer.to_str())
    first = len(content["model"]["vocab"])
    content["model"]["vocab"] |= {f"<0x{byte:02X}>": first + byte for byte in range(256)}
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


@dataclass(frozen=True)
class Family:
    """How a family's tiny checkpoint is made, and what its export must have."""

    config: Any  # the class of its configuration
    tokenizer: Callable[[], PreTrainedTokenizerFast]  # makes its kind of tokenizer
    sizes: dict[str, Any] = field(default_factory=dict)  # arguments of the configuration
    fused: int = 0  # how many fused attentions the export has
    beyond: int = 0  # how many rows its vocabulary has beyond its tokens


_SHAPE = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 130}
_COMMON = _SHAPE | {"intermediate_size": 96}
_SCALING = {"type": "longrope", "short_factor": [1.0] * 6, "long_factor": [2.0] * 6}
_LONG = {"original_max_position_embeddings": 70, "rope_scaling": _SCALING}
_SLIDING = {"sliding_window": 40, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
_LOCAL = {"local_attention": 128, "pad_token_id": 0, "cls_token_id": 0, "sep_token_id": 0}
FAMILIES = {
    "gpt2": Family(GPT2Config, byte_level, {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 130}, fused=3),
    # StarCoder: all heads share one head of keys and values, and queries have four axes before they are divided.
    "gpt_bigcode": Family(
        GPTBigCodeConfig, byte_level, {"n_embd": 48, "n_layer": 3, "n_head": 4, "n_positions": 130}, 3
    ),
    "opt": Family(OPTConfig, lambda: byte_level("</s>"), _SHAPE | {"ffn_dim": 96, "word_embed_proj_dim": 48}, fused=3),
    # Pythia: a quarter of each head is rotated, the blocks are parallel, and the vocabulary has rows without tokens.
    "gpt_neox": Family(GPTNeoXConfig, byte_level, _COMMON, fused=3, beyond=7),
    # Keys and values are shared by two heads each.
    "llama": Family(LlamaConfig, llama_like, _COMMON | {"num_key_value_heads": 2}, fused=3),
    # Its layers see the last 40 tokens only, so it takes no longer texts.
    "mistral": Family(MistralConfig, llama_like, _COMMON | {"num_key_value_heads": 2, "sliding_window": 40}, fused=3),
    # Queries, keys and values have biases; all heads share one head of keys and values.
    "qwen2": Family(Qwen2Config, byte_level, _COMMON | {"num_key_value_heads": 1}, fused=3),
    # From 70 tokens on PyTorch rotates by another table, so it takes no longer texts.
    "phi3": Family(Phi3Config, llama_like, _COMMON | _LONG, fused=3),
    # Half of its layers see the last 40 tokens only.
    "olmo3": Family(Olmo3Config, byte_level, _COMMON | _SLIDING, fused=3),
    # Ettin. The first layer sees all tokens, the others those before, up to 64.
    "modernbert-decoder": Family(ModernBertDecoderConfig, byte_level, _COMMON | _LOCAL, fused=3),
    "mpt": Family(MptConfig, byte_level, {"d_model": 48, "n_layers": 3, "n_heads": 4, "max_seq_len": 130}),
    # A bias on the scores grows with the distance of two tokens.
    "bloom": Family(BloomConfig, byte_level, {"hidden_size": 48, "n_layer": 3, "n_head": 4, "seq_length": 130}),
}


def write_causal(folder: Path, family: str, word: str = "", **sizes: Any) -> Path:
    """A checkpoint of a family; with a word, one of GPT-2 that prefers this word everywhere."""
    own = FAMILIES[family]
    tokenizer = own.tokenizer()
    special = {f"{role}_token_id": getattr(tokenizer, f"{role}_token_id") for role in ("bos", "eos", "pad")}
    config = own.config(vocab_size=len(tokenizer) + own.beyond, **special | own.sizes | sizes)
    model = random_model(AutoModelForCausalLM, config)
    if word:
        with torch.no_grad():
            _prefer(model, *tokenizer(f" {word}")["input_ids"])
    return save(folder, model, tokenizer)


def _prefer(model: PreTrainedModel, first: int, second: int | None = None) -> None:
    """Let a model of GPT-2 predict a token everywhere, and another one after it.

    The bias of the last normalisation points to the first token. With a second one, the blocks do little, so that the
    last row still shows the token that was read: the second token's output has twice the first one's direction, which
    counts where the first was read, and a direction of its own that the bias points away from.
    """
    embeddings, bias = model.transformer.wte.weight, model.transformer.ln_f.bias
    if second is None:
        bias.add_(4 * embeddings[first] / embeddings[first].norm())
        return
    for name, parameter in model.named_parameters():
        if ".c_proj." in name:
            parameter.mul_(0.02)
    directions = torch.randn(2, embeddings.shape[1])
    directions -= directions.mean(dim=1, keepdim=True)  # as the normalisation takes the mean away
    one, other = torch.linalg.qr(directions.T)[0].T
    embeddings[first], embeddings[second] = 4 * one, 8 * one + 4 * other
    bias.add_(3 * one - 6 * other)
