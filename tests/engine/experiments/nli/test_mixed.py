"""Runs in mixed precision with a low-precision classifier that errs: the labels, and the files, of undisturbed fp32.

The low-precision classifier errs on one pair in 11, and is certain of it. The calibration does not know of that, so the
audit must find it, and every part is decided again with a wider bound.
"""

from dataclasses import dataclass

import numpy as np
from answer_tables import calibration
from fake_models import FakeModels
from negengine.engine.basics.choices import Precision
from negengine.engine.experiments.nli.nli import NliRun
from negengine.engine.experiments.nli.nli_items import Labelled
from negengine.engine.experiments.nli.nli_judgements import DECIDED_AS, Judgements
from negengine.engine.inference.classifier import Classifier, Labels
from negengine.engine.inference.exported import PRECISIONS
from negengine.engine.inference.precision import Models
from negengine.engine.library.again import Verdict
from negengine.engine.runs.loop import run_stage
from negengine.engine.runs.masked_stages import Deciders

from .conftest import execution, judgements


class HashClassifier(Classifier):
    """Gives the label that a hash of the pair says."""

    def __init__(self, labels, precision="fp32"):
        self.labels, self.precision = labels, precision

    def classifying(self, pairs, advance=lambda _: None):
        yield ()
        logits = np.zeros((len(pairs), self.labels), np.float32)
        for bucket in pairs.buckets:
            weights = np.arange(1, bucket.ids.shape[1] + 1) * 0x9E3779B97F4A7C
            bits = np.abs((bucket.ids * weights).sum(axis=1)) >> 20
            hard = (bits >> 8) % 11 == 0
            errs = hard & (self.precision != "fp32")
            logits[bucket.rows, (bits + errs) % self.labels] = np.where(hard & ~errs, 1.0, np.where(hard, 2.0, 10.0))
            advance(len(bucket.rows))
        return Labels(logits, np.full(len(pairs), PRECISIONS.index(self.precision), np.int8))


@dataclass(frozen=True, eq=False)
class Erring(FakeModels, Judgements):
    """Judgements with classifiers that are hashes, and a calibration that is blind to the errors."""

    precision: Precision = Precision.MIXED

    def open(self, options):
        labels = len(self.head)
        return Deciders(Models(HashClassifier(labels), lambda: HashClassifier(labels, "int8")), self.precision)

    def calibrate(self, model, say):
        blind = calibration(0.5, (0.0,) * len(self.head), audit_share=0.5).to_json()
        return {DECIDED_AS: {"precision": str(self.precision), **(blind if self.precision is Precision.MIXED else {})}}


def erring(classifiers, data, precision):
    stage = judgements(classifiers["three-way"][1], data)
    return Erring(**stage.__dict__ | {"precision": precision})


def test_the_labels_are_those_of_fp32_although_the_low_precision_model_errs(classifiers, data, tmp_path):
    """The audit finds the errors, every part is decided with the bound that it asks for, and the run says so."""
    made = {}
    for precision in (Precision.FP32, Precision.MIXED):
        run_stage(erring(classifiers, data, precision), tmp_path / precision, execution())
        made[precision] = NliRun.open(tmp_path / precision)
    exact, mixed = made.values()
    changing = ("probability", "precision")
    assert mixed.items.drop(changing).equals(exact.items.drop(changing))
    assert mixed.summary.equals(exact.summary)
    assert set(exact.items["precision"]) == {"fp32"}
    assert mixed.record.counts["decided"] == len(mixed.items)
    assert mixed.record.counts["disagreements"] > 0
    assert "were wrong" in str(mixed) or "was wrong" in str(mixed)
    assert "decided" not in exact.record.counts
    assert "Mixed precision" not in str(exact)


def test_a_probability_of_low_precision_is_not_compared_with_the_reference_model():
    """The label is; a wrong one among them counts as one that the audit allows."""
    logits = np.array([0.0, 2.0, 0.0], np.float32)
    labelled = {label: Labelled({"predicted": label}, ("a", "b", "c"), 128) for label in "ab"}
    assert labelled["b"].compare(logits, None) == (Verdict.AGREES, "")
    assert labelled["b"].compare(logits, 0.5)[0] is Verdict.WRONG
    assert labelled["a"].compare(logits, None)[0] is Verdict.WRONG
