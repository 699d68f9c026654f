"""Runs in mixed precision: the first choices, and the files, of undisturbed fp32.

One low-precision model is the bundled model's own. Another one errs on a sentence in 23 and is certain of it; its
calibration does not know of that, so the audit must find it, and every part is decided again with a wider bound.
"""

from dataclasses import dataclass, replace

import negengine as ng
import numpy as np
import polars as pl
import pytest
from fake_models import CALIBRATION, FakeModels, HashDecider
from lies import changed, copy_without_parts, damage, lie
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22 import gh22 as runs
from negengine.engine.experiments.gh22.gh22 import Gh22Run, run_both
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant
from negengine.engine.experiments.gh22.repetitions import Repetitions
from negengine.engine.inference.batches import ignored
from negengine.engine.inference.mixed import FIRST_CHOICES
from negengine.engine.inference.precision import Models
from negengine.engine.runs.masked_stages import Deciders
from negengine.engine.runs.merge import merge

from .conftest import execution, results
from .test_repetitions import PUBLISHERS

NUMBERS = ("expected_rank", "expected_logprob", "top1_logprob", "precision")

pytestmark = pytest.mark.usefixtures("one_thread")


def in_precision(precision, **more):
    own = execution(**more)
    return replace(own, options=replace(own.options, precision=precision))


# ---------------------------------------------------------------- the bundled model


@pytest.fixture(scope="module")
def mixed(acts, tmp_path_factory):
    """With a calibration and an audit of 60 sentences; those of longer runs would be all sentences of this one."""
    folder = tmp_path_factory.mktemp("mixed") / "gh22"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Repetitions, "method", replace(FIRST_CHOICES, sizes=(60, 60)))
        run_both(acts, {variant: load_variant(variant) for variant in Variant}, folder, in_precision(Precision.MIXED))
    return Gh22Run.open(folder)


def test_first_choices_and_rates_are_those_of_fp32(finished, mixed):
    assert mixed.items.drop(NUMBERS).equals(finished.items.drop(NUMBERS))
    assert mixed.summary.equals(finished.summary)
    assert mixed.acts.equals(finished.acts)


def test_rows_of_the_reference_model_have_its_numbers(finished, mixed):
    assert set(finished.items["precision"]) == {"fp32"}
    assert set(mixed.items["precision"]) == {"fp32", "int8"}
    exact = (mixed.items["precision"] == "fp32").to_numpy()
    own, other = (run.items.select(NUMBERS[:3]).to_numpy()[exact] for run in (mixed, finished))
    np.testing.assert_array_equal(own[:, 0], other[:, 0])
    np.testing.assert_allclose(own, other, atol=1e-4)


def test_the_run_records_one_choice_for_each_variant_and_its_audit(mixed):
    assert {variant: choice["precision"] for variant, choice in mixed.record.calibration.items()} == dict.fromkeys(
        Variant, "mixed"
    )
    assert mixed.record.counts["decided"] == len(mixed.items)
    assert "Mixed precision: " in str(mixed)


def test_auto_takes_fp32_for_a_short_run(finished, acts, original, tmp_path):
    run_both(acts, original, tmp_path / "run", in_precision(Precision.AUTO))
    found = Gh22Run.open(tmp_path / "run")
    assert found.items.equals(finished.items.filter(condition="original"))
    assert found.record.calibration["original"]["reason"] == "with 144 sentences, mixed precision would not be faster"
    assert "Mixed precision" not in str(found)


def test_its_items_are_verified_and_only_exact_numbers_are_compared(mixed, tmp_path):
    assert not ng.verify(mixed, sample=10_000).damage
    folder = copy_without_parts(mixed.folder, tmp_path / "run")
    items = pl.read_parquet(folder / "items.parquet")
    row = int(((items["precision"] == "int8") & ~items["repeated"]).arg_max())
    lie(folder, "gh22", "items.parquet", changed(items, row, expected_rank=items["expected_rank"][row] + 5))
    assert not ng.verify(folder, sample=10_000).damage
    wrong = items.with_columns(top1=pl.when(pl.col("precision") == "int8").then(pl.lit("zebra")).otherwise("top1"))
    lie(folder, "gh22", "items.parquet", wrong.with_columns(repeated=pl.lit(value=False)))
    assert "items decided again by the reference model" in damage(ng.verify(folder, sample=10_000))


