"""The exported graph against PyTorch in fp32, sample by sample: all logits, and the decision made from them."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
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
from .observe import Feeds, open_session, told_in_one_line
from .passes.half import HEADROOM, LARGEST
from .samples import USUAL, Batch, Sample, batches, whole
from .worth import close_calls

# Of |Δlogit| and of |Δ log-probability|, relative to the largest logit of a row, or to 1; fp32 differs by 1e-6 to 1e-5.
TOLERANCE = 1e-4
FLOORS = 4  # where PyTorch's own rounding on an input is larger than the tolerance, so many times it is accepted
_MOST_TIMES = 10  # but no more than so many times the tolerance: a reference that is further off proves nothing
ROWS = 64  # tokens of a text whose log-probabilities are compared, about
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
    close_calls: float | None = None  # of a graph of low precision: the share of decisions that fp32 would make again


@dataclass(frozen=True)
class Tokens:
    """PyTorch's log-probabilities of some tokens of a text, each behind one of these rows of logits; [n]."""

    rows: NDArray[np.int64]
    logprobs: Logits
    allowed: Logits  # the largest difference that is accepted, as of the logits of the same rows


@dataclass(frozen=True)
class Reference:
    """What PyTorch says of the samples in fp32, and how far that is from fp64, where somebody asks."""

    samples: Sequence[Sample]
    logits: Logits  # float32 [rows, K], at the mask or of labels: a row a sample, or a row a token
    has_token: NDArray[np.bool_]  # bool [K]: whether a logit is that of a token of the tokenizer, or of a label
    tokens: Mapping[int, Tokens]  # of a causal model: number of the sample → some of its tokens
    reopened: Callable[[], PreTrainedModel]
    name: str
    longest: int = 0  # tokens of the longest input that the export takes
    _floors: dict[int, tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def by_sample(self) -> list[Logits]:
        """Float32 [1 or L, K] each."""
        counts = [1 if len(self.logits) == len(self.samples) else len(sample.ids) for sample in self.samples]
        return np.split(self.logits, np.cumsum(counts)[:-1])

    def floors(self, numbers: Iterable[int]) -> Mapping[int, tuple[float, float]]:
        """The largest differences of fp32 from fp64, of a sample's logits and of its tokens.

        PyTorch's model is opened for it once more, and released again.
        """
        if asked := [number for number in numbers if number not in self._floors]:
            model, rows = self.reopened().double(), {number: own.rows for number, own in self.tokens.items()}
            for number in asked:
                (one,) = batches(self.samples, [number])
                ((_, exact, further),) = _logits(model, self.samples, one, rows, self.name)
                wanted, tokens = self.by_sample[number], self.tokens.get(number)
                apart = difference_of(wanted, exact).max(initial=0, where=_counts(wanted, self.has_token))
                chances = _logprobs(further, self.samples[number], tokens.rows) if tokens else np.zeros(0)
                off = np.abs(tokens.logprobs - chances) if tokens else chances
                self._floors[number] = float(apart), float(off.max(initial=0))
        return self._floors


def reference_of(
    model: PreTrainedModel,
    samples: Sequence[Sample],
    name: str,
    reopened: Callable[[], PreTrainedModel],
    numbers: Sequence[int] | None = None,
    *,
    is_causal: bool = False,
    longest: int = 0,
) -> Reference:
    """Run PyTorch on the samples; the tokens of a language model's tokenizer have these numbers."""
    rows = {number: _asked(samples[number]) for number in (some_of(samples) if is_causal else ())}
    tokens: dict[int, Tokens] = {}

    def has_token(width: int) -> NDArray[np.bool_]:
        found = np.full(width, numbers is None)
        found[[number for number in numbers or () if number < width]] = True
        return found

    def run(batch: Batch) -> dict[int, Logits]:
        found = {}
        for number, logits, further in _logits(model, samples, batch, rows, name):
            found[number] = logits
            if number in rows:
                allowed = allowed_of(further, has_token(further.shape[1])).min(axis=1, initial=np.inf)
                tokens[number] = Tokens(rows[number], _logprobs(further, samples[number], rows[number]), allowed)
        return found

    found = {number: own.logits[None] for number, own in enumerate(samples) if own.logits is not None}
    for logits in on_all_cores(run, reversed(batches(samples, whole(samples)))):  # no core waits at the end
        found |= logits
    every = np.concatenate([found[number] for number in range(len(samples))])
    return Reference(samples, every, has_token(every.shape[1]), dict(sorted(tokens.items())), reopened, name, longest)


def _logits(
    model: PreTrainedModel, samples: Sequence[Sample], batch: Batch, rows: Mapping[int, NDArray[np.int64]], name: str
) -> Iterator[tuple[int, NDArray[Any], NDArray[Any]]]:
    """Of each sample of a batch: its number, PyTorch's logits, [1 or L, K], and those of further rows, [n, K]."""
    takes, length = inspect.signature(model.forward).parameters, batch.feeds["input_ids"].shape[1]
    known = {key: batch.feeds[key] for key in ("input_ids", "token_type_ids") if key in batch.feeds}
    given: dict[str, Any] = {key: torch.from_numpy(values.astype(np.int64)) for key, values in known.items()}
    given |= {"use_cache": False} if "use_cache" in takes else {}
    positions = [samples[number].position for number in batch.numbers]
    kept = list(range(length))
    if "logits_to_keep" in takes:  # of 1,000 rows and a vocabulary of 50,000, logits are 200 MB
        kept = sorted({at for at in positions if at is not None}.union(*(rows.get(own, ()) for own in batch.numbers)))
        given["logits_to_keep"] = torch.tensor(kept)
    with torch.inference_mode(), told_in_one_line(name, f"running it in PyTorch on {length} tokens"):
        every = model(**given).logits.numpy()
    for i, number in enumerate(batch.numbers):
        at, further = positions[i], np.searchsorted(kept, rows.get(number, []))
        own = every[i] if at is None else every[i, kept.index(at)]
        yield number, np.atleast_2d(own).copy(), every[i][further] if number in rows else every[i, :0]


def _logprobs(logits: NDArray[Any], sample: Sample, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Log-probabilities of the tokens behind some rows, whose logits are [n, V]."""
    following = torch.from_numpy(sample.ids[rows + 1].astype(np.int64))
    found: NDArray[Any] = torch.from_numpy(logits).log_softmax(-1).gather(1, following[:, None])[:, 0].numpy()
    return found


def on_all_cores(run: Callable[[Part], Found], parts: Iterable[Part]) -> list[Found]:
    """Each core has parts of its own: several cores on one part would wait for each other after every operator."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(run, parts))
    finally:
        torch.set_num_threads(threads)


def some_of(samples: Sequence[Sample]) -> list[int]:
    """The numbers of the samples whose tokens are compared too: drawn texts, long inputs, and some others."""
    own = whole(samples)
    return sorted({*own[::9], *(at for at in own if samples[at].is_known or len(samples[at].ids) > ROWS)})


def _asked(sample: Sample) -> NDArray[np.int64]:
    """The rows whose following tokens are compared, from the first to the last but one of a text."""
    return np.unique(np.linspace(0, len(sample.ids) - 2, ROWS).astype(np.int64))


def wrong_tokens(found: Logits, wanted: Tokens, floor: float, length: int) -> str:
    """What is wrong with log-probabilities, float32 [n]; empty if nothing is."""
    off, allowed = np.abs(found - wanted.logprobs), _with_floor(wanted.allowed, floor)
    if (off <= allowed).all():
        return ""
    worst = int(np.argmax(off - allowed))
    said = f"log-probabilities disagree with PyTorch by {off[worst]:.2g} where {allowed[worst]:.2g} is allowed"
    return f"{said}, on an input of {length} tokens"


def difference_of(found: Logits, wanted: NDArray[Any]) -> NDArray[Any]:
    """|Δlogit|; 0 where both are the same infinity, as of a row that a model excludes."""
    with np.errstate(invalid="ignore"):
        return np.where(found == wanted, np.float32(0), np.abs(found - wanted))


def allowed_of(wanted: Logits, has_token: NDArray[np.bool_]) -> Logits:
    """The largest |Δlogit| that is accepted of each of PyTorch's logits, float32 [rows, K].

    A row is measured by its tokens that can have a probability. Padded rows of a vocabulary and excluded tokens may
    have a bias of -1e4 or -inf: they are measured by themselves.
    """
    counts, size = _counts(wanted, has_token), np.abs(wanted)
    largest = np.maximum(1.0, size.max(axis=1, keepdims=True, where=counts, initial=0))
    return np.asarray(TOLERANCE * np.where(counts, largest, np.maximum(largest, size)), np.float32)


def _with_floor(allowed: Logits, floor: Any) -> Any:
    """What is accepted where PyTorch's own rounding is a `floor`, a number or [rows, 1]."""
    return np.maximum(allowed, np.minimum(FLOORS * floor, _MOST_TIMES * allowed))


def _counts(wanted: Logits, has_token: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which logits, of [rows, K], are those of tokens that can have a probability."""
    of_tokens = np.where(has_token, wanted, -np.inf)
    return np.asarray(of_tokens >= of_tokens.max(axis=1, keepdims=True) - _WITHOUT_PROBABILITY)


class DisagreesError(InputError):
    """A graph gives other numbers than PyTorch, or none."""


@dataclass(frozen=True)
class _Compared:
    difference: float
    agreed: int  # rows with the same top-1
    wrong: str  # empty if nothing is
    logits: Logits  # as the graph gives them, float32 [1 or L, K]; [0, K] of an exact graph
    hidden: Any = None  # the rows whose tokens are compared, float32 [n, H]


def compare(graph: Path, reference: Reference, *, is_exact: bool = True, vocabulary: Path | None = None) -> Parity:
    """Run an exported graph on the CPU and compare it with PyTorch.

    A graph of low precision is measured on what was drawn from the model, or on pairs of texts, if there are any; of
    the longest usual input its logits must be numbers, too. With the graph that cuts out the vocabulary,
    log-probabilities of tokens are compared: so a text shows its beginnings. Raises DisagreesError if a logit is not
    finite, or an exact graph's is further off than the tolerance, or its top-1 differs and is not a tie; or if the
    graph's own decisions or labels are not those of its logits.
    """
    samples = reference.samples
    measured = whole(samples)
    longest = [] if is_exact else [max(_usual(samples), key=lambda number: len(samples[number].ids))]
    if not is_exact:
        known = [number for number in _usual(samples) if samples[number].is_known]
        measured = known or _usual(samples)
    found = _compared(graph, vocabulary, reference, sorted({*measured, *longest}), {}, is_exact=is_exact)
    if is_exact and (doubtful := [number for number, own in found.items() if own.wrong]):
        floors = reference.floors(doubtful)  # while no session holds memory
        found |= _compared(graph, vocabulary, reference, doubtful, floors, is_exact=True)
    if wrong := next((own.wrong for own in found.values() if own.wrong), ""):
        raise DisagreesError(f"{reference.name}: {wrong}")
    rows = sum(len(reference.by_sample[number]) for number in measured)
    agreement = sum(found[number].agreed for number in measured) / rows
    difference = max(found[number].difference for number in measured)
    if is_exact:
        return Parity(len(measured), difference, agreement, TOLERANCE)
    low, exact = (
        np.concatenate([own[number] for number in measured])
        for own in ({number: own.logits for number, own in found.items()}, reference.by_sample)
    )
    has_mask = samples[measured[0]].position is not None
    expected = [_expected(samples[number], reference.by_sample[number])[0] for number in measured] if has_mask else None
    return Parity(len(measured), difference, agreement, None, close_calls(low, exact, expected))


def _usual(samples: Sequence[Sample]) -> list[int]:
    return [number for number, sample in enumerate(samples) if len(sample.ids) <= USUAL]


def _expected(sample: Sample, logits: Logits) -> NDArray[np.int64]:
    """The token that is asked for in each row of PyTorch's logits, [rows, K]: the drawn one, or the top-1."""
    return logits.argmax(axis=1) if sample.expected is None else np.full(len(logits), sample.expected)


def _compared(
    graph: Path,
    vocabulary: Path | None,
    reference: Reference,
    asked: Sequence[int],
    floors: Mapping[int, tuple[float, float]],
    *,
    is_exact: bool,
) -> dict[int, _Compared]:
    found = _logits_compared(graph, reference, asked, floors, is_exact=is_exact, with_hidden=vocabulary is not None)
    if vocabulary is not None:  # opened when the graph's session has given back its copy of the weights
        session = open_session(reference.name, str(vocabulary), ort.SessionOptions())
        for number in [number for number, own in found.items() if own.hidden is not None and not own.wrong]:
            tokens, ids = reference.tokens[number], reference.samples[number].ids
            feeds = {HIDDEN: found[number].hidden, "following_id": ids[tokens.rows + 1]}
            (logprobs,) = session.run(["token_logprobs"], feeds)
            said = wrong_tokens(logprobs, tokens, floors[number][1] if floors else 0, len(ids))
            found[number] = replace(found[number], wrong=said)
    return found


def _logits_compared(
    graph: Path,
    reference: Reference,
    asked: Sequence[int],
    floors: Mapping[int, tuple[float, float]],
    *,
    is_exact: bool,
    with_hidden: bool,
) -> dict[int, _Compared]:
    options, samples = ort.SessionOptions(), reference.samples
    options.intra_op_num_threads = 1
    session = open_session(reference.name, str(graph), options)

    def compared(batch: Batch) -> dict[int, _Compared]:
        numbers, parts = batch.numbers, [reference.by_sample[number] for number in batch.numbers]
        wanted, length = np.concatenate(parts), batch.feeds["input_ids"].shape[1]
        top, rows = wanted.argmax(axis=1), np.arange(len(wanted))
        floor = [floors[number][0] if floors else 0.0 for number, own in zip(numbers, parts, strict=True) for _ in own]
        each = _with_floor(allowed_of(wanted, reference.has_token), np.array(floor)[:, None])
        asked_for = np.concatenate([_expected(samples[number], reference.by_sample[number]) for number in numbers])
        logits, decisions, hidden = _run(session, batch.feeds, asked_for, reference.name, with_hidden=with_hidden)
        given = as_cuda_rounds(logits) if graph.name == FP16 else logits
        apart, true, best = difference_of(given, wanted), wanted if is_exact else logits, given.argmax(axis=1)
        allowed = each[rows, top]
        difference, limit = apart.max(axis=1), each if is_exact else np.finfo(np.float32).max
        wrong = ~(apart <= limit).all(axis=1) | _decides_wrongly(logits, asked_for, true, decisions, allowed)
        other = is_exact & (wanted[rows, top] - wanted[rows, best] > allowed)
        found, end = {}, 0
        for i, (number, part) in enumerate(zip(numbers, parts, strict=True)):
            own = slice(end, end := end + len(part))
            said = ""
            if wrong[own].any():
                worst = own.start + int(np.argmax(wrong[own]))
                what = f"where {allowed[worst]:.2g} is allowed, " if is_exact else ""
                said = f"|Δlogit| {difference[worst]:.2g} {what}on an input of {length} tokens"
                said = f"the exported graph disagrees with PyTorch: {said}; this model cannot be used"
            elif other[own].any():
                said = "the exported graph disagrees with PyTorch on a top-1; it cannot be used"
            tokens = reference.tokens.get(number) if with_hidden else None
            agreed, kept = int((top[own] == best[own]).sum()), given[own if not is_exact else slice(0)]
            asked_of = None if tokens is None else hidden[i, tokens.rows]
            found[number] = _Compared(float(difference[own].max()), agreed, said, kept, asked_of)
        return found

    results: dict[int, _Compared] = {}
    with ThreadPoolExecutor(cpu_threads()) as pool:
        for found in pool.map(compared, reversed(batches(samples, asked))):
            results |= found
    return results


def as_cuda_rounds(logits: Logits) -> Logits:
    """Logits of the fp16 graph as the product with the vocabulary gives them on CUDA; on a CPU nothing is rounded."""
    is_half = np.abs(logits) < LARGEST / HEADROOM  # of larger ones the product stays fp32
    rounded: Logits = np.where(is_half, np.where(is_half, logits, 0).astype(np.float16), logits).astype(np.float32)
    return rounded


def _run(
    session: ort.InferenceSession, feeds: Feeds, expected: NDArray[np.int64], name: str, *, with_hidden: bool
) -> tuple[Logits, list[Any], Any]:
    """The logits, the decisions as in passes/outputs.py, if the graph has a head for them, and the rows `hidden`."""
    inputs = {value.name for value in session.get_inputs()}
    used = {key: value for key, value in feeds.items() if key in inputs}
    decides, labels = "expected_id" in inputs, any(value.name == "labels" for value in session.get_outputs())
    if decides:
        used["expected_id"] = expected.astype(np.int32)
    further = ["decision_ids", "decision_logits"] if decides else ["labels"] if labels else []
    with told_in_one_line(name, f"running the graph on input of shape {list(feeds['input_ids'].shape)}"):
        logits, *decisions = session.run(["logits", *further, *[HIDDEN] * with_hidden], used)
    hidden = decisions.pop() if with_hidden else None
    if labels and (decisions[0] != logits.argmax(axis=-1)).any():
        raise DisagreesError(f"{name}: the labels of the exported graph are not those of its logits; it cannot be used")
    return logits.reshape(-1, logits.shape[-1]), decisions if decides else [], hidden


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
