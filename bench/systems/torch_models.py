"""What systems with PyTorch share: loading, logits at the mask, the head at one position, precision, compiling."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer

from ...export.quiet import quiet
from .system import Place, System, Unavailable, W

Ids = NDArray[np.int32]
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def load(kind: Any, place: Place, arithmetic: str = "fp32") -> Any:
    """A model of a class of transformers, ready to predict, with the threads that it may use."""
    torch.set_num_threads(place.threads)
    with quiet():
        return kind.from_pretrained(place.checkpoint, dtype=DTYPES[arithmetic]).eval().to(place.torch_device)


def tokenizer_of(place: Place) -> Any:
    """The checkpoint's tokenizer, as transformers loads it."""
    with quiet():
        return AutoTokenizer.from_pretrained(place.checkpoint)


class TorchSystem(System[W]):
    """A model of transformers and its tokenizer; a subclass says what they do."""

    kind: Any  # the model's class, such as AutoModelForMaskedLM

    def open(self, place: Place) -> None:
        self._model, self._tokenizer = load(self.kind, place), tokenizer_of(place)
        self._device = place.torch_device


def logits_at_mask(model: Any, tokenizer: Any, padded: Any) -> torch.Tensor:
    """The logits at the mask of each sentence of a padded batch, float32 [n, V]: the head sees all positions."""
    rows, position = _masks(tokenizer, padded)
    logits: torch.Tensor = model(**padded).logits
    return logits[rows, position]


def head_logits_at_mask(model: Any, tokenizer: Any, padded: Any) -> torch.Tensor:
    """The same, but the head sees the mask's row alone."""
    _, position = _masks(tokenizer, padded)
    with head_at(model, position.cpu().numpy()):
        logits: torch.Tensor = model(**padded).logits[:, 0]
    return logits


def _masks(tokenizer: Any, padded: Any) -> tuple[torch.Tensor, torch.Tensor]:
    found: tuple[torch.Tensor, torch.Tensor] = (padded["input_ids"] == tokenizer.mask_token_id).nonzero(as_tuple=True)
    return found


@contextmanager
def head_at(model: Any, position: Ids) -> Iterator[None]:
    """While the block runs, a masked LM's head sees one position of each sentence; its logits are [n, 1, V]."""
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


class MaskRow(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A masked language model whose head sees one position of each sentence, as one module to trace or to compile."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self._position: torch.Tensor | None = None
        model.base_model.register_forward_hook(self._cut)

    def forward(self, ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Ids int64 [n, L], positions int64 [n] → the logits there, [n, V]."""
        self._position = position
        logits: torch.Tensor = self.model(ids).logits[:, 0]
        return logits

    def _cut(self, _module: Any, _inputs: Any, output: Any) -> Any:
        hidden = output.last_hidden_state
        output.last_hidden_state = hidden[torch.arange(hidden.shape[0], device=hidden.device), self._position][:, None]
        return output


def autocast(place: Place, arithmetic: str, on: bool) -> AbstractContextManager[None]:
    """Products in bf16 or fp16, everything else in fp32; nothing at all if it is not on."""
    if not on:
        return nullcontext()
    return torch.autocast(place.device.kind, dtype=DTYPES[arithmetic])  # type: ignore[no-any-return]


def compiled(model: Any) -> Callable[..., Any]:
    """A model compiled once for all sizes, its weights packed. Raises Unavailable if there is no C++ compiler."""
    from torch._inductor import config, cpp_builder, exc  # noqa: PLC0415 - slow; the settings live there

    logging.getLogger("torch._inductor").setLevel(logging.ERROR)
    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler as error:
        raise Unavailable("torch.compile needs a C++ compiler: install g++") from error
    config.freezing = True  # packs the weights for the processor
    return torch.compile(model, dynamic=True)  # type: ignore[no-any-return]


def as_ids(tensor: torch.Tensor) -> Ids:
    """Token ids as an array."""
    ids: Ids = tensor.cpu().numpy().astype(np.int32)
    return ids
