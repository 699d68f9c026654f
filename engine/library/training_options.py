"""The options of trainings: `nli train` and `cues train`, which `negengine.export.training` carries out."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from ..basics.choices import Precision
from ..basics.option import Option, check_options

_LARGEST_SEED = 2**32 - 1  # NumPy takes no larger one
_PAPER = "(default: as in the paper)"
_PATIENCE = f"Stop if the score on the dev set does not rise for N epochs, and keep the best epoch {_PAPER}."
_RATE = f"The highest learning rate {_PAPER}."
_LENGTH = f"Largest number of tokens in an example {_PAPER}."
_LIMIT = "Train on N examples drawn at random (default: all)."
_STEPS = "Steps between two checkpoints (default: 500)."
_REVISION = "Branch, tag or commit of MODEL on the hub (default: main)."
_PRECISION = "mixed: bf16 or fp16, on a GPU; auto: mixed on a GPU, else fp32."


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The options of all trainings. None stands for the paper's hyperparameter; without `progress` nothing is said."""

    output: Annotated[Path, Option("The folder to write.", metavar="DIR", flags=("--output", "-o"))]
    epochs: Annotated[int | None, Option(f"Passes over the data {_PAPER}.", "N", minimum=1, maximum=10_000)] = None
    batch_size: Annotated[int | None, Option(f"Examples in a batch {_PAPER}.", "N", minimum=1, maximum=65_536)] = None
    learning_rate: Annotated[float | None, Option(_RATE, metavar="RATE", flags=("--lr",))] = None
    weight_decay: Annotated[float | None, Option(f"Weight decay of AdamW {_PAPER}.", metavar="X", minimum=0)] = None
    max_length: Annotated[int | None, Option(_LENGTH, metavar="N", minimum=8)] = None
    patience: Annotated[int | None, Option(_PATIENCE, metavar="N", minimum=1, maximum=10_000)] = None
    seed: Annotated[int, Option("Seed for all random choices.", "N", minimum=0, maximum=_LARGEST_SEED)] = 42
    limit: Annotated[int | None, Option(_LIMIT, metavar="N", minimum=1)] = None
    save_steps: Annotated[int | None, Option(_STEPS, metavar="N", minimum=1)] = None
    revision: Annotated[str | None, Option(_REVISION, metavar="NAME")] = None
    allow_pickle: Annotated[bool, Option("Also read pickled weights, which can run code.")] = False
    device: Annotated[str, Option("auto, cpu or cuda.", metavar="DEVICE")] = "auto"
    precision: Annotated[Precision, Option(_PRECISION)] = Precision.AUTO
    threads: Annotated[int | None, Option("CPU threads (default: one for each core).", metavar="N", minimum=1)] = None
    verbose: Annotated[bool, Option("Print more messages on stderr.", flags=("--verbose", "-v"))] = False
    progress: bool = True
    command: str | None = None

    def __post_init__(self) -> None:
        check_options(self)


_FILES = "Marked sentences in the columns of CD-SCO (default: CD-SCO itself)."
_ENCODER = "The checkpoint to start from: a hub id, a local folder, or mini."
_DATA = "Folder of CD-SCO (default: where `data get` put it)."
_DEV = "Marked sentences for the score after each epoch (default: 15 % of FILE)."
_TEST = "With --evaluate: marked sentences for the test (default: the dev set)."


@dataclass(frozen=True, kw_only=True)
class CueOptions(TrainingOptions):
    """Train a detector of negation cues, for `negengine cues FILE --detector`.

    The default settings are those of Khandelwal and Sawant (2020). To resume a stopped training, run the same command
    again.
    Example: negengine cues train --evaluate -o detector
    """

    files: Annotated[Sequence[Path], Option(_FILES, "FILE...", kind=list[Path])] = ()
    encoder: Annotated[str, Option(_ENCODER, metavar="MODEL")] = "distilbert-base-uncased"
    dev: Annotated[Sequence[Path], Option(_DEV, metavar="FILE", kind=list[Path])] = ()
    test: Annotated[Sequence[Path], Option(_TEST, metavar="FILE", kind=list[Path])] = ()
    data: Annotated[Path | None, Option(_DATA, metavar="PATH")] = None
    evaluate: Annotated[bool, Option("Export the detector, and test its export by kind of cue.")] = False


class NliTask(StrEnum):
    """What a classifier learns."""

    RTE = "rte"
    SNLI = "snli"
    MNLI = "mnli"


_GLUE = "Folder with train.tsv and dev.tsv of GLUE, or with the JSON lines of SNLI or MNLI."
_NEGATION = "Also learn this part of the pairs with negation, such as 0.7; hold the others out (default: none)."
_PAIRS = "Folder of the pairs with negation (default: where `data get` put them)."
_EVALUATE = "Export and test the classifier; print the figures beside the paper's."


@dataclass(frozen=True, kw_only=True)
class NliOptions(TrainingOptions):
    """Train a classifier of text pairs, with or without pairs with negation.

    The result is a checkpoint for `negengine export`. The default settings are those of Hossain and others (2020).
    To resume a stopped training, run the same command again.
    Example: negengine nli train bert-base-cased --task rte --data glue/RTE --negation 0.7 -o models/rte
    """

    model: Annotated[str, Option("The encoder to start from: a hub id, a local folder, or mini.", metavar="MODEL")]
    task: Annotated[str, Option("The task to learn.", kind=NliTask, flags=("--task",))]
    data: Annotated[Path, Option(_GLUE, metavar="DIR", flags=("--data",))]
    negation: Annotated[float | None, Option(_NEGATION, metavar="FRACTION")] = None
    negation_data: Annotated[Path | None, Option(_PAIRS, metavar="DIR")] = None
    new_pooler: Annotated[bool, Option("If MODEL has no pooler, begin with one of random weights.")] = False
    evaluate: Annotated[bool, Option(_EVALUATE)] = False
