"""The exported graph against PyTorch in fp32, sample by sample: all logits, and the decision made from them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from transformers import PreTrainedModel

from ..engine.basics.errors import InputError
from ..engine.basics.limits import cpu_threads
from ..engine.inference.exported import FP16, HIDDEN
from ..engine.inference.trees import BIAS, LONGEST_TREE, by_length, trees
from .observe import Feeds, open_session, told_in_one_line
from .passes.half import HEADROOM, LARGEST
from .samples import USUAL, Batch, Sample, batches

# Of |Δlogit| and of |Δ log-probability|, relative to the largest logit of a row, or to 1; fp32 differs by 1e-6 to 1e-5.
TOLERANCE = 1e-4
_FLOORS = 4  # where PyTorch's own rounding on an input is larger than the tolerance, so many times it is accepted
_MOST_TIMES = 10  # but no more than so many times the tolerance: a reference that is further off proves nothing
_WITHOUT_PROBABILITY = 100  # a logit so far below the largest has a probability of 0 in fp32
Logits = NDArray[np.float32]
Part = TypeVar("Part")
Found = TypeVar("Found")


@dataclass(frozen=True)
class Parity:
    """How far a graph is from PyTorch."""

    samples: int
    largest_difference: float
    # Share of rows of logits with the same top-1: of samples, or of tokens where each has a label. Another top-1 is
    # accepted only if PyTorch's two logits are closer than the tolerance.
    top1_agreement: float
    tolerance: float | None  # None where the difference is not limited


def reference_logits(
    model: PreTrainedModel, samples: Sequence[Sample], name: str, keep: Callable[[int, Any], None] = lambda *_: None
) -> Logits:
    """PyTorch's logits, float32 [rows, V] at the mask, or [rows, labels]: a row a sample, or a row a token.

    `keep` is given the number and all logits, a tensor [L, V], of each sample whose further results are compared.
    """
    further = set(_some(samples))

    def run(batch: Batch) -> dict[int, Logits]:
        length = batch.feeds["input_ids"].shape[1]
        known = {key: batch.feeds[key] for key in ("input_ids", "token_type_ids") if key in batch.feeds}
        inputs = {key: torch.from_numpy(values.astype(np.int64)) for key, values in known.items()}
        with torch.inference_mode(), told_in_one_line(name, f"running it in PyTorch on {length} tokens"):
            every = model(**inputs).logits
            for i, row in enumerate(batch.rows):
                if row in further:
                    keep(row, every[i])
        logits = every.numpy()
        positions = [samples[row].position for row in batch.rows]
        rows = (logits[i] if at is None else logits[i, at].copy() for i, at in enumerate(positions))
        return dict(zip(batch.rows, rows, strict=True))

    found: dict[int, Logits] = {}
    for logits in _on_all_cores(run, reversed(batches(samples))):  # the longest first: no core waits at the end
        found |= logits
    return np.concatenate([np.atleast_2d(found[row]) for row in range(len(samples))])


def _on_all_cores(run: Callable[[Part], Found], parts: Iterable[Part]) -> list[Found]:
    """Each core has parts of its own: several cores on one part would wait for each other after every operator."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(run, parts))
    finally:
        torch.set_num_threads(threads)


@dataclass(frozen=True)
class Tokens:
    """PyTorch's log-probabilities of all tokens of a sample but the first, float32 [L - 1]."""

    logprobs: Logits
    allowed: Logits  # float32 [L - 1], the largest difference that is accepted, as of the logits of the same rows


class TokensOf(dict[int, Tokens]):
    """What PyTorch says of the tokens of some samples: number of the sample → its tokens; `put` is a `keep`."""

    def __init__(self, samples: Sequence[Sample], numbers: Sequence[int]) -> None:
        super().__init__()
        self._samples, self._numbers = samples, numbers

    def put(self, row: int, every: Any) -> None:
        ids = torch.from_numpy(self._samples[row].ids.astype(np.int64))
        logprobs = every[:-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0].numpy()
        allowed = _allowed(every[:-1].numpy(), which_tokens(self._numbers, every.shape[-1]))
        self[row] = Tokens(logprobs, allowed.min(axis=1, initial=np.inf))


