"""text-classification: a classifier of sentence pairs.

A family that tells the two texts apart (BERT) keeps its segments as an input. The row that the head reads is the first
token's, so the last layer is computed for that row alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from transformers import AutoModelForSequenceClassification
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

from ...engine.inference.exported import CONVOLVED, LOW_PRECISION
from ...engine.text.lexicon import load_lexicon
from ..checkpoint import Checkpoint, Head
from ..passes import CPU, FP16, INT8, TEXT_CLASSIFICATION
from ..samples import Sample, random_strings
from .labels import label_names
from .task import Task, Variant

_PAIRS = 24


def _check(checkpoint: Checkpoint) -> None:
    label_names(checkpoint)


def samples(checkpoint: Checkpoint, segments: bool) -> Sequence[Sample]:
    """Text pairs, and strings of random tokens whose second half is the second text."""
    special = checkpoint.tokenizer.all_special_ids
    ordinary = sorted(set(range(checkpoint.vocabulary)) - {checkpoint.padding_id, *special})
    random = [
        Sample(ids, segments=(np.arange(len(ids)) * 2 >= len(ids)).astype(np.int32) if segments else None)
        for ids, _ in random_strings(ordinary, checkpoint.longest)
    ]
    return [*_text_pairs(checkpoint, segments), *random]


def _text_pairs(checkpoint: Checkpoint, segments: bool) -> Iterator[Sample]:
    """Pairs of sentences about the bundled names and professions, encoded by transformers itself."""
    lexicon = load_lexicon()
    for i in range(_PAIRS):
        name = lexicon.names[i * len(lexicon.names) // _PAIRS]
        profession = lexicon.professions[(7 * i) % len(lexicon.professions)]
        verb = lexicon.verbs[(37 * i) % len(lexicon.verbs)]
        text = f"{name} is {profession} who {'likes' if i % 2 else 'does not like'} to {verb}." * (1 + i % 3)
        encoding = checkpoint.tokenizer(text, f"{name} {'likes' if i % 3 else 'never liked'} to {verb}, after all.")
        ids = np.array(encoding["input_ids"][: checkpoint.longest], np.int32)
        second = np.array(encoding.get("token_type_ids", [0] * len(ids))[: len(ids)], np.int32)
        yield Sample(ids, segments=second if segments else None)


def _metadata(checkpoint: Checkpoint) -> dict[str, Any]:
    return {"labels": list(label_names(checkpoint)), "truncation_side": checkpoint.tokenizer.truncation_side}


TASK = Task(
    head=Head(
        task="text-classification",
        noun="sequence classifier",
        adjective="sequence-classification",
        loader=AutoModelForSequenceClassification,
        families=MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
        fills_masks=False,
        is_decoder=False,
        endings=("ForSequenceClassification",),
    ),
    length=40,  # a pair of RTE, SNLI or MNLI, roughly
    passes=TEXT_CLASSIFICATION,
    variants=(
        Variant(CONVOLVED, CPU, "rewriting for CPUs", size=0, is_exact=True),
        Variant(LOW_PRECISION["cpu"], INT8, "quantizing to int8", size=0.3, is_exact=False),
        Variant(LOW_PRECISION["cuda"], FP16, "converting to fp16", size=0.5, is_exact=False),
    ),
    takes_segments=True,
    check=_check,
    outputs=lambda checkpoint: int(checkpoint.config.num_labels),
    samples=samples,
    metadata=_metadata,
)
