"""A checkpoint in PyTorch that decides one text at a time, without an export: the yardstick of `verify --torch`."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel
from transformers.tokenization_utils_fast import PreTrainedTokenizerFast

from ..engine.basics.errors import InputError
from ..engine.inference.exported import ExportedModel
from ..engine.text.tokenizer import MASK_TOKEN
from .checkpoint import load, locate
from .inventory import load_model
from .observe import told_in_one_line
from .quiet import quiet
from .tasks import TASKS, begin_with_bos

Logits = NDArray[np.float32]


@dataclass(frozen=True)
class TorchReference:
    """A checkpoint, loaded in fp32."""

    name = "PyTorch"
    at_once = 1  # one text at a time: PyTorch divides each operator between the cores itself
    _checkpoint: str
    _model: PreTrainedModel
    _tokenizer: PreTrainedTokenizerFast
    _is_causal: bool

    def masked(self, text: str) -> Logits:
        """The logits at the mask of a text, float32 [V]; an InputError if it has no mask, or several."""
        if self._is_causal:  # those of the token that follows what stands before the mask
            before, mask, _ = text.partition(MASK_TOKEN)
            if not mask:
                raise InputError(f"{self._checkpoint}: no {MASK_TOKEN} in {text!r}, where one is needed")
            ids = self._tokenizer(before.removesuffix(" "), return_tensors="pt")["input_ids"]
            if ids.shape[1] > 1 and int(ids[0, -1]) == self._tokenizer.eos_token_id:  # the text goes on
                ids = ids[:, :-1]
            return self._logits(ids, -1)
        encoding = self._tokenizer(text, return_tensors="pt")
        # A mask that leaves the space before it: in training it stood for the word's own token, which had that space.
        mask = str(self._tokenizer.mask_token)
        close = self._tokenizer(re.sub(rf"\s+{re.escape(mask)}", lambda _: mask, text), return_tensors="pt")
        encoding = close if close["input_ids"].shape[1] < encoding["input_ids"].shape[1] else encoding
        (positions,) = torch.nonzero(encoding["input_ids"][0] == self._tokenizer.mask_token_id, as_tuple=True)
        if len(positions) != 1:
            raise InputError(f"{self._checkpoint}: {len(positions)} masks in {text!r}, where one is needed")
        return self._logits(encoding["input_ids"], int(positions[0]))

    def at(self, ids: NDArray[np.int32], position: int) -> Logits:
        # A masked model finds its mask at the position; a causal model reads only what stands before.
        read, row = (ids[:position], -1) if self._is_causal else (ids, position)
        return self._logits(torch.from_numpy(np.ascontiguousarray(read, np.int64))[None], row)

    def pair(self, first: str, second: str, max_length: int) -> Logits:
        given = {"truncation": "longest_first", "max_length": max_length, "return_tensors": "pt"}
        encoding = self._tokenizer(first, second, **given)
        further = {key: encoding[key] for key in ("token_type_ids",) if key in encoding}
        return self._logits(encoding["input_ids"], **further)

    def _logits(self, ids: torch.Tensor, row: int | None = None, **further: torch.Tensor) -> Logits:
        """Of one row, float32 [V], or of a classifier, float32 [labels]."""
        what = f"running it in PyTorch on {ids.shape[1]} tokens"
        with torch.inference_mode(), told_in_one_line(self._checkpoint, what):
            logits: Logits = self._model(input_ids=ids, **further).logits[0 if row is None else (0, row)].numpy()
        return logits


def torch_reference(checkpoint: str, exported: ExportedModel) -> TorchReference:
    """Load the checkpoint that a model was exported from; an InputError if it is not there, or is another one."""
    is_local = checkpoint == "mini" or Path(checkpoint).exists()
    source = locate(checkpoint) if is_local else locate(checkpoint.partition("@")[0], exported.revision)
    if source.identity != exported.revision:
        raise InputError(
            f"--torch {checkpoint}: {exported.folder} was exported from another checkpoint "
            f"({source.identity[:19]}…, in export.json {exported.revision[:19]}…)"
        )
    head = TASKS[exported.task].head
    with quiet():
        loaded = load(source, head)
        if exported.begins_with_added_bos:
            begin_with_bos(loaded.tokenizer, source.name)
        model = load_model(loaded, head)
    return TorchReference(checkpoint, model, loaded.tokenizer, exported.is_causal)
