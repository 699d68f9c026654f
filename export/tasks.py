"""The tasks that a checkpoint can be exported for, and how they differ in the pipeline. To add one, name it here.

A causal model gets what stands before a mask, and the row of its last token is asked for. So its graph is that of a
masked model with another mask in its attention; a second graph makes log-probabilities of the rows of all tokens.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from transformers import (
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PretrainedConfig,
    PreTrainedTokenizerFast,
)

from ..engine.basics.errors import InputError
from ..engine.inference.exported import CONVOLVED, FP16, GRAPH, INT8, SHARING_PREFIXES, TREES, VOCABULARY
from ..engine.text.tokenizer import MASK_TOKEN, CausalTokenizer, begin_with
from . import passes, samples
from .checkpoint import Checkpoint, Head
from .families import intermediate_size
from .passes.context import Pass
from .passes.share_prefix import SHARES_PREFIXES
from .samples import Sample


@dataclass(frozen=True)
class Variant:
    """A further graph made from the finished fp32 graph, or from another variant."""

    file: str
    passes: tuple[Pass, ...]
    what: str  # said while it is made
    size: float = 0  # of the weights that it has of its own, as a multiple of those in fp32
    is_exact: bool = False  # it computes the same in fp32, so it is compared with PyTorch too
    source: str = GRAPH
    if_said: str = ""  # made only if a pass on the fp32 graph has said so


@dataclass(frozen=True)
class Task:
    """A task in the pipeline."""

    head: Head
    length: int  # tokens of a typical input, for which operations are counted
    passes: tuple[Pass, ...]  # from the traced graph to the finished fp32 graph
    variants: tuple[Variant, ...]
    check: Callable[[Checkpoint], object]  # refuses checkpoints whose head does not fit, with an InputError
    samples: Callable[[Checkpoint, bool], Sequence[Sample]]  # to compare on; the flag: whether segments are an input
    metadata: Callable[[Checkpoint], dict[str, Any]]  # what export.json says for this task alone


def label_names(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The names of a classifier's two or more labels, in the order of its logits; an InputError if they do not fit."""
    config, name = checkpoint.config, checkpoint.name
    known = {int(index): str(label) for index, label in config.id2label.items()}
    if config.num_labels < 2:
        raise InputError(f"{name} has {config.num_labels} label: it gives a score, a classifier has two or more labels")
    if config.problem_type == "multi_label_classification":
        raise InputError(f"{name} gives several labels at once (problem_type {config.problem_type}): one is needed")
    if sorted(known) != list(range(config.num_labels)):
        raise InputError(f"{name}: config.json names the labels {sorted(known)}, its head has {config.num_labels}")
    return tuple(known[index] for index in range(config.num_labels))


def _is_encoder(checkpoint: Checkpoint) -> None:
    """Refuse a classifier without labels to choose among, and one that is not an encoder."""
    label_names(checkpoint)
    config = checkpoint.config
    of_decoder = type(config) in TEXT_GENERATION.head.families and type(config) not in FILL_MASK.head.families
    if of_decoder and config.model_type not in _READ_TO_THE_LEFT_TOO:
        raise InputError(
            f"{checkpoint.name}: a model of the family {config.model_type} reads a text from left to right alone, and "
            "cannot be exported as a classifier; give one that is an encoder, such as BERT"
        )


_READ_TO_THE_LEFT_TOO = {"xlnet"}


def begin_with_bos(tokenizer: PreTrainedTokenizerFast, name: str) -> None:
    """Let a tokenizer put its BOS token before every text, if it does not do so yet; an InputError if it has none."""
    if tokenizer.bos_token is None:
        raise InputError(f"{name}: its tokenizer has no BOS token, so --bos cannot put it before a text")
    begin_with(tokenizer.backend_tokenizer, tokenizer.bos_token)


def _reads_to_the_right(checkpoint: Checkpoint) -> None:
    """Refuse models that read a text in both directions."""
    config = checkpoint.config
    if config.model_type in _READ_TO_THE_LEFT_TOO:
        said = (
            "reads a text in both directions unless each text comes with an order of its words, which a graph has not"
        )
        raise InputError(f"{checkpoint.name}: as a causal model, the family {config.model_type} {said}")
    if type(config) in FILL_MASK.head.families and not getattr(config, "is_decoder", False):
        said = "is configured as an encoder (is_decoder is false): give --task fill-mask, or a causal model"
        raise InputError(f"{checkpoint.name} {said}")