def which_tokens(numbers: Sequence[int], width: int) -> NDArray[np.bool_]:
    """Which of so many logits are those of tokens with these numbers, bool [width]."""
    found = np.zeros(width, np.bool_)
    found[[number for number in numbers if number < width]] = True
    return found


def _some(samples: Sequence[Sample]) -> list[int]:
    """The numbers of the samples whose further results are compared too: not all, since each is a run of its own."""
    long = (row for row, sample in enumerate(samples) if len(sample.ids) > USUAL)
    return sorted({*range(0, len(samples), 9), len(samples) - 1, *long})


@dataclass(frozen=True, eq=False)
class Rounding:
    """How far PyTorch in fp32 is from PyTorch in fp64, which opens the model again: only an input that asks has it."""

    open: Callable[[], PreTrainedModel]
    name: str
    _known: dict[Sample, tuple[NDArray[np.float64], NDArray[np.float64] | None]] = field(default_factory=dict)
    _alone: Lock = field(default_factory=Lock)  # one input at a time: in fp64 a model needs twice the memory

    @cached_property
    def _exact(self) -> PreTrainedModel:
        return self.open().double()

    def of(self, sample: Sample, reference: Logits, has_token: NDArray[np.bool_] | None = None) -> float:
        """The largest difference from fp64 of a sample's logits in fp32, [rows, K]; of its tokens', float32 [L - 1]."""
        with self._alone:
            exact, chances = self._known.get(sample) or self._known.setdefault(sample, self._run(sample))
        if has_token is None:
            return float(np.abs(reference - np.asarray(chances)).max(initial=0))
        apart = _difference(reference, exact.reshape(reference.shape))
        return float(apart.max(initial=0, where=_counts(reference, has_token)))

    def _run(self, sample: Sample) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """What is compared of a sample, for all graphs: the logits, and the log-probabilities of a causal model."""
        given = {"input_ids": sample.ids, "token_type_ids": sample.segments}
        inputs = {key: torch.from_numpy(ids.astype(np.int64))[None] for key, ids in given.items() if ids is not None}
        with torch.inference_mode(), told_in_one_line(self.name, "running it in PyTorch in fp64"):
            logits = self._exact(**inputs).logits[0]
            exact = logits if sample.position is None else logits[sample.position].clone()
            if sample.position is None or len(logits) != len(sample.ids):
                return exact.numpy(), None
            chances = logits[:-1].log_softmax(-1).gather(1, inputs["input_ids"][0, 1:, None])
        return exact.numpy(), chances[:, 0].numpy()


def compare_tokens(
    graph: Path,
    vocabulary: Path,
    samples: Sequence[Sample],
    reference: Mapping[int, Tokens],
    *,
    name: str,
    rounding: Rounding,
) -> None:
    """Compare log-probabilities of a causal model with PyTorch's; an InputError if one is off by too much.

    Of a graph that reads trees, a text that shares its first half stands beside each sample.
    """
    first, second = (open_session(name, str(path), ort.SessionOptions()) for path in (graph, vocabulary))
    reads_trees = BIAS in {given.name for given in first.get_inputs()}
    for row, wanted in reference.items():
        ids, middle = samples[row].ids, len(samples[row].ids) // 2
        if len(ids) < 2 or (reads_trees and len(ids) > LONGEST_TREE):
            continue
        texts = sorted([ids[:-1], *[np.append(ids[:middle], ids[-2])] * reads_trees], key=list)
        (run,) = trees(texts, 2 * len(ids)) if reads_trees else by_length(texts, 1)
        own = run.row[[len(text) for text in texts].index(len(ids) - 1), : len(ids) - 1]
        with told_in_one_line(name, f"running the graph on {len(ids)} tokens"):
            (hidden,) = first.run([HIDDEN], run.feeds())
            (found,) = second.run(["token_logprobs"], {HIDDEN: hidden[0, own], "following_id": ids[1:]})
        off, allowed = np.abs(found - wanted.logprobs), wanted.allowed
        if not (off <= allowed).all():
            allowed = _with_floor(allowed, rounding.of(samples[row], wanted.logprobs))
        if not (off <= allowed).all():
            worst = int(np.argmax(off - allowed))
            raise InputError(
                f"{name}: log-probabilities disagree with PyTorch by {off[worst]:.2g} where {allowed[worst]:.2g} is "
                f"allowed, on an input of {len(ids)} tokens"
            )


