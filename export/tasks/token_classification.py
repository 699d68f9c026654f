"""token-classification: a model that gives every token of a sentence a label.

Every row of the last layer is needed, so nothing of it is saved, as it is for a mask or a pair of texts. All tokens of
a sentence belong to one text: where a family tells two texts apart, the graph takes them as the first one.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from transformers import AutoModelForTokenClassification
from transformers.models.auto.modeling_auto import MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING

from ...engine.choices import Task as TaskName
from ...engine.inference.exported import CONVOLVED
from ..checkpoint import Checkpoint, Head
from ..passes import CPU, TOKEN_CLASSIFICATION
from ..samples import Sample, pattern_texts, random_strings
from .labels import label_names
from .task import Task, Variant


def samples(checkpoint: Checkpoint, _: bool) -> Sequence[Sample]:
    """Sentences of all bundled patterns with a word at the mask, and strings of random tokens."""
    special = checkpoint.tokenizer.all_special_ids
    ordinary = sorted(set(range(checkpoint.vocabulary)) - {checkpoint.padding_id, *special})
    random = [Sample(ids) for ids, _ in random_strings(ordinary, checkpoint.longest)]
    return [*_pattern_sentences(checkpoint), *random]


def _pattern_sentences(checkpoint: Checkpoint) -> Iterator[Sample]:
    """Sentences with fillers spread over the lists, encoded by transformers itself."""
    for text in pattern_texts("not"):
        ids = np.array(checkpoint.tokenizer(text)["input_ids"], np.int32)
        if len(ids) <= checkpoint.longest:
            yield Sample(ids)


def _check(checkpoint: Checkpoint) -> None:
    label_names(checkpoint)


def _metadata(checkpoint: Checkpoint) -> dict[str, Any]:
    return {"labels": list(label_names(checkpoint))}


TASK = Task(
    head=Head(
        task=str(TaskName.TOKEN_CLASSIFICATION),
        noun="token classifier",
        adjective="token-classification",
        loader=AutoModelForTokenClassification,
        families=MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING,
        fills_masks=False,
        is_decoder=False,
        endings=("ForTokenClassification",),
    ),
    length=25,  # a sentence of a novel, roughly
    passes=TOKEN_CLASSIFICATION,
    variants=(Variant(CONVOLVED, CPU, "rewriting for CPUs", size=0, is_exact=True),),
    takes_segments=False,
    check=_check,
    outputs=lambda checkpoint: int(checkpoint.config.num_labels),
    samples=samples,
    metadata=_metadata,
)
