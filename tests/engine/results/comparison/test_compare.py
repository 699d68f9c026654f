"""Runs against each other: the right items are paired, by the right test, and layouts are the paper's."""

import shutil

import msgspec
import negengine as ng
import numpy as np
import polars as pl
import pytest
from lies import reseal
from negengine.engine.experiments.negation.negation_runs import ScoresRun
from negengine.engine.library.run import Run
from negengine.engine.statistics.p_values import sign_flips
from scipy import stats

TARGETS = ("pronoun", "other-gender", "same-name")


@pytest.fixture(scope="module")
def model(mini):
    return ng.load(mini.folder, device="cpu", precision="fp32")


@pytest.fixture(scope="module")
def runs(model, small_lexicon, tmp_path_factory):
    """Coreference → its scored run."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    for target in TARGETS:
        run = ng.select(model, lexicon=small_lexicon, coreference=target, output=folder / target, progress=False)
        made[target] = ng.score(run, progress=False)
    return made


class Changed(ScoresRun):
    """A run of another model, perhaps with other outcomes."""

    changed: pl.DataFrame

    @classmethod
    def of(cls, run, name, outcomes):
        made = cls(run.folder, msgspec.structs.replace(run.record, identity={**run.record.identity, "model": name}))
        object.__setattr__(made, "changed", outcomes)
        return made

    def outcomes(self):
        return self.changed


def flipped(sums):
    """The p of SciPy's test by sign flips of each pair's sum of differences."""
    if not any(sums):
        return 1
    how = {"permutation_type": "samples", "n_resamples": np.inf}
    return stats.permutation_test((np.array(sums),), lambda x, axis: x.sum(axis=axis), **how).pvalue


def test_patterns_of_a_run_are_tested_on_the_same_triplets(runs):
    """Against a plain loop."""
    run = runs["pronoun"]
    triplets = run.selection.triplets
    pairs = {row["triplet"]: (row["name"], row["profession"]) for row in triplets.iter_rows(named=True)}
    verbs = dict(triplets.select("triplet", "verb").iter_rows())
    repeated = {(row["triplet"], row["pattern"]): row["repeated"] for row in run.items.iter_rows(named=True)}
    found = ng.compare(run).frame
    assert len(found) == 6
    for row in found.iter_rows(named=True):
        sums, by_verb = dict.fromkeys(pairs.values(), 0), dict.fromkeys(verbs.values(), 0)
        for triplet, pair in pairs.items():
            difference = int(repeated[triplet, row["first"]]) - int(repeated[triplet, row["second"]])
            sums[pair] += difference
            by_verb[verbs[triplet]] += difference
        assert (row["n"], row["clusters"], row["crossed"], row["tests"]) == (len(pairs), 12, len(by_verb), 6)
        difference = 100 * sum(sums.values()) / len(pairs)
        assert (row["difference"], row["unit"]) == (pytest.approx(difference), "percentage points")
        # Never below the p of either kind of clusters alone.
        by_both = sign_flips(np.array(list(by_verb.values())))
        assert row["p"] >= max(flipped(list(sums.values())), by_both) * (1 - 1e-9)
        assert row["low"] <= row["difference"] <= row["high"]
    assert (found["p_holm"] >= found["p"]).all()
    text = " ".join(str(ng.compare(run)).split())
    for said in (
        "Difference of the repetition rates: first − second",
        "in percentage points",
        "clusters: 12 [NAME, PROF] pairs",
        "corrected for 6 tests; 12 clusters cannot give a p below 0.00049",
        "finds: the smallest true difference that this test finds with a power of 80 %",
        "p: by sign flips of clusters, of verbs, and by Student's test for both; the largest one",
        "interval, finds and p allow for verbs as clusters too",
    ):
        assert said in text


def test_targets_are_the_papers_columns_and_are_tested_on_the_triplets_of_both(runs):
    found = ng.compare(*runs.values())
    assert found.rates["coreference"].unique(maintain_order=True).to_list() == ["same-name", "other-gender", "pronoun"]
    for target, run in runs.items():
        assert found.rates.filter(coreference=target)["drop"].to_list() == run.rates["drop"].to_list()
    assert set(found.document()) == {"rates", "tests"}
    text = str(found.tables()[0])
    assert text.index("same name") < text.index("other name, other gender")
    assert "CpTp" not in text
    large = (Changed.of(run, "roberta-large", run.outcomes()) for run in runs.values())
    text = " ".join(str(ng.compare(*large)).split())
    assert all(published in text for published in ("(60,800)", "(64.1)", "Table 8"))
    assert len(found.frame) == 4 * 3
    [row] = found.frame.filter(pattern="CpTn", first="same-name", second="other-gender").to_dicts()
    one, other = (
        dict(runs[target].outcomes().filter(split="CpTn").select("item", "value").iter_rows())
        for target in ("same-name", "other-gender")
    )
    common = set(one) & set(other)
    assert row["n"] == len(common)
    assert row["difference"] == pytest.approx(100 * np.mean([one[i] - other[i] for i in common]))


def test_two_models_are_compared_on_what_both_have(runs):
    """The second model is the first one with all repetitions of CpTn turned round, on all but 5 of the triplets."""
    run = runs["pronoun"]
    own = run.outcomes()
    kept = own.filter(~pl.col("item").is_in(own["item"].unique().sort()[:5].implode()))
    value = pl.when(pl.col("split") == "CpTn").then(1 - pl.col("value")).otherwise("value")
    found = ng.compare(run, Changed.of(run, "another", kept.with_columns(value=value)))
    assert found.table.title == "mini − another, on the items of both runs"
    rows = {row["split"]: row for row in found.document()["tests"]}
    assert {row["n"] for row in rows.values()} == {own["item"].n_unique() - 5}
    by_pair = kept.filter(split="CpTn").group_by("cluster").agg(sum=(2 * pl.col("value") - 1).sum(), n=pl.len())
    p = rows["CpTn"]["p"]
    assert p >= flipped(by_pair["sum"].to_list())
    assert {name: rows["CpTn"][name] for name in ("difference", "p", "p_holm")} == pytest.approx(
        {"difference": 100 * by_pair["sum"].sum() / by_pair["n"].sum(), "p": p, "p_holm": min(1, 4 * p)}
    )
    assert "CpTp" not in rows  # 100 % by construction in both: nothing is compared


def test_triplets_are_joined_on_their_words(model, runs, small_lexicon, tmp_path):
    """Another order of the word lists gives the same triplets other numbers."""
    words = shutil.copytree(small_lexicon, tmp_path / "words")
    for path in words.glob("*.txt"):
        path.write_text("".join(reversed(path.read_text("utf-8").splitlines(keepends=True))), "utf-8")
    run = ng.select(model, lexicon=words, output=tmp_path / "reversed", progress=False)
    assert run.triplets["verb"].to_list() != runs["pronoun"].selection.triplets["verb"].to_list()
    found = ng.compare(runs["pronoun"], ng.score(run, progress=False))
    assert found.table.title.startswith("mini (pronoun) − mini (reversed), on")
    assert found.frame.select("n", "difference").rows() == [(len(run.triplets), 0)] * 4


def test_what_cannot_be_compared_is_told_before_items_are_read(runs, selected_run, tmp_path):
    class Other(Run):
        stage = "another"

    class Unread(Changed):
        def outcomes(self):
            raise AssertionError("items were read")

    run = runs["pronoun"]
    outcomes = run.outcomes()
    twice = Changed.of(run, "another", pl.concat([outcomes, outcomes.head(1)]))
    apart = Changed.of(run, "another", outcomes.with_columns(item=pl.lit("other ") + pl.col("item")))
    unlike = Unread.of(run, "another", outcomes)
    unlike.record.identity["patterns sha256"] = "0" * 64
    words = shutil.copytree(runs["other-gender"].folder, tmp_path / "other")
    other_words = {"lexicon sha256": "0" * 64}
    reseal(words / "run.json", lambda document: document["stages"]["select"]["identity"].update(other_words))
    other = Other(run.folder, run.record)
    refused = [
        ([run, words], r"cannot be compared: lexicon sha256 000000000000…, there [0-9a-f]{12}…"),
        ([run, unlike], r"cannot be compared: patterns sha256 [0-9a-f]{12}…, there 000000000000…"),
        ([run, twice], r"the item '.+\|.+\|.+' occurs more than once"),
        ([run, apart], "have no item in common"),
        ([], "no runs given"),
        ([selected_run], r"is selected, not scored: run `negengine score .+` first"),
        ([run, tmp_path / "nowhere"], "nowhere is not a run folder"),
        ([run, run, run], "is given more than once"),
        ([other], "compare needs two runs of another"),
        ([run, other], r"runs of different kinds: .+ \(score\), .+ \(another\)"),
    ]
    for given, message in refused:
        with pytest.raises(ng.InputError, match=message):
            ng.compare(*given)


def test_verbs_of_one_token_and_of_several_are_never_counted_together(model, small_lexicon, tmp_path):
    words = shutil.copytree(small_lexicon, tmp_path / "words")
    with (words / "verbs.txt").open("a") as verbs:
        verbs.write("beware\nrustle\nabdicate\n")
    run = ng.select(model, lexicon=words, verbs="whole-words", output=tmp_path / "run", progress=False)
    run = ng.score(run, progress=False)
    frame = ng.compare(run).frame
    assert frame.columns[:3] == ["verbs", "first", "second"]
    apart = {"one token": run.rates, "several tokens": run.token_rates.filter(tokens="several")}
    for kind, rates in apart.items():
        rate, own = dict(rates.select("pattern", "repetition_rate").iter_rows()), frame.filter(verbs=kind)
        assert own["n"].unique().to_list() == [rates["n"][0]]
        for first, second, difference in own.select("first", "second", "difference").iter_rows():
            assert difference == pytest.approx(rate[first] - rate[second])
    assert frame["tests"].unique().to_list() == [len(frame)]  # one family
