"""The main job, for all systems the same: random candidates of the selection, as texts and as token ids.

Also a whole selection whose model is open already, for a GPU that is simulated.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..engine.basics.choices import Precision
from ..engine.experiments.negation.select import Selection, Settings
from ..engine.inference.causal import open_language_model
from ..engine.inference.exported import ExportedModel, load_exported
from ..engine.inference.mixed import SENTENCES, Mixed, calibrate
from ..engine.inference.model import Decider, Decisions
from ..engine.inference.precision import Models, open_models
from ..engine.inference.session import Device
from ..engine.runs.executors import ThisProcess
from ..engine.runs.loop import Execution, run_stage
from ..engine.runs.masked_stages import PatternDeciders
from ..engine.runs.progress import Reporter
from ..engine.runs.stage import changed
from ..engine.text.lexicon import load_lexicon
from ..engine.text.pattern import VERB
from ..engine.text.pattern_files import load_patterns
from ..engine.text.token_ids import Bucket, EncodedSentences
from .system import Answers, Choice, Place, System

Ids = NDArray[np.int32]
EXACT, LOW_PRECISION, MIXED = "fp32", "low precision alone", "mixed"
AUDIT_SHARE = 0.005  # a scoring of 1.8 million sentences audits 0.9 %, a selection of 10.9 million 0.2 %


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences with one mask each."""

    texts: tuple[str, ...]  # n sentences
    encoded: EncodedSentences  # the same as ids, grouped by length, with the tokens that are expected

    def __len__(self) -> int:
        return len(self.texts)

    def head(self, n: int) -> "Sentences":
        buckets = []
        for bucket in self.encoded.buckets:
            own = bucket.rows < n
            if own.any():
                ids = np.ascontiguousarray(bucket.ids[own])
                buckets.append(Bucket(bucket.rows[own], ids, bucket.mask_position[own]))
        return Sentences(self.texts[:n], EncodedSentences(buckets, self.encoded.expected[:n]))

    @property
    def length(self) -> float:
        """Mean number of tokens."""
        return sum(bucket.ids.size for bucket in self.encoded.buckets) / len(self)

    def batches(self, size: int) -> Iterator[tuple[NDArray[np.int64], Ids, Ids]]:
        """Rows, ids and mask positions of batches of one length."""
        for bucket in self.encoded.buckets:
            for start in range(0, len(bucket.rows), size):
                part = slice(start, start + size)
                yield bucket.rows[part], bucket.ids[part], bucket.mask_position[part]


def main_job(exported: ExportedModel, seed: int = 0) -> Selection:
    """The selection that the sentences are candidates of."""
    return Selection.plan(exported, load_lexicon(), load_patterns(), Settings(seed=seed))


def candidates(selection: Selection, n: int) -> Sentences:
    """Draw n sentences of the selecting pattern."""
    name, profession, verb = selection.verbs.locate(selection.sample_indices(n))
    pattern, verbs, mask = selection.patterns.selecting, selection.lexicon.verbs, selection.exported.mask_token

    def text(i: int, j: int, k: int) -> str:
        words = {slot: filler.words[filler.index[i, j]] for slot, filler in selection.fillers.items()}
        return pattern.text({**words, VERB: verbs[selection.verbs.index[k]]}, mask)

    texts = tuple(text(*where) for where in zip(name, profession, verb, strict=True))
    return Sentences(texts, selection.sample(n))


def calibrated(models: Models, sentences: Sentences) -> Mixed | None:
    """Both models together, calibrated on some sentences; None without a low-precision model."""
    if models.low_precision is None:
        return None
    pair = models.low_precision, models.reference
    found = replace(calibrate(SENTENCES, *pair, sentences.encoded, seed=0), audit_share=AUDIT_SHARE)
    return Mixed(SENTENCES, *pair, found)


def run_selection(selection: Selection, models: Models, decider: Mixed, folder: Path) -> None:
    """Run a selection from end to end in this process, whose selecting pattern is decided as by a decider."""
    pattern = selection.patterns.selecting.name

    def use(*_: Any) -> PatternDeciders:  # of each part that is decided at the same time
        own = Mixed(SENTENCES, models.low_precision, models.reference, decider.calibration)
        return PatternDeciders(models, Precision.FP32, {pattern: own})

    known = {"open": use, "describe": lambda *_: {"device": "cpu"}, "calibrate": lambda *_: {}, "use": use}
    opened = changed(selection, **known)
    run_stage(opened, folder, Execution(ThisProcess(models.device), reporter=Reporter(silent=True)))


def decide_all(decider: Decider, encoded: EncodedSentences) -> Decisions:
    """The decisions about all sentences, in their order; batches of all lengths run together, as in a run."""
    asked = [(own.ids, own.mask_position, encoded.expected[own.rows]) for own in encoded.buckets]
    found = Decisions.empty(len(encoded.expected))
    for bucket, own in zip(encoded.buckets, decider.decide_each(asked), strict=True):
        found.put(bucket.rows, own)
    return found


class _Own(System[Sentences]):
    ours = True
    _decider: Decider

    def run(self, work: Sentences, choice: Choice) -> Answers:  # noqa: ARG002
        """The top-1 of each sentence, int32 [n]."""
        return decide_all(self._decider, work.encoded).top1


class Reference(_Own):
    """The reference model."""

    name = EXACT
    said = "our engine, the reference"

    def open(self, place: Place) -> None:
        exported = load_exported(place.exported)
        self._decider = open_language_model(exported, place.device.reference, threads=place.threads)


class LowPrecision(_Own):
    """The low-precision model alone; the export has one for the device."""

    name = LOW_PRECISION
    said = "our low-precision graph, decisions unchecked"

    def __init__(self, graph: Path, device: Device) -> None:
        self.arithmetic = device.precision(graph)

    def open(self, place: Place) -> None:
        exported = load_exported(place.exported)
        graph = place.device.low_precision(exported)
        self._decider = open_language_model(exported, place.device, graph=graph, threads=place.threads)


class MixedPrecision(_Own):
    """Mixed precision; calibrated on the work before the clock starts, as in a run."""

    name = MIXED
    arithmetic = "mixed"
    said = "the low-precision model, close calls and an audit in fp32"

    def open(self, place: Place) -> None:
        self._models = open_models(load_exported(place.exported), place.device, Precision.MIXED, threads=place.threads)

    def settle(self, work: Sentences) -> None:
        mixed = calibrated(self._models, work)
        assert mixed is not None  # noqa: S101 - Precision.MIXED: there is a low-precision model, or opening fails
        self._decider, self._close = mixed, mixed.calibration.close

    def found(self) -> Mapping[str, Any]:
        return {"close calls": self._close}
