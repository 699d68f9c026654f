"""An exported classifier of text pairs on a device: pairs of texts in, one logit for each label out.

The pairs of a batch have the same number of tokens, as in `model.py`: nothing is padded, and there is no attention
mask. Models of some families (BERT) have a second input, which says to which of the two texts each token belongs.
A pair that is too long is truncated as in transformers' `longest_first`: one token after another is removed from the
text that is longer at that moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from ..errors import InputError
from ..sentences.tokenizer import load_tokenizer
from . import tally
from .batches import rows_by_length, sentences_in
from .device import CPU, Device
from .exported import ExportedModel
from .free_text import refuse_padding
from .session import open_session

TASK = "text-classification"
SEGMENTS = "token_type_ids"  # name of the second input, in transformers and in the graph

# Tokens in a batch, as in `model.py`; a pair is longer than a cloze sentence, so a GPU is given more.
BATCH_TOKENS = {"cpu": 2048, "cuda": 32768}


@dataclass(frozen=True, eq=False)
class PairBucket:
    """Encoded pairs of one length.

    Attributes:
        rows: int64 [n], their positions among all pairs that were encoded.
        ids: int32 [n, length], C-contiguous, special tokens included, no padding.
        segments: int32 [n, length], 0 for the tokens of the first text, 1 for those of the second.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int32]
    segments: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Pairs as token ids.

    Attributes:
        buckets: every pair is in one of them; by ascending length.
        truncated: bool [n], whether a pair lost tokens.
    """

    buckets: tuple[PairBucket, ...]
    truncated: NDArray[np.bool_]


def labels(exported: ExportedModel) -> tuple[str, ...]:
    """The names of an exported classifier's labels, in the order of its logits."""
    return tuple(exported.info["labels"])


def encode_pairs(
    exported: ExportedModel,
    pairs: Sequence[tuple[str, str]],
    locations: Sequence[str] | None = None,
    max_length: int | None = None,
) -> EncodedPairs:
    """Encode pairs of texts as the model was trained on them, and group them by their number of tokens.

    Args:
        exported: the classifier that they are for.
        pairs: first and second text.
        locations: the file and line of each pair, as `file:line`, for error messages.
        max_length: the largest number of tokens of a pair, special tokens included; by default the model's.

    Raises:
        InputError: max_length is more than the model takes, or too small for any text; a text holds the padding token.
    """
    longest = exported.max_length if max_length is None else max_length
    tokenizer = load_tokenizer(exported.folder)
    tokenizer.no_padding()
    special = tokenizer.num_special_tokens_to_add(True)
    if not special + 2 <= longest <= exported.max_length:
        raise InputError(
            f"--max-length {longest}: {exported.name} takes {special + 2} to {exported.max_length} tokens a pair"
        )
    side = exported.info.get("truncation_side", "right")
    tokenizer.enable_truncation(longest, strategy="longest_first", direction=side)
    encodings = tokenizer.encode_batch(list(pairs))
    for row, encoding in enumerate(encodings):
        refuse_padding(exported, encoding.ids, locations[row] if locations else repr(pairs[row]))
    buckets = tuple(
        PairBucket(
            rows=rows,
            ids=np.array([encodings[row].ids for row in rows], np.int32),
            segments=np.array([encodings[row].type_ids for row in rows], np.int32),
        )
        for rows in rows_by_length(encodings)
    )
    return EncodedPairs(buckets, np.array([bool(encoding.overflowing) for encoding in encodings], bool))


class PairClassifier:
    """One session of an exported classifier on one device; batches of a fixed number of tokens.

    Args:
        exported: the model, exported for text-classification.
        device: where it runs.
        batch_tokens: the largest number of tokens in a batch.
        threads: threads inside an operator on the CPU; one for each core of this process by default.

    Raises:
        InputError: another model; a file of the export is missing or damaged; the graph does not load on the device.
    """

    def __init__(
        self,
        exported: ExportedModel,
        device: Device = CPU,
        *,
        batch_tokens: int | None = None,
        threads: int | None = None,
    ) -> None:
        if exported.task != TASK:
            raise InputError(f"{exported.folder} is exported for {exported.task}, {TASK} is needed")
        self.exported = exported
        self.device = device
        self.batch_tokens = batch_tokens or BATCH_TOKENS[device.kind]
        exported.verify_files(exported.graph)
        self._session: ort.InferenceSession = open_session(exported.graph, device, threads)
        self._inputs = {value.name for value in self._session.get_inputs()}

    @property
    def takes_segments(self) -> bool:
        """Whether the model has the second input, which says to which text a token belongs."""
        return SEGMENTS in self._inputs

    def logits(self, pairs: PairBucket) -> NDArray[np.float32]:
        """The logits of pairs of one length, float32 [n, labels], in the order of `pairs.rows`."""
        feeds = {"input_ids": pairs.ids}
        if self.takes_segments:
            feeds[SEGMENTS] = pairs.segments
        size = sentences_in(self.batch_tokens, pairs.ids.shape[1])
        batches: list[NDArray[np.float32]] = [
            self._session.run(["logits"], {name: values[start : start + size] for name, values in feeds.items()})[0]
            for start in range(0, len(pairs.rows), size)
        ]
        tally.count(*pairs.ids.shape)
        return np.concatenate(batches)

    def classify(self, pairs: EncodedPairs) -> NDArray[np.float32]:
        """The logits of all pairs, float32 [n, labels], in the order in which they were given to `encode_pairs`."""
        logits = np.empty((len(pairs.truncated), len(labels(self.exported))), np.float32)
        for part in pairs.buckets:
            logits[part.rows] = self.logits(part)
        return logits
