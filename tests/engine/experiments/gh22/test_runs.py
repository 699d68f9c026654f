"""Runs of `gh22` that are stopped, compared, and in mixed precision: the first choices, and the files, of fp32."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from negengine.engine.basics.choices import Precision
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22.acts import Acts
from negengine.engine.experiments.gh22.gh22 import Gh22Run
from negengine.engine.experiments.gh22.gh22_patterns import Variant
from negengine.engine.experiments.gh22.repetitions import Repetitions
from negengine.engine.inference.mixed import FIRST_CHOICES
from negengine.engine.library.finished import open_run
from negengine.engine.results.comparison.compare import compare

from .conftest import LEXICON, ORIGINAL, VARIANTS, run

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("stage", "function", "call", "state"),
    [
        (Acts, "decide", 2, "acts is not finished"),
        (Repetitions, "check", 1, "acts is finished, but the run is not"),
        (Repetitions, "decide", 2, "gh22 is not finished"),
    ],
)
def test_a_run_that_was_stopped_says_how_to_go_on(stage, function, call, state, acts, tmp_path, interrupt):
    interrupt(stage, function, call)
    with pytest.raises(KeyboardInterrupt):
        run(acts, ORIGINAL, tmp_path / "run", acts_per_part=5)
    with pytest.raises(InputError, match=f"{state}; to resume it: negengine gh22 mini --output "):
        open_run(tmp_path / "run")


def test_runs_are_compared_by_words_on_the_variants_that_both_have(finished, in_parts, acts, tmp_path):
    """A lexicon with some of the words in another order: the same model differs from itself in nothing."""
    words = replace(LEXICON, names=("John", "Jessica"), genders=("m", "f"), professions=LEXICON.professions[::-1])
    other = Acts.plan(acts.exported, words, acts.pattern, ranks=acts.ranks)
    found = compare(finished, run(other, ORIGINAL, tmp_path / "run")).frame
    assert found.select("n", "condition", "difference").unique().rows() == [(4, "original", 0.0)]
    assert len(found) == 8 * len(acts.ranks)
    for key in ("sentence", "original patterns sha256"):
        record = msgspec.structs.replace(in_parts.record, identity={**in_parts.record.identity, key: "another"})
        with pytest.raises(InputError, match=f"cannot be compared: {key} .*there another"):
            compare(in_parts, replace(in_parts, folder=tmp_path, record=record))


NUMBERS = ("expected_rank", "expected_logprob", "top1_logprob", "precision")


@pytest.fixture(scope="module")
def mixed(acts, tmp_path_factory):
    """With a calibration and an audit of 60 sentences; those of longer runs would be all sentences of this one."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Repetitions, "method", replace(FIRST_CHOICES, sizes=(60, 60)))
        folder = run(acts, VARIANTS, tmp_path_factory.mktemp("mixed") / "gh22", precision=Precision.MIXED)
    return Gh22Run.open(folder)


def test_first_choices_and_rates_are_those_of_fp32_and_rows_of_the_reference_model_have_its_numbers(finished, mixed):
    assert mixed.items.drop(NUMBERS).equals(finished.items.drop(NUMBERS))
    assert mixed.summary.equals(finished.summary)
    assert mixed.acts.equals(finished.acts)
    assert [set(run.items["precision"]) for run in (finished, mixed)] == [{"fp32"}, {"fp32", "int8"}]
    exact = (mixed.items["precision"] == "fp32").to_numpy()
    own, other = (run.items.select(NUMBERS[:3]).to_numpy()[exact] for run in (mixed, finished))
    np.testing.assert_array_equal(own[:, 0], other[:, 0])
    np.testing.assert_allclose(own, other, atol=1e-4)
    choices = {variant: choice["precision"] for variant, choice in mixed.record.calibration.items()}
    assert choices == dict.fromkeys(Variant, "mixed")
    assert mixed.record.counts["decided"] == len(mixed.items)
    assert "Mixed precision: " in str(mixed)
