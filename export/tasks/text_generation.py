"""text-generation: a causal language model whose next token is wanted, without keys and values of earlier calls.

A sentence is what stands before its mask, and the row of its last token is the one that is asked for. So the graph is
that of a masked model with another mask in its attention. In addition it has the rows of all tokens that enter the
vocabulary projection (`hidden`); a second graph makes log-probabilities of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tokenizers import processors
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

from ...engine.errors import InputError
from ...engine.inference.exported import CONVOLVED, LOW_PRECISION, SHARING_PREFIXES, VOCABULARY
from ...engine.text.tokenizer import MASK_TOKEN, CausalTokenizer
from ..checkpoint import Checkpoint, Head
from ..families import intermediate_size
from ..passes import CAUSAL_FP16, CAUSAL_INT8, CPU, SHARING, TEXT_GENERATION, VOCABULARY_ONLY
from ..passes.sharing import SHARES_PREFIXES
from ..samples import Sample, pattern_texts, random_strings
from .task import Task, Variant


def begin_with_bos(tokenizer: PreTrainedTokenizerFast, name: str) -> None:
    """Let a tokenizer put its BOS token before every text.

    Args:
        tokenizer: changed in place; as it is, if it puts the token there already.
        name: what to call the model in an error.

    Raises:
        InputError: it has no such token.
    """
    token, backend = tokenizer.bos_token, tokenizer.backend_tokenizer
    if token is None:
        raise InputError(f"{name}: its tokenizer has no BOS token, so --bos cannot put it before a text")
    if tokenizer.bos_token_id in CausalTokenizer(backend, 0).prefix:
        return
    template = processors.TemplateProcessing(
        single=f"{token} $A", pair=f"{token} $A {token} $B", special_tokens=[(token, tokenizer.bos_token_id)]
    )
    before = backend.post_processor
    backend.post_processor = template if before is None else processors.Sequence([before, template])


def samples(checkpoint: Checkpoint, _: bool) -> Sequence[Sample]:
    """Sentences of all bundled patterns up to their masks, and strings of random tokens.

    In the random strings any row is asked for, not the last one alone.
    """
    ordinary = sorted(set(range(checkpoint.vocabulary)) - set(checkpoint.tokenizer.all_special_ids))
    random = [Sample(ids, position) for ids, position in random_strings(ordinary, checkpoint.longest)]
    return [*_pattern_sentences(checkpoint), *random]


def _pattern_sentences(checkpoint: Checkpoint) -> Iterator[Sample]:
    """Sentences with fillers spread over the lists, up to the mask, encoded by transformers itself."""
    for text in pattern_texts(MASK_TOKEN):
        before, _, _ = text.partition(MASK_TOKEN)
        ids = np.array(checkpoint.tokenizer(before.removesuffix(" "))["input_ids"], np.int32)
        if len(ids) and ids[-1] == checkpoint.tokenizer.eos_token_id:  # the text goes on
            ids = ids[:-1]
        if 1 < len(ids) <= checkpoint.longest:
            yield Sample(ids, len(ids) - 1)


def _check(checkpoint: Checkpoint) -> None:
    """Refuse models that read a text in both directions."""
    config = checkpoint.config
    if type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False):
        raise InputError(
            f"{checkpoint.name} is configured as an encoder (is_decoder is false): give --task fill-mask, or a causal "
            "model"
        )
    if getattr(config, "is_encoder_decoder", False):
        raise InputError(f"{checkpoint.name} has an encoder and a decoder: a {TASK.head.noun} is a decoder alone")


def _metadata(checkpoint: Checkpoint) -> dict[str, Any]:
    tokenizer = checkpoint.tokenizer
    return {
        "intermediate_size": intermediate_size(checkpoint.config),
        "mask_token": MASK_TOKEN,
        "bos_token": tokenizer.bos_token or "",
        "before_text": tokenizer.convert_ids_to_tokens(
            CausalTokenizer(tokenizer.backend_tokenizer, checkpoint.vocabulary).prefix.tolist()
        ),
    }


TASK = Task(
    head=Head(
        task="text-generation",
        noun="causal language model",
        adjective="causal-LM",
        loader=AutoModelForCausalLM,
        families=MODEL_FOR_CAUSAL_LM_MAPPING,
        fills_masks=False,
        is_decoder=True,
        endings=("ForCausalLM", "LMHeadModel"),
    ),
    length=16,  # a sentence of the Self-Contained Negation Test up to its mask
    passes=TEXT_GENERATION,
    variants=(
        Variant(VOCABULARY, VOCABULARY_ONLY, "cutting out the vocabulary projection", size=0, is_exact=False),
        Variant(CONVOLVED, CPU, "rewriting for CPUs", size=0, is_exact=True),
        Variant(LOW_PRECISION["cpu"], CAUSAL_INT8, "quantizing to int8", size=0.3, is_exact=False),
        *(
            Variant(
                file,
                SHARING,
                f"sharing prefixes in {source}",
                size=0,
                is_exact=False,
                source=source,
                applies=lambda context: bool(context.said[SHARES_PREFIXES]),
            )
            for source, file in SHARING_PREFIXES.items()
        ),
        Variant(LOW_PRECISION["cuda"], CAUSAL_FP16, "converting to fp16", size=0.5, is_exact=False),
    ),
    takes_segments=False,
    check=_check,
    outputs=lambda checkpoint: checkpoint.vocabulary,
    samples=samples,
    metadata=_metadata,
)
