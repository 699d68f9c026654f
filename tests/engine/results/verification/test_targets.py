"""Targets of several tokens and whole words of own sentences, decided again."""

from dataclasses import dataclass

import negengine as ng
import numpy as np
import polars as pl
import pytest
from lies import changed
from negengine.engine.experiments.probe.runs import ProbeRun
from negengine.engine.inference.exported import ExportedModel
from negengine.engine.results.verification.agreement import Verdict
from negengine.engine.results.verification.reference import ExportedReference
from negengine.engine.results.verification.targets import targets_again
from negengine.engine.results.verification.words import AskedWord

WORDS = ["woodpecker", "bird", "rustling", "dog", "crackle", "animals"]
DATA = {"sentence": [f"A robin is {not_}a [MASK]." for not_ in ("", "not ") for _ in WORDS], "target": WORDS * 2}
CAUSAL = {"sentence": ["Jessica is happy to [MASK]."] * 3, "target": ["smoked", "unsung", "smoke"]}
METHODS = {"mini": ("left-to-right", "all-masks", "whole-word"), "gpt2": ("left-to-right", "whole-word")}
CASES = [(name, method) for name, methods in METHODS.items() for method in methods]


@dataclass(frozen=True)
class Asked:
    """A run, and its model."""

    run: ProbeRun
    exported: ExportedModel

    def again(self, reference=None, sample=100):
        return targets_again(self.run, self.exported, reference or ExportedReference(self.exported), sample, 0)


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def asked(request, mini, causal, tmp_path_factory):
    name, method = request.param
    exported = mini if name == "mini" else causal(name)
    model, output = ng.load(exported.folder, device="cpu", precision="fp32"), tmp_path_factory.mktemp("run") / "run"
    data = DATA if name == "mini" else CAUSAL
    return Asked(ng.probe(model, data, method=method, output=output, progress=False), exported)


def test_a_run_agrees_with_the_reference_model(asked):
    checks = {check.what.partition(" decided")[0]: check for check in ng.verify(asked.run, sample=20).checks}
    several = checks["targets of several tokens"]
    is_word = asked.run.record.identity["method"] == "whole-word"
    counts = asked.run.items["target_tokens"]
    assert several.n == (len(counts) if is_word else (counts > 1).sum()) > 0
    assert (several.wrong, several.near_ties) == (0, 0)
    assert ("items" in checks) != is_word


@pytest.mark.parametrize(
    ("column", "other"),
    [("rank", 5_000), ("logprob", -1e-3), ("is_top1", True), ("top1", "walk"), ("top1_logprob", -1e-5)],
)
def test_every_number_is_compared(asked, monkeypatch, column, other):
    """Each column alone, as the run would have it if its vectors were wrong."""
    items = asked.run.items
    row = items.with_row_index().filter((pl.col("target_tokens") > 1) & ~pl.col("is_top1")).item(0, "index")
    lied = ProbeRun(asked.run.folder, asked.run.record)
    monkeypatch.setitem(lied.__dict__, "items", changed(items, row, **{column: other}))
    wrong = [one for one in Asked(lied, asked.exported).again() if one.verdict is Verdict.WRONG]
    assert len(wrong) == 1
    assert "but" in wrong[0].why
    assert f"({items['expected'][row]})" in wrong[0].name


def test_another_model_is_found(asked):
    class Other(ExportedReference):
        def at(self, ids, position):
            return -super().at(ids, position)

    found = asked.again(Other(asked.exported))
    assert {one.verdict for one in found} == {Verdict.WRONG}


@pytest.mark.parametrize(
    ("margins", "is_first", "verdict"),
    [
        ([1.0, 1e-5], True, Verdict.AGREES),
        ([1.0, 1e-5], False, Verdict.NEAR_TIE),
        ([1.0, -1e-5], True, Verdict.NEAR_TIE),
        ([1.0, -1.0], True, Verdict.WRONG),
        ([-1.0, 1.0], False, Verdict.AGREES),
        ([1.0, 0.0], True, Verdict.AGREES),
        ([1.0, 0.0], False, Verdict.AGREES),
    ],
)
def test_the_query_that_would_have_to_come_out_in_another_way_decides(margins, is_first, verdict):
    word = AskedWord(np.array([0, 0]), np.array([[margin, 0, -2] for margin in margins], np.float32))
    assert word.decision(is_first, "the target was {}the first choice")[0] is verdict


def test_a_sample_draws_items_of_both_kinds(mini, tmp_path):
    """Few targets of one token among many of several: both kinds are decided again."""
    words = ["bird", *["woodpecker"] * 30]
    data = {"sentence": [f"A robin is a [MASK], said number {i}." for i in range(31)], "target": words}
    model = ng.load(mini.folder, device="cpu", precision="fp32")
    run = ng.probe(model, data, output=tmp_path / "run", progress=False)
    checks = {check.what.partition(" decided")[0]: check.n for check in ng.verify(run, sample=3).checks}
    assert (checks["targets of several tokens"], checks["items"]) == (3, 1)
