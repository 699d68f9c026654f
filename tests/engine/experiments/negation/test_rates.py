"""Rates, drops and intervals of hand-made scores; Tables 5 and 6 as they are printed; what a run means in one line."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from negengine.engine.experiments.negation.negation_runs import ScoresRun, SelectionRun
from negengine.engine.experiments.negation.negation_tables import published, rates_table, selection_table
from negengine.engine.experiments.negation.rates import rates
from negengine.engine.experiments.negation.reading import reading
from negengine.engine.statistics.clusters import clustered_mean, crossed_mean, proportion_interval
from negengine.engine.statistics.differences import paired_difference
from negengine.engine.text.pattern import Pattern, PatternSet, Role
from negengine.engine.text.pattern_files import load_patterns
from negengine.engine.views.formats import render

TRIPLETS = pl.LazyFrame(
    {
        "triplet": range(6),
        "name": ["Anna", "Anna", "Anna", "Anna", "John", "John"],
        "profession": ["a dancer", "a dancer", "an actor", "an actor", "a dancer", "a dancer"],
        "verb": ["smoke", "sing", "smoke", "dance", "sing", "dance"],
    }
)
PATTERNS = load_patterns()
PAPER = published("roberta-base", PATTERNS)
DROPS = ["drop", "drop_low", "drop_high", "design_effect", "drop_low_two_way", "drop_high_two_way"]
RATES = pl.DataFrame(
    [
        ("CpTp", 0.0, *[None] * 7),
        ("CpTn", 83.2, 80.9, 85.4, 1.0, 79.2, 86.8, 2.9, 6.1),
        ("CnTp", 97.8, 96.7, 98.6, 1.1, 90.1, 99.9, 3.1, 6.1),
        ("CnTn", 24.9, 22.5, 27.5, 1.0, 20.7, 29.5, 3.0, 6.9),
        ("CpTv", 20.4, 18.2, 22.8, 0.9, 16.5, 24.7, 2.9, 6.9),
    ],
    schema=["pattern", *DROPS, "design_effect_two_way", "drop_detectable"],
    orient="row",
).with_columns(n=1200, pairs=60, verbs=482, repetition_rate=100 - pl.col("drop"))


def scores(**repeated) -> pl.LazyFrame:
    """For each pattern, whether the verb of each triplet is repeated; in no order."""
    rows = [(i, pattern, bool(r)) for pattern, column in repeated.items() for i, r in enumerate(column)]
    frame = pl.DataFrame(rows, schema=["triplet", "pattern", "repeated"], orient="row")
    return frame.sample(fraction=1, shuffle=True, seed=1).lazy()


def row(frame: pl.DataFrame, pattern: str) -> dict:
    return frame.row(by_predicate=pl.col("pattern") == pattern, named=True)


def drop_ends(mean) -> list:
    low, high = proportion_interval(mean)
    return [100 * (1 - high), 100 * (1 - low)]


def test_rates_and_drops_in_percent_come_in_the_order_asked_for():
    found = scores(CpTp=[1] * 6, CpTn=[1, 0, 1, 0, 1, 0], CnTp=[0, 0, 0, 1, 0, 0])
    table = rates(found, TRIPLETS, ["CpTp", "CnTp", "CpTn", "none"], selecting="CpTp")
    contract = "pattern n repetitions repetition_rate drop drop_low drop_high"
    assert table.columns[:7] == contract.split()
    assert table.select("pattern", "n", "repetitions", "pairs", "verbs").rows() == [
        ("CpTp", 6, 6, 3, 3),
        ("CnTp", 6, 1, 3, 3),
        ("CpTn", 6, 3, 3, 3),
        ("none", 0, 0, 0, 0),
    ]
    assert table["repetition_rate"].to_list() == [100, pytest.approx(100 / 6), 50, None]
    assert table["drop"].to_list() == [0, pytest.approx(500 / 6), 50, None]
    # The rate of the selecting pattern is 100 % by construction: an interval would be about nothing.
    estimates = ["drop_low", "drop_high", *table.columns[table.columns.index("design_effect") :]]
    for pattern in ("CpTp", "none"):
        assert set(row(table.select("pattern", *estimates), pattern).values()) == {pattern, None}
    with pytest.raises(ValueError, match="not among the triplets"):
        rates(scores(a=[1] * 7), TRIPLETS, ["a"])


def test_pairs_and_verbs_are_clusters_that_cross():
    # Everything depends on the verb: the first two of six are never repeated, the others always.
    pair, verb = np.repeat(np.arange(5), 6), np.tile(np.arange(6), 5)
    table = row(rates(scores(a=(verb > 1).tolist()), triplets_of(pair, verb), ["a"]), "a")
    both = crossed_mean(verb > 1, pair, verb)
    assert [table["drop_low_two_way"], table["drop_high_two_way"]] == pytest.approx(drop_ends(both))
    assert table["design_effect_two_way"] == pytest.approx(both.design_effect)
    by_pair = clustered_mean(np.full(5, 4), np.full(5, 6))
    assert [table["drop_low"], table["drop_high"]] == pytest.approx(drop_ends(by_pair))
    assert table["design_effect"] == pytest.approx(by_pair.design_effect)


def triplets_of(pair, verb) -> pl.LazyFrame:
    return pl.LazyFrame({"triplet": range(len(pair)), "name": pair, "profession": "x", "verb": verb})


@pytest.mark.parametrize(("pairs", "selecting"), [(30, None), (5, None), (30, "p0")])
def test_the_detectable_difference_is_the_largest_from_another_pattern_but_the_selecting_one(pairs, selecting):
    """None with five pairs."""
    random, pair, verb = np.random.default_rng(5), np.repeat(np.arange(pairs), 10), np.tile(np.arange(10), pairs)
    own = {f"p{i}": random.integers(0, 2, len(pair)) for i in range(3)}
    own["p1"] = np.where(verb == 0, own["p1"], own["p2"])  # p0 differs more from p2 than p1 does
    table = rates(scores(**own), triplets_of(pair, verb), [*own], selecting)
    others = [name for name in own if name not in {"p2", selecting}]
    wanted = [paired_difference(own[name] > 0, own["p2"] > 0, pair, verb).detectable for name in others]
    known = [100 * value for value in wanted if value is not None]
    assert row(table, "p2")["drop_detectable"] == (pytest.approx(max(known)) if known else None)
    assert (pairs == 5) == (not known)


ROOT = Path(__file__).parents[4]
DEMO = {"model": "mini", "pattern": "CpTp", "coreference": "pronoun", "verbs": 763, "pairs": 60}
DEMO |= {"tested": 45780, "repeating": 29927, "ratio": 65.37, "selected": 1200}  # of `make demo`, as the documents show
LARGE = {**DEMO, "model": "roberta-base", "verbs": 612, "pairs": 18200, "tested": 11138400, "repeating": 2445678}


def cells(table, column: int) -> list[str]:
    rows = [line.strip("│").split("│") for line in render([table], "table", width=160).splitlines() if line[0] == "│"]
    return [row[column].strip() for row in rows]


def test_the_layout_of_the_bundled_model_is_that_of_the_documents():
    page = (ROOT / "docs" / "negation-test.md").read_text("utf-8")
    lines = [line.rstrip() for line in render([rates_table(RATES, PATTERNS, DEMO, {})], "table").splitlines()]
    assert "\n".join(lines) in page
    assert all(cell in page for cell in cells(selection_table(DEMO, {}), 1))


@pytest.mark.parametrize(
    ("coreference", "printed"),
    [("pronoun", ["106", "18,200", "1.9 M", "1.2 M", "61.9", "362,027"]), ("same-name", [*[""] * 5, "118,700"])],
)
def test_the_papers_selection_stands_beside_in_the_digits_that_it_prints(coreference, printed):
    table = selection_table({**LARGE, "coreference": coreference}, PAPER)
    assert cells(table, 1) == ["612", "18,200", "11,138,400", "2,445,678", "65.4", "1,200"]
    assert cells(table, 2) == printed
    assert ("target about: same-name" in table.title) == (coreference == "same-name")


def test_a_lazy_run_marks_its_estimates():
    lazy = {"candidates": 11138400, "times_fewer_calls": 3.4, "ratio_low": 65.31, "ratio_high": 65.44}
    table = selection_table({**LARGE, "tested": 3276000, "lazy": lazy}, {})
    assert [*zip(*(cells(table, column)[2:5] for column in range(3)), strict=True)] == [
        ("3. Tested triplets (of 11,138,400)", "3,276,000", ""),
        ("4. Triplets whose verb is repeated, estimated", "2,445,678", ""),
        ("5. Ratio (%), estimated", "65.4", "65.3 to 65.4"),
    ]
    ratio = table.figures.row(by_predicate=pl.col("quantity") == "ratio", named=True)
    assert [ratio[name] for name in ("value", "low", "high", "estimated")] == [65.37, 65.31, 65.44, True]


def test_the_papers_drops_stand_beside():
    table = rates_table(RATES, PATTERNS, LARGE, PAPER)
    assert cells(table, 4) == ["", "27.7", "66.9", "12.1", "23.3"]
    assert table.figures["published drop"].to_list() == [None, 27.7, 66.9, 12.1, 23.3]
    other = rates_table(RATES, PATTERNS, {**LARGE, "coreference": "same-gender"}, PAPER)
    assert cells(other, 4)[1] == "7.5"
    assert "Table 8" in other.notes[-1]  # what is uncertain about it


def test_a_run_of_verbs_of_several_tokens_says_so_and_has_masks_groups_and_no_verdict(several_tokens_run):
    selection, run = SelectionRun.open(several_tokens_run), ScoresRun.open(several_tokens_run)
    assert [table.title for table in run.tables()] == [
        "Selection of triplets: mini, verbs of several tokens, CpTp",
        "Drop of verb repetition: mini, verbs of several tokens",
    ]
    for rows in (selection.sentences(), run.sentences()):
        masks = rows["sentence"].str.count_matches(r"\[MASK\]")
        assert (masks == rows["tokens"]).all()
        assert masks.min() > 1
    assert set(run.outcomes("tokens")["by"]) == set(run.triplets["tokens"].cast(pl.String))
    assert "is defined for the paper's verbs, which are of one token" in run.reading
    assert "verbs that are several tokens of the model" in run.methods("x")


NONE, DECIDE = (None, None), "The 95 % intervals with pairs and verbs as clusters decide."


def drops_of(**drops):
    """A rates table with the drops given, or drop, low and high; intervals are narrow unless given."""
    given = (own if isinstance(own, tuple) else (own, own - 0.01, own + 0.01) for own in drops.values())
    rows = [(name, *figures) for name, figures in zip(drops, given, strict=True)]
    figures = dict.fromkeys(("drop", "drop_low_two_way", "drop_high_two_way"), pl.Float64)
    return pl.DataFrame(rows, schema={"pattern": pl.String, **figures}, orient="row")


def paper_rates(model):
    return drops_of(CpTp=(0.0, *NONE), **published(model, PATTERNS)["pronoun"].drops)


def read(drops, patterns=PATTERNS, coreference="pronoun"):
    """With a short form for where the paper says it."""
    return reading(drops, patterns, coreference).replace("(Kletz et al. 2023, section 3.5)", "(§3.5)")


SAID = {  # as section 3.5: "fails the test completely", "still too high", "only …", "the most robust understanding"
    "bert-base-cased": "Does not pass the test (§3.5): the drop of CpTn (3.6) is not above 50 and below CpTv (25.5); "
    f"the drop of CnTp (1.2) is not above 50 and below CnTn (1.5) and CpTv (25.5). {DECIDE}",
    "bert-large-cased": "Does not pass the test (§3.5): the drop of CpTn (44.7) is not above 50; "
    f"the drop of CnTp (16.5) is not above 50 and below CpTv (42.9). {DECIDE}",
    "roberta-base": "Passes the test in part (§3.5): the drop of CnTp (66.9) is above 50 and above both controls, "
    f"CnTn (12.1) and CpTv (23.3); the drop of CpTn (27.7) is not above 50. {DECIDE}",
    "roberta-large": "Passes the test (§3.5): the drops of CpTn (64.7) and CnTp (82.8) are above 50 and above both "
    f"controls, CnTn (43.5) and CpTv (26.0). {DECIDE}",
}


def test_the_papers_models_get_the_papers_verdicts():
    for model, said in SAID.items():
        rates = paper_rates(model)
        assert read(rates) == read(rates.reverse()) == said
        assert read(rates, coreference="same-name").startswith(said.partition(":")[0])


JUDGED = [  # CpTn, CnTp, CnTn, CpTv; the verdict; how it ends
    (
        [(60.0, 55, 65), (70.0, 69, 71), (10.0, 9, 11), (58.0, 53, 63)],
        "Not decided",
        f"with the interval of CpTv (58.0). {DECIDE} By the drops alone the model passes.",
    ),
    *(  # by their drops, one is not above 50, or not above a control
        ([one, (70.0, 69, 71), (10.0, 9, 11), control], "Not decided", "alone the model does not pass.")
        for one, control in [((48.0, 40, 60), (9.0, 8, 10)), ((57.0, 52, 62), (58.0, 53, 63))]
    ),
    (  # one clear failure outweighs what is not decided
        [(5.0, 4, 6), (50.0, 20, 80), (10.0, 9, 11), (10.0, 9, 11)],
        "Does not pass",
        f"and below CnTn (10.0) and CpTv (10.0); the interval of CnTp (50.0) reaches below 50. {DECIDE}",
    ),
    (  # a pattern without triplets does not take part
        [(None, *NONE), 60.0, 1.0, 2.0],
        "Passes",
        f"the drop of CnTp (60.0) is above 50 and above both controls, CnTn (1.0) and CpTv (2.0). {DECIDE}",
    ),
]


@pytest.mark.parametrize(("drops", "verdict", "why"), JUDGED)
def test_the_verdict_names_what_supports_it(drops, verdict, why):
    said = read(drops_of(**dict(zip(("CpTn", "CnTp", "CnTn", "CpTv"), drops, strict=True))))
    assert said.startswith(verdict)
    assert said.endswith(why)


def test_where_another_person_is_meant_or_patterns_are_not_the_papers_there_is_no_verdict():
    for coreference in ("same-gender", "other-gender"):
        said = read(paper_rates("roberta-large"), coreference=coreference)
        assert said.startswith(f"No verdict: the target sentence is about another person ({coreference})")
        assert "The forbidden pattern with the largest drop is CnTp (82.8, from 82.8 to 82.8)" in said
        assert "passes" not in said.lower()
    defined = f"is defined for the paper's patterns. {{}} {DECIDE}"
    for roles, drops, why in (
        ("ff", {"a": 1.0, "b": 2.0}, "compares forbidden patterns with controls; this run does not have both."),
        ("fc", {"f": 1.0, "a": 2.0}, defined.format("The drop of f (1.0) is below a (2.0).")),
        ("fccc", {"f": 9, "a": 1, "b": 2, "c": 3}, "(9.0) is above all controls, a (1.0), b (2.0) and c (3.0)."),
    ):
        kinds = {"f": Role.FORBIDDEN, "c": Role.CONTROL}
        own = [Pattern(name, "{MASK}", role=kinds[role]) for role, name in zip(roles, drops, strict=True)]
        said = read(drops_of(**drops), PatternSet("mine", Pattern("s", "{MASK}", role=Role.SELECTING), tuple(own)))
        assert said.startswith("No verdict: the test (§3.5) ")
        assert why in said


@pytest.mark.parametrize(("kind", "pairs", "verbs"), [("pairs", 1, 20), ("pairs", 4, 5), ("verbs", 5, 4)])
def test_triplets_of_few_pairs_or_verbs_have_no_interval_and_the_table_says_why(kind, pairs, verbs):
    alike = triplets_of(np.repeat(np.arange(pairs), verbs), np.tile(np.arange(verbs), pairs))
    found = scores(CpTp=[1] * 20, CpTn=[1, 0] * 10, CnTp=[0] * 15 + [1] * 5)
    one = rates(found, alike, ["CpTp", "CpTn", "CnTp"], selecting="CpTp")
    assert one["drop"].to_list() == pytest.approx([0, 50, 75])
    assert one["drop_low_two_way", "drop_high_two_way"].null_count().row(0) == (3, 3)
    told = f"95 % interval: none, because fewer than 5 {kind} do not show how {kind} differ"
    selection = {"model": "m", "coreference": "pronoun"}
    assert told in rates_table(one, PATTERNS, selection, {}).notes
    assert not [note for note in rates_table(RATES, PATTERNS, selection, {}).notes if "none, because" in note]
