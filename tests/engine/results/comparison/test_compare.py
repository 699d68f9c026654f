import json
import shutil
from itertools import combinations
from pathlib import Path

import msgspec
import negengine as ng
import numpy as np
import polars as pl
import pytest
from lies import reseal
from negengine.engine.experiments.negation.negation_runs import ScoresRun
from negengine.engine.library.run import Run
from negengine.engine.results.comparison.estimates import OTHER_ITEMS, heading_of
from negengine.engine.runs.record import StageRecord
from negengine.engine.statistics.p_values import holm, sign_flips
from negengine.engine.views.formats import render
from scipy import stats

TARGETS = ("pronoun", "other-gender", "same-name")
MODELS = ("small", "middle", "large")
GROUPS = ("gender",)


def with_outcomes(kind, folder, record, outcomes):
    """`GROUPS` are columns of the outcomes that `outcomes` keeps if they are asked for."""
    made, own = kind(folder, record), None if outcomes is None else outcomes.drop(GROUPS, strict=False)

    def given(by=None):
        return own if by is None else own.with_columns(outcomes[by].alias("by"))

    object.__setattr__(made, "outcomes", given)
    return made


@pytest.fixture(scope="module")
def runs(model, small_lexicon, tmp_path_factory):
    """Coreference → its scored run."""
    folder, made = tmp_path_factory.mktemp("runs"), {}
    for target in TARGETS:
        run = ng.select(model, lexicon=small_lexicon, coreference=target, output=folder / target, progress=False)
        made[target] = ng.score(run, progress=False)
    return made


def changed(run, name, outcomes):
    """A run of another model, perhaps with other outcomes."""
    record = msgspec.structs.replace(run.record, identity={**run.record.identity, "model": name})
    return with_outcomes(ScoresRun, run.folder, record, outcomes)


def flipped(sums):
    """The p of SciPy's test by sign flips of each pair's sum of differences."""
    how = {"permutation_type": "samples", "n_resamples": np.inf}
    found = stats.permutation_test((np.array(sums),), lambda x, axis: x.sum(axis=axis), **how) if any(sums) else None
    return found.pvalue if found else 1


