"""The differences between the tasks in the pipeline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...engine.inference.manifest import GRAPH
from ..checkpoint import Checkpoint, Head
from ..passes import Context, Pass
from ..samples import Sample


@dataclass(frozen=True)
class Variant:
    """A further graph made from the finished fp32 graph, or from another variant.

    Attributes:
        file: its name.
        passes: what makes it.
        what: said while it is made.
        size: of the weights that it has of its own, as a multiple of those in fp32.
        source: the graph that it is made from.
        applies: whether models of this kind have it.
        is_exact: whether it computes the same in fp32, so that it is compared with PyTorch too.
    """

    file: str
    passes: tuple[Pass, ...]
    what: str
    size: float
    is_exact: bool
    source: str = GRAPH
    applies: Callable[[Context], bool] = lambda _: True


@dataclass(frozen=True)
class Task:
    """A task in the pipeline.

    Attributes:
        head: what a checkpoint must have for it.
        length: tokens of a typical input, for which operations are counted.
        passes: from the traced graph to the finished fp32 graph.
        variants: the other graphs.
        takes_segments: whether the model may tell a first text from a second one.
        check: refuses checkpoints whose head does not fit, with an InputError.
        outputs: number of logits.
        samples: what to compare on; the second argument says whether segments are an input.
        metadata: what export.json says for this task alone.
    """

    head: Head
    length: int
    passes: tuple[Pass, ...]
    variants: tuple[Variant, ...]
    takes_segments: bool
    check: Callable[[Checkpoint], None]
    outputs: Callable[[Checkpoint], int]
    samples: Callable[[Checkpoint, bool], Sequence[Sample]]
    metadata: Callable[[Checkpoint], dict[str, Any]]
