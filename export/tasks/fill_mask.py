"""fill-mask: a masked language model whose logits at one mask are wanted."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from transformers import AutoModelForMaskedLM
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING

from ...engine.errors import InputError
from ...engine.inference.exported import CONVOLVED, LOW_PRECISION
from ..checkpoint import Checkpoint, Head
from ..families import intermediate_size
from ..passes import CPU, FILL_MASK, FP16, LANGUAGE_INT8
from ..samples import Sample, pattern_texts, random_strings
from .task import Task, Variant


def samples(checkpoint: Checkpoint, _: bool) -> Sequence[Sample]:
    """Sentences of all bundled patterns, and strings of random tokens with one mask."""
    # No mask but the one, and no padding: where it stands, PyTorch counts positions anew in some families.
    mask = checkpoint.tokenizer.mask_token_id
    ordinary = sorted(set(range(checkpoint.vocabulary)) - {mask, checkpoint.padding_id})
    random = []
    for ids, position in random_strings(ordinary, checkpoint.longest):
        ids[position] = mask
        random.append(Sample(ids, position))
    return [*_pattern_sentences(checkpoint), *random]


def _pattern_sentences(checkpoint: Checkpoint) -> Iterator[Sample]:
    """Sentences with fillers spread over the lists, encoded by transformers itself."""
    tokenizer = checkpoint.tokenizer
    for text in pattern_texts(tokenizer.mask_token):
        ids = np.array(tokenizer(text)["input_ids"], np.int32)
        (positions,) = np.nonzero(ids == tokenizer.mask_token_id)
        if len(positions) != 1:
            raise InputError(f"{checkpoint.name}: its tokenizer does not keep {tokenizer.mask_token} whole")
        if len(ids) <= checkpoint.longest:
            yield Sample(ids, int(positions[0]))


def _metadata(checkpoint: Checkpoint) -> dict[str, Any]:
    return {"intermediate_size": intermediate_size(checkpoint.config)}


TASK = Task(
    head=Head(
        task="fill-mask",
        noun="masked language model",
        adjective="masked-LM",
        loader=AutoModelForMaskedLM,
        families=MODEL_FOR_MASKED_LM_MAPPING,
        fills_masks=True,
        is_decoder=False,
        endings=("ForMaskedLM", "ForPreTraining", "WithLMHeadModel"),
    ),
    length=18,  # a sentence of the Self-Contained Negation Test
    passes=FILL_MASK,
    variants=(
        Variant(CONVOLVED, CPU, "rewriting for CPUs", size=0, is_exact=True),
        Variant(LOW_PRECISION["cpu"], LANGUAGE_INT8, "quantizing to int8", size=0.3, is_exact=False),
        Variant(LOW_PRECISION["cuda"], FP16, "converting to fp16", size=0.5, is_exact=False),
    ),
    takes_segments=False,
    check=lambda _: None,
    outputs=lambda checkpoint: checkpoint.vocabulary,
    samples=samples,
    metadata=_metadata,
)