# ---------------------------------------------------------------- a model that errs


class HashModel(HashDecider):
    """A model of hashes for sentences of several lengths."""

    def decide_each(self, groups, advance=ignored):
        return [self.decide(*group, advance) for group in groups]


@dataclass(frozen=True, eq=False)
class Erring(FakeModels, Repetitions):
    """Repetitions with models that are hashes, and a calibration that is blind to the errors."""

    def open(self, options):
        low = (lambda: HashModel(low_precision=True)) if options.precision is Precision.MIXED else None
        return Deciders(Models(HashModel(), low), options.precision)

    def calibrate(self, model, say):
        blind = replace(CALIBRATION, audit_share=0.5).to_json() if model.precision is Precision.MIXED else {}
        return {str(variant): {"precision": str(model.precision), **blind} for variant in self.variants}


@pytest.fixture
def erring(monkeypatch):
    """The second stage with these models."""
    monkeypatch.setattr(runs, "Repetitions", Erring)


def run(acts, variants, folder, precision=Precision.MIXED, **more):
    run_both(acts, variants, folder, in_precision(precision, **more), acts_per_part=5)
    return Gh22Run.open(folder) if (folder / "items.parquet").exists() else None


@pytest.mark.usefixtures("erring")
def test_the_first_choices_are_those_of_fp32_although_the_low_precision_model_errs(acts, original, tmp_path):
    exact = run(acts, original, tmp_path / "exact", Precision.FP32)
    mixed = run(acts, original, tmp_path / "mixed")
    assert mixed.items.drop(NUMBERS).equals(exact.items.drop(NUMBERS))
    assert mixed.summary.equals(exact.summary)
    assert mixed.record.counts["disagreements"] > 0
    assert "were wrong" in str(mixed) or "was wrong" in str(mixed)
    assert "decided" not in exact.record.counts


@pytest.mark.usefixtures("erring")
def test_interrupted_runs_and_shards_give_the_same_bytes(acts, original, tmp_path, interrupt):
    """The audit of one shard finds an error, that of the other one does not: its parts are decided again."""
    whole = run(acts, original, tmp_path / "whole")
    calls = interrupt(Erring, "decide", 3)
    with pytest.raises(KeyboardInterrupt):
        run(acts, original, tmp_path / "resumed")
    assert results(run(acts, original, tmp_path / "resumed").folder) == results(whole.folder)
    assert len(calls) > 4 + 1
    shards = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(shards, 1):
        run(acts, original, folder, shard=f"{number}/2")
    with pytest.raises(InputError, match="2 parts of shard 2/2 must be decided again with a wider margin"):
        merge(shards, tmp_path / "merged", PUBLISHERS)
    assert results(run(acts, original, tmp_path / "merged").folder) == results(whole.folder)


# ---------------------------------------------------------------- the sample


def test_a_sample_has_sentences_of_all_patterns_and_their_own_acts(acts, in_parts, original, mini_tokenizer):
    stage = Repetitions.plan(acts, in_parts.acts, original)
    for n in (1, 20, 144):
        sample = stage.sample(Variant.ORIGINAL, n)
        assert sorted(row for own in sample.buckets for row in own.rows.tolist()) == list(range(n))
        assert len(sample.expected) == n
        for own in sample.buckets:
            for row, ids in zip(own.rows, own.ids, strict=True):
                assert sample.expected[row] in ids  # the ACT is in the context
    texts = {tuple(ids.tolist()) for own in sample.buckets for ids in own.ids}
    assert texts == {tuple(ids.tolist()) for ids in mini_tokenizer.encode(in_parts.sentences()["sentence"].to_list())}