def test_patterns_of_a_run_are_tested_on_the_same_triplets(runs):
    """Against a plain loop."""
    run = runs["pronoun"]
    triplets = run.selection.triplets
    pairs = {row["triplet"]: (row["name"], row["profession"]) for row in triplets.iter_rows(named=True)}
    verbs = dict(triplets.select("triplet", "verb").iter_rows())
    repeated = {(row["triplet"], row["pattern"]): row["repeated"] for row in run.items.iter_rows(named=True)}
    found = ng.compare(run).frame
    assert len(found) == 6
    differ = found.filter(pl.col("least_p") < 1)
    for row in found.iter_rows(named=True):
        sums, by_verb = dict.fromkeys(pairs.values(), 0), dict.fromkeys(verbs.values(), 0)
        for triplet, pair in pairs.items():
            difference = int(repeated[triplet, row["first"]]) - int(repeated[triplet, row["second"]])
            sums[pair] += difference
            by_verb[verbs[triplet]] += difference
        assert (row["n"], row["clusters"], row["crossed"], row["tests"]) == (len(pairs), 12, len(by_verb), len(differ))
        least = max(min(1, 2 / 2 ** np.count_nonzero([*own.values()])) for own in (sums, by_verb))
        assert row["least_p"] == least
        difference = sum(sums.values()) / len(pairs)
        assert (row["difference"], row["unit"]) == (pytest.approx(difference), "fraction")
        # Never below the p of either kind of clusters alone.
        by_both = sign_flips(np.array(list(by_verb.values())))
        assert row["p"] >= max(flipped(list(sums.values())), by_both) * (1 - 1e-9)
        assert row["low"] <= row["difference"] <= row["high"]
    assert (found["p_holm"] >= found["p"]).all()
    text = " ".join(str(ng.compare(run)).split())
    for said in (
        "Difference of the repetition rates: first − second",
        "clusters (name–profession pairs): 12",
        f"corrected for {len(differ)} tests that can differ, each once; the least p that a test can give is 0.",
        "p: by sign flips of clusters, of verbs, and by Student's test for both; the largest one",
        "interval, detectable difference and p allow for verbs as clusters too",
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
    large = (changed(run, "roberta-large", run.outcomes()) for run in runs.values())
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
    assert row["difference"] == pytest.approx(np.mean([one[i] - other[i] for i in common]))


def test_two_models_are_compared_on_what_both_have(runs):
    """The second model is the first one with all repetitions of CpTn turned round, on all but 5 of the triplets."""
    run = runs["pronoun"]
    own = run.outcomes()
    kept = own.filter(~pl.col("item").is_in(own["item"].unique().sort()[:5].implode()))
    value = pl.when(pl.col("split") == "CpTn").then(1 - pl.col("value")).otherwise("value")
    found = ng.compare(run, changed(run, "another", kept.with_columns(value=value)))
    assert found.table.title == "mini − another, on the items of both runs"
    rows = {row["split"]: row for row in found.document()["tests"]}
    assert {row["n"] for row in rows.values()} == {own["item"].n_unique() - 5}
    by_pair = kept.filter(split="CpTn").group_by("cluster").agg(sum=(2 * pl.col("value") - 1).sum(), n=pl.len())
    p = rows["CpTn"]["p"]
    assert p >= flipped(by_pair["sum"].to_list())
    assert {name: rows["CpTn"][name] for name in ("difference", "p", "p_holm")} == pytest.approx(
        {"difference": by_pair["sum"].sum() / by_pair["n"].sum(), "p": p, "p_holm": p}
    )  # the other three patterns are the same in both
    assert {row["tests"] for row in rows.values()} == {1}
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

    run = runs["pronoun"]
    outcomes = run.outcomes()
    twice = changed(run, "another", pl.concat([outcomes, outcomes.head(1)]))
    apart = changed(run, "another", outcomes.with_columns(item=pl.lit("other ") + pl.col("item")))
    unlike = changed(run, "another", None)  # its items are not read
    unlike.record.identity["patterns sha256"] = "0" * 64
    words = shutil.copytree(runs["other-gender"].folder, tmp_path / "other")
    other_words = {"lexicon sha256": "0" * 64}
    reseal(words / "run.json", lambda document: document["stages"]["select"]["identity"].update(other_words))
    other = Other(run.folder, run.record)
    refused = [
        ([run, words], r"cannot be compared: other lexicon \(sha256 000000000000…, there [0-9a-f]{12}…\)"),
        ([run, unlike], r"cannot be compared: other patterns \(sha256 [0-9a-f]{12}…, there 000000000000…\)"),
        ([run, twice], r"the item '.+' occurs more than once"),
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


def test_verbs_of_one_token_and_of_several_are_never_counted_together(scored_run, several_tokens_run):
    several = ng.open(several_tokens_run)
    with pytest.raises(ng.InputError, match="several-tokens"):
        ng.compare(scored_run, several)
    rates, frame = dict(several.rates.select("pattern", "repetition_rate").iter_rows()), ng.compare(several).frame
    for first, second, difference in frame.select("first", "second", "difference").iter_rows():
        assert 100 * difference == pytest.approx(rates[first] - rates[second])
    by_tokens = ng.by_group(several, by="tokens").frame
    assert by_tokens.filter(split="CpTn")["n"].sum() == len(several.triplets)


class Plain(Run):
    """A run of a probe with outcomes that a test gives."""

    stage = "plain"
    groupings = GROUPS


def plain(name, outcomes):
    record = StageRecord(identity={"model": name}, metadata={}, parts=1)
    return with_outcomes(Plain, Path("runs") / name, record, outcomes)


def made(splits="ab"):
    """A run of each model: items in 10 clusters with a gender each; the second kind, 10 too, crosses them."""
    schema = ("dataset", "condition", "split", "metric", "item", "cluster", "crossed", "gender")
    numbers = [(split, i) for split in splits for i in range(40)]
    rows = [("D", "c", split, "accuracy", f"item {i}", f"{i // 4}", f"v{i % 10}", "fm"[i % 2]) for split, i in numbers]
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    values = (np.random.default_rng(seed).random(len(rows)) < 0.5 for seed in range(len(MODELS)))
    return [plain(name, frame.with_columns(value=own.astype(float))) for name, own in zip(MODELS, values, strict=True)]


def test_a_family_has_the_tests_that_can_differ_each_once():
    """Of 12 rows a plain loop tests 4: right answers and first choices are one, as is a group of all items.

    Repeated words are the same for every model, and the group of three items cannot have a p below 2 / 2^3.
    """
    schema = ("dataset", "condition", "column", "split", "metric", "item", "value", "cluster")
    rng, runs = np.random.default_rng(3), []
    signs = rng.random((2, 30)) < [[0.2], [0.9]]
    for name, right in zip(("one", "other"), signs, strict=True):
        values = {"correct": right, "first": ~right, "repeats": np.arange(30) % 2, "number": right - rng.random(30)}
        groups = {(None, "all"): range(30), ("kind", "every"): range(30), ("kind", "few"): range(3)}
        rows = [
            ("D", "c", column, split, metric, f"{i}", float(own[i]), f"{i}")
            for (column, split), items in groups.items()
            for metric, own in values.items()
            for i in items
        ]
        runs.append(plain(name, pl.DataFrame(rows, schema=schema, orient="row", infer_schema_length=None)))
    found = ng.compare(*runs)
    p, least = found.frame["p"].to_numpy(), found.frame["least_p"].to_numpy()
    by_key = dict(zip(found.frame.select("split", "metric").iter_rows(), zip(p, least, strict=True), strict=True))
    once = [by_key["all", "correct"], by_key["all", "number"], by_key["few", "correct"], by_key["few", "number"]]
    wanted, below = {}, 0
    for own in sorted(once):
        below = max(below, min(1, own[0] * sum(other >= own and other[1] <= own[0] for other in once)))
        wanted[own[0]] = below
    assert wanted[once[0][0]] < 0.05
    for key, (own, _) in by_key.items():
        [row] = found.frame.filter(split=key[0], metric=key[1]).to_dicts()
        assert row["p_holm"] == (1 if key[1] == "repeats" else pytest.approx(wanted[own]))
        assert row["tests"] == sum(own[1] < 1 for own in once)
    assert f"corrected for {row['tests']} tests that can differ, each once" in " ".join(str(found).split())


def test_every_two_models_are_tested_and_conditions_are_columns_where_there_is_room():
    runs = made()
    found = ng.compare(*runs).frame
    assert found.select("first", "second").rows() == [pair for pair in combinations(MODELS, 2) for _ in "ab"]
    two = ng.compare(runs[0], runs[2]).frame
    assert found.filter(first="small", second="large")["difference"].to_list() == two["difference"].to_list()
    assert found["tests"].to_list() == [6] * 6  # one family
    assert found["p_holm"].to_list() == pytest.approx(list(holm(found["p"].to_numpy(), found["least_p"].to_numpy())[0]))
    apart = plain("apart", runs[2].outcomes().with_columns(item=pl.lit("other ") + pl.col("item")))
    found = ng.compare(*runs[:2], apart)
    assert len(found.frame) == 2
    assert "without an item in common: middle and apart; small and apart" in found.table.notes

    table = ng.compare(*runs).tables()[0]
    assert [column.heading for column in table.columns] == ["model", "a", "b"]
    for run, row in zip(runs, table.frame.to_dicts(), strict=True):
        rate = run.outcomes().filter(split="b")["value"].mean()
        assert (row["model"], row["b"]) == (run.model_name, pytest.approx(rate))
        assert row["b low"] < rate < row["b high"]
    many = ng.compare(*made("abcdef"))
    assert len(many.tables()[0].frame) == 3
    assert max(map(len, render(many.tables(), "table", width=80).splitlines())) <= 80
    assert len(ng.compare(*made("abcdefghijklm")).tables()[0].frame) == 13 * 3
    # Numbers that are not rates have a table of their own.
    numbers = runs[0].outcomes().with_columns(metric=pl.lit("spearman"), value=pl.Series(np.linspace(-1, 1, 80)))
    both = pl.concat([runs[0].outcomes(), numbers])
    found = ng.compare(plain("one", both), plain("two", both))
    assert [table.title for table in found.tables()[:2]] == ["Models: rates", "Models: values, in their own unit"]
    [rates, values] = json.loads(render(found.tables()[:2], "json"))
    assert (set(rates["units"].values()), values["units"]) == ({"fraction"}, {})
    assert "(%)" in render(found.tables()[:1], "markdown")
    assert {row["model"] for row in found.document()["rates"]} == {"one", "two"}


def test_a_line_says_that_models_have_other_items_also_where_they_have_as_many():
    """Each model skipped one row, another one: 39 of 40 items each; n alone does not show it."""
    runs = made("a")
    whole = [run.outcomes("gender").rename({"by": "gender"}) for run in runs[:2]]
    one, other = (plain(f"m{place}", own.slice(place, 39)) for place, own in enumerate(whole))
    for alike, given in ((True, runs[:2]), (False, [one, other])):
        compared, groups = ng.compare(*given), ng.by_group(*given, by="gender")
        assert (compared.rates["items"].n_unique() == 1) == alike
        for table in (*compared.before, *groups.tables()):
            assert any(OTHER_ITEMS in note for note in table.notes) != alike, table.title
    assert not any("(n = " in note for note in compared.other)

    assert one.outcomes()["item"].n_unique() == other.outcomes()["item"].n_unique() == 39
    assert compared.frame["n"].to_list() == [38]
    (notes,) = (table.notes for table in ng.compare(*runs).before)
    assert any(note.startswith("clusters (") and note.endswith("): 10") for note in notes)
    told = heading_of("split", pl.DataFrame({"dataset": ["GH22", "GH22"]}))
    assert (told, heading_of("split", pl.DataFrame({"dataset": ["GH22", "D"]}))) == ("pattern and rank", "group")


def test_the_line_names_the_groups_with_other_items_and_their_n():
    own = made("a")[0].outcomes("gender").rename({"by": "gender"})
    whole = own.with_columns(split=pl.lit("all"), column=pl.lit(None, pl.String))
    both = pl.concat([whole, own.with_columns(split="gender", column=pl.lit("gender"))])
    fewer = both.filter(pl.col("item") != own.filter(gender="m")["item"][0])
    told = {"all (n = 40, 39), m (n = 20, 19);": fewer, "all (n = 40, 20), m (n = 20, 0);": both.filter(gender="f")}
    for said, other in told.items():
        found = ng.compare(plain("one", both), plain("two", other))
        (line,) = found.other
        assert said in line
        assert all(line in table.notes for table in found.before)


def test_groups_have_rates_counts_and_intervals_and_a_terminal_shows_those_that_move_most():
    runs = made()
    found = ng.by_group(*runs, by="gender").frame
    assert len(found) == 3 * 2 * 2
    [row] = found.filter(model="middle", group="f", split="a").to_dicts()
    rate = runs[1].outcomes("gender").filter(by="f", split="a")["value"].mean()
    assert (row["n"], row["clusters"], row["value"]) == (20, 10, pytest.approx(rate))
    assert row["low"] < row["value"] < row["high"]
    moves = found.group_by("model", "split").agg(pl.col("effect").sum())["effect"]
    assert moves.to_list() == pytest.approx([0] * 6)
    assert set(ng.by_group(runs[0], by="split").frame["split"]) == {"a", "b"}
    with pytest.raises(ng.InputError, match=r"by='gendre': .*did you mean 'gender'\? give condition, dataset, gender"):
        ng.by_group(runs[0], by="gendre")
    many = ng.by_group(plain("one", runs[0].outcomes().with_columns(gender="item")), by="gender")
    moved = many.frame.filter(split="a")["effect"].to_list()
    assert moved == sorted(moved, reverse=True)
    (table,) = many.main_tables()
    assert table.frame.group_by("split").len()["len"].to_list() == [10, 10]
    assert len(many.tables()[0].frame) == 80
    assert "--format csv and --json have all" in table.notes[-1]
    # Where there is a split of all items, groups hold the same items again.
    own = [run.outcomes("gender").rename({"by": "gender"}) for run in runs]
    column = pl.when(pl.col("split") == "b").then(pl.lit("kind")).alias("column")
    split = pl.col("split").replace("a", "all")
    whole = [plain(run.model_name, one.with_columns(split, column)) for run, one in zip(runs, own, strict=True)]
    found = ng.compare(*whole)
    assert set(found.rates["split"]) == {"all"}
    assert set(found.frame["split"]) == {"all", "b"}
    assert set(ng.by_group(*whole, by="gender").frame["split"]) == {"all"}
    assert set(ng.by_group(*whole, by="split").frame["split"]) == {"all", "b"}


def test_drops_of_groups_are_those_of_their_triplets_and_items_are_tidy(scored_run):
    scored = ng.open(scored_run)
    shown = ng.by_group(scored, by="gender")
    assert {table.columns[0].heading for table in shown.tables()} == {"pattern"}  # as the tables of the run call it
    found = shown.frame
    wanted = (
        scored.items.join(scored.selection.triplets, on="triplet")
        .filter(pl.col("pattern") != "CpTp")
        .group_by("pattern", "gender")
        .agg(pl.len().cast(pl.Int64), drop=100 - 100 * pl.col("repeated").mean())
    )
    told = {(row["split"], row["group"]): (row["n"], row["drop"]) for row in found.to_dicts()}
    assert told == {row[:2]: (row[2], pytest.approx(row[3])) for row in wanted.rows()}
    every = dict(scored.rates.select("pattern", "drop").iter_rows())
    for row in found.to_dicts():  # a group with a larger drop raises the drop of all
        share = row["n"] / found.filter(split=row["split"])["n"].sum()
        assert row["effect"] == pytest.approx((row["drop"] - every[row["split"]]) / 100 * share)
    # With one group, the interval is that of the whole run: pairs and verbs are clusters.
    whole = ng.by_group(scored, by="dataset").frame.sort("split")
    rates = scored.rates.filter(pl.col("pattern") != "CpTp").sort("pattern")
    assert whole["drop"].to_list() == pytest.approx(rates["drop"].to_list())
    assert whole["drop_low"].to_list() == pytest.approx(rates["drop_low_two_way"].to_list())
    tidy = ng.items(scored)
    assert tidy.columns[:9] == ["model", "pattern", "role", "name", "gender", "profession", "verb", "pair", "repeated"]
    assert (len(tidy), tidy["repeated"].sum()) == (len(scored.items), scored.items["repeated"].sum())
    assert set(tidy["repeated"]) <= {0, 1}
    assert tidy["pair"].n_unique() == tidy.select("name", "profession").n_unique()
