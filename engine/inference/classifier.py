"""An exported sequence-pair classifier on a device: pairs of texts in, one logit a label out.

Pairs of a batch have exactly the same number of tokens, as in `model.py`: nothing is padded, no attention mask exists.
Which of the two texts a token belongs to is a second input for the families that ask for it (BERT's segments). Pairs
that are too long are cut longest first: tokens go from the end of whichever text is longer at that moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ..errors import InputError
from .device import CPU, Device, open_session
from .exported import ExportedModel

TASK = "text-classification"
SEGMENTS = "token_type_ids"  # the name of the second input, in transformers and in the graph

# Tokens in a batch, as in `model.py`; a pair is longer than a cloze sentence, so a GPU is given more.
BATCH_TOKENS = {"cpu": 2048, "cuda": 32768}


@dataclass(frozen=True, eq=False)
class PairSlice:
    """Encoded pairs of exactly equal length.

    Attributes:
        rows: int64 [n], their positions among the pairs that were encoded.
        ids: int32 [n, length], C-contiguous, special tokens included, no padding.
        segments: int32 [n, length], which text each token belongs to.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int32]
    segments: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Pairs as token ids.

    Attributes:
        slices: between them every pair once, by ascending length.
        truncated: bool [n], whether a pair lost tokens.
    """

    slices: tuple[PairSlice, ...]
    truncated: NDArray[np.bool_]


def labels(exported: ExportedModel) -> tuple[str, ...]:
    """The names of an exported classifier's labels, in the order of its logits."""
    return tuple(exported.info["labels"])


def encode_pairs(
    exported: ExportedModel,
    pairs: Sequence[tuple[str, str]],
    places: Sequence[str] | None = None,
    max_length: int | None = None,
) -> EncodedPairs:
    """Encode pairs of texts as the model was trained on them, and group them by their number of tokens.

    Args:
        exported: the classifier that they are for.
        pairs: first and second text.
        places: where each pair comes from, as `file:line`, for the message if it is bad.
        max_length: most tokens of a pair, special tokens included; by default what the model takes.

    Raises:
        InputError: max_length is more than the model takes, or too few to hold any text; a text holds padding.
    """
    longest = exported.max_length if max_length is None else max_length
    tokenizer = _load_tokenizer(exported)
    special = tokenizer.num_special_tokens_to_add(True)
    if not special + 2 <= longest <= exported.max_length:
        raise InputError(
            f"--max-length {longest}: {exported.name} takes {special + 2} to {exported.max_length} tokens a pair"
        )
    side = exported.info.get("truncation_side", "right")
    tokenizer.enable_truncation(longest, strategy="longest_first", direction=side)
    encodings = tokenizer.encode_batch(list(pairs))
    by_length: dict[int, list[int]] = {}
    for row, encoding in enumerate(encodings):
        if exported.padding_id in encoding.ids:
            place = places[row] if places else repr(pairs[row])
            raise InputError(f"{place}: holds the padding token, which the model does not read: take it out")
        by_length.setdefault(len(encoding.ids), []).append(row)
    slices = tuple(
        PairSlice(
            rows=np.array(rows),
            ids=np.array([encodings[row].ids for row in rows], np.int32),
            segments=np.array([encodings[row].type_ids for row in rows], np.int32),
        )
        for _, rows in sorted(by_length.items())
    )
    return EncodedPairs(slices, np.array([bool(encoding.overflowing) for encoding in encodings], bool))


def _load_tokenizer(exported: ExportedModel) -> Tokenizer:
    path: Path = exported.folder / "tokenizer.json"
    try:
        tokenizer = Tokenizer.from_buffer(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); export the model again") from error
    except ValueError as error:
        raise InputError(f"{path}: not a tokenizer ({str(error).splitlines()[0]}); export the model again") from error
    tokenizer.no_padding()
    return tokenizer


class PairClassifier:
    """One session of an exported classifier on one device; batches of a fixed number of tokens."""

    def __init__(
        self,
        exported: ExportedModel,
        device: Device = CPU,
        *,
        batch_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        if exported.task != TASK:
            raise InputError(f"{exported.folder} was exported for {exported.task}, needed is {TASK}")
        self.exported = exported
        self.device = device
        self.batch_tokens = batch_tokens or BATCH_TOKENS[device.kind]
        self._session: ort.InferenceSession = open_session(exported.graph, device, threads)
        self._inputs = {value.name for value in self._session.get_inputs()}

    @property
    def takes_segments(self) -> bool:
        """Whether the model is told which text a token belongs to."""
        return SEGMENTS in self._inputs

    def logits(self, pairs: PairSlice) -> NDArray[np.float32]:
        """The logits of pairs of one length, float32 [n, labels], in the order of `pairs.rows`."""
        feeds = {"input_ids": pairs.ids}
        if self.takes_segments:
            feeds[SEGMENTS] = pairs.segments
        size = max(1, self.batch_tokens // pairs.ids.shape[1])
        batches: list[NDArray[np.float32]] = [
            self._session.run(["logits"], {name: values[start : start + size] for name, values in feeds.items()})[0]
            for start in range(0, len(pairs.rows), size)
        ]
        return np.concatenate(batches)

    def classify(self, pairs: EncodedPairs) -> NDArray[np.float32]:
        """The logits of all pairs, float32 [n, labels], in the order in which they were given to `encode_pairs`."""
        logits = np.empty((len(pairs.truncated), len(labels(self.exported))), np.float32)
        for part in pairs.slices:
            logits[part.rows] = self.logits(part)
        return logits