def compare_prefixes(graph: Path, samples: Sequence[Sample], reference: Logits, has_token: NDArray[np.bool_]) -> None:
    """Compare a graph that computes a common beginning of sentences once with PyTorch's logits, float32 [n, V].

    Each sample is divided in the middle; its second half stands in the batch twice.
    """
    session = open_session(graph.name, str(graph), ort.SessionOptions())
    for row in _some(samples):
        sample, wanted = samples[row], reference[row]
        middle = len(sample.ids) // 2
        if sample.position is None or not 1 <= middle <= sample.position:
            continue
        feeds = {
            "prefix_ids": sample.ids[None, :middle],
            "suffix_ids": np.repeat(sample.ids[None, middle:], 2, axis=0),
            "mask_position": np.full(2, sample.position, np.int32),
            "expected_id": np.zeros(2, np.int32),
        }
        with told_in_one_line(graph.name, f"running it on {len(sample.ids)} tokens"):
            (logits,) = session.run(["logits"], feeds)
        difference = _difference(logits, wanted)
        if not (difference <= _allowed(wanted[None], has_token)).all():
            said = f"|Δlogit| {difference.max():.2g} on {len(sample.ids)} tokens"
            raise InputError(f"{graph.name} disagrees with PyTorch: {said}")


def _difference(found: Logits, wanted: Logits) -> Logits:
    """|Δlogit|; 0 where both are the same infinity, as of a row that a model excludes."""
    with np.errstate(invalid="ignore"):
        return np.where(found == wanted, np.float32(0), np.abs(found - wanted))


def _allowed(wanted: Logits, has_token: NDArray[np.bool_]) -> Logits:
    """The largest |Δlogit| that is accepted of each of PyTorch's logits, float32 [rows, K].

    A row is measured by its tokens that can have a probability. Padded rows of a vocabulary and excluded tokens may
    have a bias of -1e4 or -inf: they are measured by themselves.
    """
    counts, size = _counts(wanted, has_token), np.abs(wanted)
    largest = np.maximum(1.0, size.max(axis=1, keepdims=True, where=counts, initial=0))
    return np.asarray(TOLERANCE * np.where(counts, largest, np.maximum(largest, size)), np.float32)


def _with_floor(allowed: Logits, floor: Any) -> Any:
    """What is accepted where PyTorch's own rounding is a `floor`, a number or [rows, 1]."""
    return np.maximum(allowed, np.minimum(_FLOORS * floor, _MOST_TIMES * allowed))


