"""Runs in mixed precision: the first choices, and the files, of fp32. `test_mixed_run` has models that err."""

from dataclasses import replace

import negengine as ng
import numpy as np
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie
from negengine.engine.basics.choices import Precision
from negengine.engine.experiments.gh22.gh22 import Gh22Run, run_both
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant
from negengine.engine.experiments.gh22.repetitions import Repetitions
from negengine.engine.inference.mixed import FIRST_CHOICES

from .conftest import execution

NUMBERS = ("expected_rank", "expected_logprob", "top1_logprob", "precision")

pytestmark = pytest.mark.usefixtures("one_thread")


def in_precision(precision, **more):
    own = execution(**more)
    return replace(own, options=replace(own.options, precision=precision))


@pytest.fixture(scope="module")
def mixed(acts, tmp_path_factory):
    """With a calibration and an audit of 60 sentences; those of longer runs would be all sentences of this one."""
    folder = tmp_path_factory.mktemp("mixed") / "gh22"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Repetitions, "method", replace(FIRST_CHOICES, sizes=(60, 60)))
        run_both(acts, {variant: load_variant(variant) for variant in Variant}, folder, in_precision(Precision.MIXED))
    return Gh22Run.open(folder)


def test_first_choices_and_rates_are_those_of_fp32_and_rows_of_the_reference_model_have_its_numbers(finished, mixed):
    assert mixed.items.drop(NUMBERS).equals(finished.items.drop(NUMBERS))
    assert mixed.summary.equals(finished.summary)
    assert mixed.acts.equals(finished.acts)
    assert set(finished.items["precision"]) == {"fp32"}
    assert set(mixed.items["precision"]) == {"fp32", "int8"}
    exact = (mixed.items["precision"] == "fp32").to_numpy()
    own, other = (run.items.select(NUMBERS[:3]).to_numpy()[exact] for run in (mixed, finished))
    np.testing.assert_array_equal(own[:, 0], other[:, 0])
    np.testing.assert_allclose(own, other, atol=1e-4)
    choices = {variant: choice["precision"] for variant, choice in mixed.record.calibration.items()}
    assert choices == dict.fromkeys(Variant, "mixed")
    assert mixed.record.counts["decided"] == len(mixed.items)
    assert "Mixed precision: " in str(mixed)


def test_auto_takes_fp32_for_a_short_run(finished, acts, original, tmp_path):
    run_both(acts, original, tmp_path / "run", in_precision(Precision.AUTO))
    found = Gh22Run.open(tmp_path / "run")
    assert found.items.equals(finished.items.filter(condition="original"))
    assert found.record.calibration["original"]["reason"] == "with 144 sentences, mixed precision would not be faster"
    assert "Mixed precision" not in str(found)


@pytest.mark.everything
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
