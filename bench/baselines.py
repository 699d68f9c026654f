"""Systems that find the top-1 at the mask of many sentences: the authors' programs, libraries, and the engine.

Each is a `System`: it is prepared once, then given all sentences and asked for the top-1 ids. So every measurement is
also a check that all do the same work. Tokenizing belongs to the work of those that are given texts.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoTokenizer, pipeline

from ..engine.inference.device import Device
from ..engine.inference.model import Decider
from ..engine.inference.precision import Models
from ..export.quiet import quiet
from .shapes import Measured
from .workload import Workload

AUTHORS_BATCH = 100
BATCHES = {"cpu": (8, 32, 128), "cuda": (32, 128, 512)}  # tried for the baselines that have no batch size of their own
Ids = NDArray[np.int32]


@dataclass(frozen=True)
class System:
    """One system that is measured.

    Attributes:
        name: what it is called.
        about: what it does, in a line.
        run: all sentences → top-1 ids, int32 [n], in the order of the texts.
        job: `selection`, or `scoring` for the one that takes one sentence at a time.
        ours: whether it is the engine.
    """

    name: str
    about: str
    run: Callable[[Workload], Ids]
    job: str = "selection"
    ours: bool = False


def pytorch_baselines(measured: Measured, device: Device) -> list[System]:
    """The authors' two programs, PyTorch with the head at the mask alone, and the fill-mask pipeline.

    The last two come once for each batch size that is tried.
    """
    tokenizer = AutoTokenizer.from_pretrained(measured.checkpoint)
    place = "cpu" if device.kind == "cpu" else f"cuda:{device.index}"
    with quiet():
        model = AutoModelForMaskedLM.from_pretrained(measured.checkpoint, dtype=torch.float32).eval().to(place)
        fill = pipeline("fill-mask", model=model, tokenizer=tokenizer, device=place, top_k=1)

    def padded(texts: Sequence[str]) -> Ids:
        encoded = tokenizer(list(texts), padding=True, return_tensors="pt").to(place)
        with torch.inference_mode():
            logits = model(**encoded).logits
        rows, positions = (encoded["input_ids"] == tokenizer.mask_token_id).nonzero(as_tuple=True)
        return _ids(logits[rows, positions].topk(1).indices[:, 0])

    def at_mask(work: Workload, batch: int) -> Ids:
        found = np.empty(len(work), np.int32)
        for rows, ids, position in _exact_batches(work, batch):
            with torch.inference_mode(), head_at(model, position):
                found[rows] = _ids(model(torch.from_numpy(ids.astype(np.int64)).to(place)).logits[:, 0].argmax(-1))
        return found

    def piped(work: Workload, batch: int) -> Ids:
        with quiet():
            answers = fill(list(work.texts), batch_size=batch)
        one = len(work) == 1  # of one text the pipeline gives the answers, of several a list of them each
        return np.array([answer[0]["token"] for answer in ([answers] if one else answers)], np.int32)

    return [
        System("authors, selection", f"PyTorch, batches of {AUTHORS_BATCH} padded, logits at all positions",
             lambda work: np.concatenate([padded(texts) for texts in _batches(work.texts, AUTHORS_BATCH)])),
        System("authors, scoring", "PyTorch, one sentence at a time",
             lambda work: np.concatenate([padded([text]) for text in work.texts]), job="scoring"),
        *(System("PyTorch at the mask", f"batches of {batch} of one length, head for the mask's row alone",
               partial(at_mask, batch=batch)) for batch in BATCHES[device.kind]),
        *(System("pipeline", f"transformers' fill-mask pipeline, batches of {batch}", partial(piped, batch=batch))
          for batch in BATCHES[device.kind]),
    ]  # fmt: skip


def optimum_baselines(measured: Measured, device: Device, folder: Path) -> list[System]:
    """Optimum's ONNX model of the same checkpoint, once for each batch size that is tried.

    Raises:
        ImportError: Optimum's ONNX Runtime classes are not installed.
        ValueError: Optimum does not know the architecture, or the device.
    """
    from optimum.onnxruntime import ORTModelForMaskedLM  # noqa: PLC0415 - the other baselines can do without

    provider = "CPUExecutionProvider" if device.kind == "cpu" else "CUDAExecutionProvider"
    place = None if device.kind == "cpu" else {"device_id": device.index}
    tokenizer = AutoTokenizer.from_pretrained(measured.checkpoint)
    with quiet(), TemporaryDirectory(dir=folder) as temporary:
        model = ORTModelForMaskedLM.from_pretrained(
            measured.checkpoint, export=True, provider=provider, provider_options=place, cache_dir=temporary
        )

    def run(work: Workload, batch: int) -> Ids:
        found = []
        for texts in _batches(work.texts, batch):
            encoded = tokenizer(list(texts), padding=True, return_tensors="pt").to(model.device)
            logits = model(**encoded).logits
            rows, positions = (encoded["input_ids"] == tokenizer.mask_token_id).nonzero(as_tuple=True)
            found.append(_ids(logits[rows, positions].argmax(-1)))
        return np.concatenate(found)

    return [
        System("Optimum", f"ORTModelForMaskedLM, batches of {batch} padded", partial(run, batch=batch))
        for batch in BATCHES[device.kind]
    ]


def own_systems(models: Models, mixed: Decider | None) -> list[System]:
    """The engine: the reference model, the low-precision model alone, and both together."""
    systems: list[tuple[str, str, Decider]] = [("fp32", "our engine, the reference", models.reference)]
    if models.low_precision is not None:
        systems.append(("low precision alone", "our int8 or fp16 graph, decisions unchecked", models.low_precision))
    if mixed is not None:
        systems.append(("mixed", "the low-precision model, close calls and an audit in fp32", mixed))
    return [System(name, about, _decided_by(decider), ours=True) for name, about, decider in systems]


def _decided_by(decider: Decider) -> Callable[[Workload], Ids]:
    def run(work: Workload) -> Ids:
        found = np.empty(len(work), np.int32)
        for piece in work.sentences.buckets:
            decisions = decider.decide(piece.ids, piece.mask_position, work.sentences.expected[piece.rows])
            found[piece.rows] = decisions.top1
        return found

    return run


@contextmanager
def head_at(model: Any, position: Ids) -> Iterator[None]:
    """While the block runs, a masked LM's head sees one position of each sentence; its logits are [n, 1, V].

    Args:
        model: of any family of transformers: what its encoder gives is cut down before the head takes it.
        position: int32 [n].
    """
    wanted = torch.from_numpy(position.astype(np.int64))

    def cut(_module: Any, _inputs: Any, output: Any) -> Any:
        hidden = output.last_hidden_state
        output.last_hidden_state = hidden[torch.arange(len(hidden)), wanted][:, None]
        return output

    hook = model.base_model.register_forward_hook(cut)
    try:
        yield
    finally:
        hook.remove()


def _ids(tensor: torch.Tensor) -> Ids:
    ids: Ids = tensor.cpu().numpy().astype(np.int32)
    return ids


def _batches(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(texts), size):
        yield texts[start : start + size]


def _exact_batches(work: Workload, size: int) -> Iterator[tuple[NDArray[np.int64], Ids, Ids]]:
    for piece in work.sentences.buckets:
        for start in range(0, len(piece.rows), size):
            part = slice(start, start + size)
            yield piece.rows[part], piece.ids[part], piece.mask_position[part]