def _of_causal(checkpoint: Checkpoint) -> dict[str, Any]:
    tokenizer = checkpoint.tokenizer
    prefix = CausalTokenizer(tokenizer.backend_tokenizer, checkpoint.vocabulary).prefix.tolist()
    return {
        "intermediate_size": intermediate_size(checkpoint.config),
        "mask_token": MASK_TOKEN,
        "bos_token": tokenizer.bos_token or "",
        "before_text": tokenizer.convert_ids_to_tokens(prefix),
    }


_CONVOLVED = Variant(CONVOLVED, passes.CPU, "rewriting for CPUs", is_exact=True)


def _int8(own: tuple[Pass, ...]) -> Variant:
    return Variant(INT8, own, "quantizing to int8", 0.3)


def _fp16(own: tuple[Pass, ...]) -> Variant:
    return Variant(FP16, own, "converting to fp16", 0.5)


FILL_MASK = Task(
    head=Head(
        *("fill-mask", "masked language model", "masked-LM"),
        AutoModelForMaskedLM,
        ("ForMaskedLM", "ForPreTraining", "WithLMHeadModel"),
    ),
    length=18,  # a sentence of the Self-Contained Negation Test
    passes=passes.FILL_MASK,
    variants=(_CONVOLVED, _int8(passes.LANGUAGE_INT8), _fp16(passes.LANGUAGE_FP16)),
    check=lambda _: None,
    samples=samples.with_masks,
    metadata=lambda checkpoint: {"intermediate_size": intermediate_size(checkpoint.config)},
)
TEXT_GENERATION = Task(
    head=Head(
        *("text-generation", "causal language model", "causal-LM"), AutoModelForCausalLM, ("ForCausalLM", "LMHeadModel")
    ),
    length=16,  # a sentence of the Self-Contained Negation Test up to its mask
    passes=passes.TEXT_GENERATION,
    variants=(
        Variant(VOCABULARY, passes.VOCABULARY_ONLY, "cutting out the vocabulary projection"),
        _CONVOLVED,
        _int8(passes.CAUSAL_INT8),
        *(
            Variant(file, own, f"sharing beginnings in {source}", source=source, if_said=SHARES_PREFIXES)
            for own, files in ((passes.SHARING, SHARING_PREFIXES), (passes.TREES, TREES))
            for source, file in files.items()
        ),
        _fp16(passes.CAUSAL_FP16),
    ),
    check=_reads_to_the_right,
    samples=samples.before_masks,
    metadata=_of_causal,
)
TEXT_CLASSIFICATION = Task(
    head=Head(
        *("text-classification", "sequence classifier", "sequence-classification"),
        AutoModelForSequenceClassification,
        ("ForSequenceClassification",),
    ),
    length=40,  # a pair of RTE, SNLI or MNLI, roughly
    passes=passes.TEXT_CLASSIFICATION,
    variants=(_CONVOLVED, _int8(passes.INT8), _fp16(passes.FP16)),
    check=_is_encoder,
    samples=samples.of_pairs,
    metadata=lambda checkpoint: {
        "labels": list(label_names(checkpoint)),
        "truncation_side": checkpoint.tokenizer.truncation_side,
    },
)
TOKEN_CLASSIFICATION = Task(
    head=Head(
        *("token-classification", "token classifier", "token-classification"),
        AutoModelForTokenClassification,
        ("ForTokenClassification",),
    ),
    length=25,  # a sentence of a novel, roughly
    passes=passes.TOKEN_CLASSIFICATION,
    variants=(_CONVOLVED,),
    check=_is_encoder,
    samples=samples.of_sentences,
    metadata=lambda checkpoint: {"labels": list(label_names(checkpoint))},
)
TASKS = {task.head.task: task for task in (FILL_MASK, TEXT_GENERATION, TEXT_CLASSIFICATION, TOKEN_CLASSIFICATION)}


def task_named(name: str) -> Task:
    """An InputError for a name that is not a task."""
    if name not in TASKS:
        raise InputError(f"{name} is not a task of the export: give {' or '.join(TASKS)}")
    return TASKS[name]


def task_of(config: PretrainedConfig) -> Task:
    """The task of a checkpoint, by the class that its configuration names, else by its family."""
    for architecture in config.architectures or ():
        for task in TASKS.values():
            if architecture.endswith(task.head.endings):
                return task
    # Where neither tells, the checkpoint is refused for `fill-mask`, with the reason.
    return next((task for task in TASKS.values() if type(config) in task.head.families), FILL_MASK)