def _counts(wanted: Logits, has_token: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which logits, of [rows, K], are those of tokens that can have a probability."""
    of_tokens = np.where(has_token, wanted, -np.inf)
    return np.asarray(of_tokens >= of_tokens.max(axis=1, keepdims=True) - _WITHOUT_PROBABILITY)


class DisagreesError(InputError):
    """A graph gives other numbers than PyTorch, or none."""


def compare(
    graph: Path,
    samples: Sequence[Sample],
    reference: Logits,
    *,
    name: str,
    has_token: NDArray[np.bool_],
    rounding: Rounding,
    is_exact: bool = True,
) -> Parity:
    """Run the exported graph on the CPU and compare it with PyTorch's logits, float32 [rows, K].

    Which of the K rows of the vocabulary have a token: bool [K]; labels have all.
    Raises DisagreesError if a logit is not finite, or an exact graph's is further off than the tolerance, or its top-1
    differs and is not a tie; or if the graph's own decisions or labels are not those of its logits.
    """
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = open_session(name, str(graph), options)
    counts = [1 if len(reference) == len(samples) else len(sample.ids) for sample in samples]
    by_sample = np.split(reference, np.cumsum(counts)[:-1])

    def compared(batch: Batch) -> tuple[float, int]:
        """The largest difference, and how many top-1s are the same."""
        wanted = np.concatenate([by_sample[row] for row in batch.rows])
        top, rows = wanted.argmax(axis=1), np.arange(len(wanted))
        each = _allowed(wanted, has_token)
        logits, decisions = _run(session, batch.feeds, top, name)
        given = as_cuda_rounds(logits) if graph.name == FP16 else logits
        apart, true = _difference(given, wanted), wanted if is_exact else logits
        if is_exact and not (apart <= each).all():
            floors = [np.full(counts[row], rounding.of(samples[row], by_sample[row], has_token)) for row in batch.rows]
            each = _with_floor(each, np.concatenate(floors)[:, None])
        allowed = each[rows, top]
        difference, limit = apart.max(axis=1), each if is_exact else np.finfo(np.float32).max
        wrong = ~(apart <= limit).all(axis=1) | _decides_wrongly(logits, top, true, decisions, allowed)
        if wrong.any():
            worst = int(np.flatnonzero(wrong)[0])
            what = f"where {allowed[worst]:.2g} is allowed, " if is_exact else ""
            raise DisagreesError(
                f"{name}: the exported graph disagrees with PyTorch: |Δlogit| {difference[worst]:.2g} {what}on an "
                f"input of {batch.feeds['input_ids'].shape[1]} tokens; this model cannot be used"
            )
        found = given.argmax(axis=1)
        if is_exact and (wanted[rows, top] - wanted[rows, found] > allowed).any():
            raise DisagreesError(f"{name}: the exported graph disagrees with PyTorch on a top-1; it cannot be used")
        return float(difference.max()), int((top == found).sum())

    with ThreadPoolExecutor(cpu_threads()) as pool:
        differences, agreed = zip(*pool.map(compared, batches(samples)), strict=True)
    return Parity(len(samples), max(differences), sum(agreed) / len(reference), TOLERANCE if is_exact else None)


def as_cuda_rounds(logits: Logits) -> Logits:
    """Logits of the fp16 graph as the product with the vocabulary gives them on CUDA; on a CPU nothing is rounded."""
    is_half = np.abs(logits) < LARGEST / HEADROOM  # of larger ones the product stays fp32
    rounded: Logits = np.where(is_half, np.where(is_half, logits, 0).astype(np.float16), logits).astype(np.float32)
    return rounded


def _run(
    session: ort.InferenceSession, feeds: Feeds, expected: NDArray[np.int64], name: str
) -> tuple[Logits, list[Any]]:
    """The logits, and the decisions as in passes/outputs.py, if the graph has a head for them."""
    inputs = {value.name for value in session.get_inputs()}
    used = {key: value for key, value in feeds.items() if key in inputs}
    decides, labels = "expected_id" in inputs, any(value.name == "labels" for value in session.get_outputs())
    if decides:
        used["expected_id"] = expected.astype(np.int32)
    further = ["decision_ids", "decision_logits"] if decides else ["labels"] if labels else []
    with told_in_one_line(name, f"running the graph on input of shape {list(feeds['input_ids'].shape)}"):
        logits, *decisions = session.run(["logits", *further], used)
    if labels and (decisions[0] != logits.argmax(axis=-1)).any():
        raise DisagreesError(f"{name}: the labels of the exported graph are not those of its logits; it cannot be used")
    return logits.reshape(-1, logits.shape[-1]), decisions if decides else []


def _decides_wrongly(
    logits: Logits, expected: NDArray[np.int64], true: Logits, decisions: list[Any], allowed: NDArray[np.float64]
) -> NDArray[np.bool_]:
    """The decision head against NumPy on the graph's own logits; its top-1 must be that of the `true` logits."""
    if not decisions:
        return np.zeros(len(logits), bool)
    ids, values = decisions
    rows = np.arange(len(logits))
    own = logits[rows, expected]
    runner_up = np.partition(logits, -2, axis=1)[:, -2]
    head = np.stack([logits[rows, ids[:, 0]], runner_up, own, logsumexp(logits.astype(np.float64), axis=1)], axis=1)
    off = ~(np.abs(values - head).max(axis=1) <= allowed)
    wrong_rank = ids[:, 1] != 1 + (logits > own[:, None]).sum(axis=1)
    wrong_top1 = true.max(axis=1) - true[rows, ids[:, 0]] > allowed
    return np.asarray(off | wrong_rank | wrong_top1, bool)
