"""What systems with PyTorch share: loading, logits at the mask, the head at one position, loops, compiling."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoTokenizer

from ..engine.inference.free_text import MASK
from ..export.quiet import quiet
from .system import LOOP, ROW, Place, System, Unavailable, W

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def load(kind: Any, place: Place, arithmetic: str = "fp32") -> Any:
    """A model of a class of transformers, ready to predict, with the threads that it may use."""
    torch.set_num_threads(place.threads)
    with quiet():
        return kind.from_pretrained(place.checkpoint, dtype=DTYPES[arithmetic]).eval().to(place.torch_device)


def tokenizer_of(place: Place) -> Any:
    """As transformers loads it."""
    with quiet():
        return AutoTokenizer.from_pretrained(place.checkpoint)


class TorchSystem(System[W]):
    """A model of transformers and its tokenizer; a subclass says what they do."""

    kind: Any = AutoModelForMaskedLM  # the model's class

    def open(self, place: Place) -> None:
        self._model, self._tokenizer = load(self.kind, place), tokenizer_of(place)
        self._device = place.torch_device


class Loop(TorchSystem[W]):
    """A loop over batches of the fastest size: all logits, then the row of the mask; or the head for that row alone."""

    said, batched = "sorted, batches of {batch}", True

    def __init__(self, *, row_alone: bool = False) -> None:
        self._row_alone = row_alone
        self.name, self.reference = (ROW, False) if row_alone else (LOOP, True)

    def open(self, place: Place) -> None:
        super().open(place)
        self._row = MaskRow(self._model) if self._row_alone else None

    def at(self, padded: Any, position: torch.Tensor) -> torch.Tensor:
        """The logits at a position of each sentence, float32 [n, V]."""
        if self._row is not None:
            row: torch.Tensor = self._row(padded["input_ids"], position, padded["attention_mask"])
            return row
        logits: torch.Tensor = self._model(**padded).logits
        return logits[torch.arange(len(logits)), position]

    def batches(self, texts: Sequence[str], size: int) -> Iterator[tuple[NDArray[np.int64], torch.Tensor]]:
        """Texts sorted by their number of tokens, padded: their rows, and their logits at the mask, float32 [n, V]."""
        mask = self._tokenizer.mask_token_id
        encoded = self._tokenizer([text.replace(MASK, self._tokenizer.mask_token) for text in texts])["input_ids"]
        for rows, padded in self.padded(encoded, size):
            yield rows, self.at(padded, (padded["input_ids"] == mask).int().argmax(1))

    def padded(self, encoded: Sequence[Sequence[int]], size: int) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Token ids sorted by their number, in padded batches: their rows, and the inputs of the model."""
        order = np.argsort([len(ids) for ids in encoded], kind="stable")
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            given = {"input_ids": [encoded[row] for row in rows.tolist()]}
            padded = self._tokenizer.pad(given, return_tensors="pt", padding_side="right")
            with torch.inference_mode():
                yield rows, padded.to(self._device)


def logits_at_mask(model: Any, tokenizer: Any, padded: Any) -> torch.Tensor:
    """The logits at the mask of each sentence of a padded batch, float32 [n, V]: the head sees all positions."""
    logits: torch.Tensor = model(**padded).logits
    return logits[padded["input_ids"] == tokenizer.mask_token_id]


class MaskRow(torch.nn.Module):  # type: ignore[misc]  # torch is not checked
    """A masked language model whose head sees one position of each sentence, as one module to trace or to compile."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self._position = model, None
        model.base_model.register_forward_hook(self._cut)

    def forward(self, ids: torch.Tensor, position: torch.Tensor, attention_mask: Any = None) -> torch.Tensor:
        """Ids int64 [n, L], positions int64 [n] → the logits there, [n, V]."""
        self._position = position
        logits: torch.Tensor = self.model(ids, attention_mask=attention_mask).logits[:, 0]
        return logits

    def _cut(self, _module: Any, _inputs: Any, output: Any) -> Any:
        hidden = output.last_hidden_state
        output.last_hidden_state = hidden[torch.arange(hidden.shape[0], device=hidden.device), self._position][:, None]
        return output


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
