"""Runs against each other: the right items are paired, by the right test, and layouts are the paper's."""

import shutil

import msgspec
import negengine as ng
import numpy as np
import polars as pl
import pytest
from negengine.engine.experiments.negation.runs import ScoresRun
from negengine.engine.library.run import Run
from scipy import stats
from sealed_documents import reseal

TARGETS = ("pronoun", "other-gender", "same-name")


@pytest.fixture(scope="module")
def model(mini):
    return ng.load(mini.folder, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def runs(model, small_lexicon, tmp_path_factory):
    """Coreference → its scored run."""
    folder = tmp_path_factory.mktemp("runs")

    def scored(target):
        run = ng.select(model, lexicon=small_lexicon, coreference=target, output=folder / target, progress=False)
        return ng.score(run, progress=False)

    return {target: scored(target) for target in TARGETS}


class Changed(ScoresRun):
    """A run of another model with other outcomes."""

    changed: pl.DataFrame

    @classmethod
    def of(cls, run, name, outcomes):
        identity = {**run.record.identity, "model": name}
        made = cls(run.folder, msgspec.structs.replace(run.record, identity=identity))
        object.__setattr__(made, "changed", outcomes)
        return made

    def outcomes(self):
        return self.changed


def test_patterns_of_a_run_are_tested_on_the_same_triplets(runs):
    """Against SciPy's sign flips of each pair's sum of differences, from a plain loop."""
    run = runs["pronoun"]
    words = {row["triplet"]: (row["name"], row["profession"]) for row in run.selection.triplets.iter_rows(named=True)}
    repeated = {(row["triplet"], row["pattern"]): row["repeated"] for row in run.items.iter_rows(named=True)}
    n = len(run.selection.triplets)
    found = ng.compare(run).frame
    assert len(found) == 6
    for row in found.iter_rows(named=True):
        only_first = sum(repeated[i, row["first"]] and not repeated[i, row["second"]] for i in range(n))
        only_second = sum(repeated[i, row["second"]] and not repeated[i, row["first"]] for i in range(n))
        assert row["n"] == n
        assert row["difference"] == pytest.approx(100 * (only_first - only_second) / n)
        assert row["unit"] == "percentage points"
        sums = dict.fromkeys(words.values(), 0)
        for i in range(n):
            sums[words[i]] += int(repeated[i, row["first"]]) - int(repeated[i, row["second"]])
        assert row["clusters"] == len(sums) == 12
        assert row["p"] == pytest.approx(flipped(list(sums.values())))
        assert row["p"] >= 2 / 2**12
        assert row["low"] <= row["difference"] <= row["high"]
        assert row["low_two_way"] <= row["difference"] <= row["high_two_way"]
        assert row["tests"] == 6
    assert (found["p_holm"] >= found["p"]).all()


def flipped(sums):
    if not any(sums):
        return 1
    result = stats.permutation_test(
        (np.array(sums),), lambda x, axis: x.sum(axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    return result.pvalue


def test_the_table_says_its_unit_its_clusters_its_family_and_what_it_can_find(runs, tmp_path):
    run = runs["pronoun"]
    text = " ".join(str(ng.compare(run)).split())
    assert "Difference of the repetition rates: first − second" in text
    assert "in percentage points" in text
    assert "clusters: 12 [NAME, PROF] pairs" in text
    assert "corrected for 6 tests; 12 clusters cannot give a p below 0.00049" in text
    assert "finds: the smallest true difference that this test finds with a power of 80 %" in text
    assert "with verbs as clusters too, " in text
    other = Changed.of(run, "another", run.outcomes())
    assert ng.compare(run, other).table.title == "mini − another, on the items of both runs"
    shutil.copytree(run.folder, tmp_path / "again")
    title = ng.compare(run, tmp_path / "again").table.title
    assert title == "mini (pronoun) − mini (again), on the items of both runs"


def test_targets_are_the_papers_columns(runs):
    found = ng.compare(*runs.values())
    assert found.rates["coreference"].unique(maintain_order=True).to_list() == ["same-name", "other-gender", "pronoun"]
    for target, run in runs.items():
        assert found.rates.filter(coreference=target)["drop"].to_list() == run.rates["drop"].to_list()
    assert set(found.document()) == {"rates", "tests"}
    text = str(found.tables()[0])
    assert "selected triplets" in text
    assert text.index("same name") < text.index("other name, other gender")
    assert "CpTp" not in text


def test_targets_are_tested_on_the_triplets_of_both(runs):
    frame = ng.compare(*runs.values()).frame
    assert len(frame) == 4 * 3
    row = frame.row(
        by_predicate=(pl.col("pattern") == "CpTn")
        & (pl.col("first") == "same-name")
        & (pl.col("second") == "other-gender"),
        named=True,
    )
    sides = [run_of(runs[target], "CpTn") for target in ("same-name", "other-gender")]
    common = sorted(set(sides[0]) & set(sides[1]))
    assert row["n"] == len(common)
    assert row["difference"] == pytest.approx(100 * np.mean([sides[0][i] - sides[1][i] for i in common]))


def run_of(run, pattern):
    return {row["item"]: row["value"] for row in run.outcomes().filter(split=pattern).iter_rows(named=True)}


def test_targets_of_runs_with_other_words_are_refused(runs, tmp_path):
    other = shutil.copytree(runs["other-gender"].folder, tmp_path / "other")
    words = {"lexicon sha256": "0" * 64}
    reseal(other / "run.json", lambda document: document["stages"]["select"]["identity"].update(words))
    with pytest.raises(ng.InputError, match=r"cannot be compared: lexicon sha256 000000000000…, there [0-9a-f]{12}…"):
        ng.compare(runs["pronoun"], other)


def test_the_papers_figures_stand_in_brackets(runs):
    def renamed(run):
        identity = {**run.record.identity, "model": "roberta-large"}
        return ScoresRun(run.folder, msgspec.structs.replace(run.record, identity=identity))

    text = " ".join(str(ng.compare(*map(renamed, runs.values()))).split())
    assert "(60,800)" in text
    assert "(64.1)" in text
    assert "Table 8" in text


def test_two_models_are_compared_on_what_both_have(runs):
    """The second model is the first one with all repetitions of CpTn turned round, on all but 5 of the triplets."""
    run = runs["pronoun"]
    own = run.outcomes()
    turned = own.with_columns(
        value=pl.when(pl.col("split") == "CpTn").then(1 - pl.col("value")).otherwise(pl.col("value"))
    ).filter(~pl.col("item").is_in(own["item"].unique().sort()[:5].implode()))
    found = {row["split"]: row for row in ng.compare(run, Changed.of(run, "another", turned)).document()["tests"]}
    n = own["item"].n_unique() - 5
    assert {row["n"] for row in found.values()} == {n}
    values = own.filter(pl.col("split") == "CpTn", pl.col("item").is_in(turned["item"].implode()))["value"].to_numpy()
    assert found["CpTn"]["difference"] == pytest.approx(100 * np.mean(values - (1 - values)))
    kept = own.filter(pl.col("split") == "CpTn", pl.col("item").is_in(turned["item"].implode()))
    by_pair = kept.group_by("cluster").agg(turned=(2 * pl.col("value") - 1).sum())["turned"].to_list()
    wanted = flipped(by_pair)
    assert found["CpTn"]["p"] == pytest.approx(wanted)
    assert found["CpTn"]["p_holm"] == pytest.approx(min(1, 5 * wanted))
    assert found["CpTp"]["p"] == 1


def test_triplets_are_joined_on_their_words(model, runs, small_lexicon, tmp_path):
    """Another order of the word lists gives the same triplets other numbers."""
    words = shutil.copytree(small_lexicon, tmp_path / "words")
    for path in words.glob("*.txt"):
        path.write_text("".join(reversed(path.read_text("utf-8").splitlines(keepends=True))), "utf-8")
    run = ng.select(model, lexicon=words, output=tmp_path / "reversed", progress=False)
    other = ng.score(run, progress=False)
    assert run.triplets["verb"].to_list() != runs["pronoun"].selection.triplets["verb"].to_list()
    found = ng.compare(runs["pronoun"], other).frame
    assert found["n"].to_list() == [len(run.triplets)] * 5
    assert found["difference"].to_list() == [0] * 5


def test_runs_under_other_conditions_are_refused_before_their_items_are_read(runs, tmp_path, monkeypatch):
    def refuse(_):
        raise AssertionError("items were read")

    monkeypatch.setattr(ScoresRun, "outcomes", refuse)
    run = runs["pronoun"]
    other = Changed.of(run, "another", pl.DataFrame())
    other.record.identity["patterns sha256"] = "0" * 64
    with pytest.raises(ng.InputError, match=r"cannot be compared: patterns sha256 [0-9a-f]{12}…, there 000000000000…"):
        ng.compare(run, other)


def test_what_cannot_be_compared_is_told(runs, selected_run, tmp_path):
    class Other(Run):
        stage = "another"

    run = runs["pronoun"]
    outcomes = run.outcomes()
    twice = Changed.of(run, "another", pl.concat([outcomes, outcomes.head(1)]))
    apart = Changed.of(run, "another", outcomes.with_columns(item=pl.lit("other ") + pl.col("item")))
    refused = [
        ([run, twice], r"the item '.+\|.+\|.+' occurs more than once"),
        ([run, apart], "have no item in common"),
        ([], "no runs given"),
        ([selected_run], r"is selected, not scored: run `negengine score .+` first"),
        ([run, tmp_path / "nowhere"], "nowhere is not a run folder"),
        ([run, run, run], "is given more than once"),
        ([Other(run.folder, run.record)], "compare needs two runs of another"),
        ([run, Other(run.folder, run.record)], r"runs of different kinds: .+ \(score\), .+ \(another\)"),
    ]
    for given, message in refused:
        with pytest.raises(ng.InputError, match=message):
            ng.compare(*given)
