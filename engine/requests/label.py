"""The kind `Label`: two texts, and the label that a classifier gives them.

Labels are decided by mixed precision, too: with its margin a label is exact, a probability is not.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from ..inference.again import NEAR_TIE, ROUNDING, Compared, Draw, Logits, Reference, Sample, Verdict, named
from ..inference.classifier import Classifier, EncodedPairs, PairClassifier, encode_pairs
from ..inference.exported import PRECISIONS, REFERENCE, ExportedModel
from ..inference.judge import log_softmax
from ..inference.mixed import LABELS, Method
from ..inference.precision import Workload
from ..runs.masked_stages import Deciders
from .stage import AdvanceTexts, Columns, Kind, MixedRequests, RequestStage

DECIDED_AS = "pairs"  # the name under which the precision of all labels is chosen and measured
PADDED = "it contains the padding token, which the model ignores: remove it"
Deciding = Deciders[PairClassifier, Classifier]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Requests as token ids."""

    why: Sequence[str | None]
    encoded: EncodedPairs

    def __len__(self) -> int:
        return len(self.encoded)


class LabelRequests(MixedRequests[PairClassifier, Classifier]):
    """Labels are those of the reference model, whatever graph decides them."""

    method: ClassVar[Method] = LABELS

    @property
    def seed(self) -> int:
        return 0

    def workloads(self) -> list[Workload]:
        return [Workload(DECIDED_AS, self.sample, sum(self.sizes))]

    def sample(self, n: int) -> EncodedPairs:
        every = pl.concat([self.prepare(number)[0].select(*self.kind.asks) for number in range(len(self.sizes))])
        rows = np.sort(np.random.default_rng(self.seed).permutation(len(every))[:n])
        encoded: EncodedPairs = self.kind.prepare(self.exported, every[rows]).encoded
        return encoded


@dataclass(frozen=True)
class Label(Kind[Pairs]):
    """A `text`, a `second` one, and a label by its name."""

    name: ClassVar[str] = "label"
    asks: ClassVar[Mapping[str, Any]] = {"text": pl.String, "second": pl.String}
    stage: ClassVar[type[RequestStage]] = LabelRequests

    labels: tuple[str, ...]  # of each logit, in the words of the experiment
    max_length: int  # tokens of a pair; what is longer loses tokens at its end

    @property
    def answers(self) -> Mapping[str, Any]:
        """label, its probability, whether the texts lost tokens, which graph gave the numbers, and the logits."""
        logits = {f"logit_{name}": pl.Float32 for name in self.labels}
        own = {"label": pl.String, "probability": pl.Float64, "truncated": pl.Boolean, "precision": pl.String}
        return {**own, **logits}

    def again(self, draw: Draw, requests: pl.LazyFrame) -> Sample:
        return Sample("pairs", [Labelled(row, self) for row in draw.rows(requests)])

    def shown(self, mask_token: str) -> Mapping[str, pl.Expr]:  # noqa: ARG002 - a classifier has none
        nothing = {"rank": pl.lit(None, pl.Int32), "logprob": pl.lit(None, pl.Float64)}
        return {"premise": pl.col("text"), "hypothesis": pl.col("second"), "answer": pl.col("label"), **nothing}

    def prepare(self, exported: ExportedModel, requests: pl.DataFrame) -> Pairs:
        encoded = encode_pairs(exported, [*requests.select("text", "second").iter_rows()], max_length=self.max_length)
        why = [PADDED if padded else None for padded in encoded.padded.tolist()]
        return Pairs(why, encoded)

    def answer(self, model: Deciding, asked: Pairs, advance: AdvanceTexts) -> Columns:
        found = model.deciders[DECIDED_AS].classify(asked.encoded, advance)
        logits = found.logits.astype(np.float64)
        return {
            "label": [self.labels[i] for i in found.label],
            "probability": 1 / np.exp(logits - logits.max(axis=1, keepdims=True)).sum(axis=1),
            "truncated": asked.encoded.truncated,
            "precision": [PRECISIONS[i] for i in found.precision],
            **{f"logit_{name}": found.logits[:, i] for i, name in enumerate(self.labels)},
        }


@dataclass(frozen=True, eq=False)
class Labelled:
    """A request with its label."""

    row: Mapping[str, Any]
    kind: Label

    def again(self, reference: Reference) -> Compared:
        """A probability of low precision is not compared."""
        row, is_exact = self.row, self.row["precision"] == REFERENCE
        logits = reference.pair(row["text"], row["second"], self.kind.max_length)
        return Compared(named(row), *self.compare(logits, row["probability"] if is_exact else None), is_exact)

    def compare(self, logits: Logits, probability: float | None) -> tuple[Verdict, str]:
        """The recorded label and its probability against the logits, float32 [labels]."""
        names, label = self.kind.labels, self.row["label"]
        own, best = names.index(label), int(logits.argmax())
        if own != best:
            behind = float(logits[best] - logits[own])
            said = f"the label was {label}, but now {names[best]} (margin {behind:.2g} logits)"
            return Verdict.NEAR_TIE if behind < NEAR_TIE else Verdict.WRONG, said
        now = float(np.exp(log_softmax(logits)[own]))
        if probability is not None and abs(now - probability) > ROUNDING:
            return Verdict.WRONG, f"probability {probability:.4f}, but now {now:.4f}"
        return Verdict.AGREES, ""
