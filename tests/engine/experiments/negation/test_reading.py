import polars as pl
import pytest
from negengine.engine.experiments.negation.published import published
from negengine.engine.experiments.negation.reading import reading
from negengine.engine.text.pattern import Pattern, PatternSet, Role
from negengine.engine.text.pattern_files import load_patterns

PATTERNS = load_patterns()
APART = "the 95 % intervals do not overlap."


def rates(**drops: float | tuple[float, float | None, float | None]) -> pl.DataFrame:
    """A rates table with the drops given, or drop, low and high; intervals are narrow unless given."""
    given = {
        name: drop if isinstance(drop, tuple) else (drop, drop - 0.01, drop + 0.01) for name, drop in drops.items()
    }
    return pl.DataFrame(
        [(name, *figures) for name, figures in given.items()],
        schema={"pattern": pl.String, "drop": pl.Float64, "drop_low": pl.Float64, "drop_high": pl.Float64},
        orient="row",
    )


def paper_rates(model: str) -> pl.DataFrame:
    return rates(CpTp=(0.0, None, None), **published(model, PATTERNS).coreference["pronoun"].drops)


def read(drops: pl.DataFrame, patterns: PatternSet = PATTERNS, coreference: str = "pronoun") -> str:
    return reading(drops, patterns, coreference)


def pattern_set(**roles: Role) -> PatternSet:
    patterns = [Pattern(name, "{MASK}", role=role) for name, role in roles.items()]
    return PatternSet("mine", Pattern("s", "{MASK}", role=Role.SELECTING), tuple(patterns))


# ---------------------------------------------------------------- the verdict, where the paper has one


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        # Section 3.5: only roberta-large's two drops are above both controls. For roberta-base the drop of CpTn (27.7)
        # is above both as well, by little against CpTv (23.3): by the numbers it passes.
        ("bert-base-cased", "Does not pass"),
        ("bert-large-cased", "Does not pass"),
        ("roberta-base", "Passes"),
        ("roberta-large", "Passes"),
    ],
)
def test_the_papers_models_are_read_by_their_numbers(model, expected):
    assert read(paper_rates(model)).startswith(expected)


@pytest.mark.parametrize("coreference", ["pronoun", "same-name"])
def test_a_pass_names_all_drops_and_what_supports_it(coreference):
    assert read(paper_rates("roberta-large"), coreference=coreference) == (
        "Passes the test (§3.5): the drops of CpTn (64.7) and CnTp (82.8) are above both controls, "
        f"CnTn (43.5) and CpTv (26.0); {APART}"
    )


def test_a_failure_names_what_is_below_what():
    assert read(paper_rates("bert-large-cased")) == (
        f"Does not pass the test (§3.5): the drop of CnTp (16.5) is below CpTv (42.9); {APART}"
    )


def test_a_failure_names_each_forbidden_pattern_once():
    assert read(rates(CpTn=1.0, CnTp=2.0, CnTn=10.0, CpTv=20.0)) == (
        "Does not pass the test (§3.5): the drop of CpTn (1.0) is below CnTn (10.0) and CpTv (20.0); "
        f"the drop of CnTp (2.0) is below CnTn (10.0) and CpTv (20.0); {APART}"
    )


def test_overlapping_intervals_decide_nothing_for_a_pass():
    close = rates(CpTn=(30.0, 25, 35), CnTp=(50.0, 49, 51), CnTn=(10.0, 9, 11), CpTv=(28.0, 23, 33))
    assert read(close) == (
        "Not decided (§3.5): the 95 % interval of CpTn (30.0) overlaps with the interval of CpTv (28.0). "
        "By the drops alone the model passes."
    )


def test_overlapping_intervals_decide_nothing_against_one():
    close = rates(CpTn=(26.0, 25, 35), CnTp=(50.0, 49, 51), CnTn=(10.0, 9, 11), CpTv=(28.0, 23, 33))
    assert read(close).startswith("Not decided (§3.5)")
    assert read(close).endswith("By the drops alone the model does not pass.")


def test_all_overlapping_intervals_are_named_once():
    wide = rates(CpTn=(0.0, 0, 80), CnTp=(0.0, 0, 80), CnTn=(0.0, 0, 80), CpTv=(0.0, 0, 80))
    assert read(wide) == (
        "Not decided (§3.5): the 95 % interval of CpTn (0.0) overlaps with the intervals of CnTn (0.0) and CpTv (0.0); "
        "the interval of CnTp (0.0) overlaps with the intervals of CnTn (0.0) and CpTv (0.0). By the drops alone the "
        "model does not pass."
    )


def test_equal_drops_are_not_above_one_another():
    equal = rates(CpTn=(30.0, 29, 31), CnTp=(50.0, 49, 51), CnTn=(10.0, 9, 11), CpTv=(30.0, 29, 31))
    assert read(equal).startswith("Not decided")
    assert read(equal).endswith("does not pass.")


def test_one_clear_failure_outweighs_an_overlap():
    mixed = rates(CpTn=(5.0, 4, 6), CnTp=(50.0, 20, 80), CnTn=(10.0, 9, 11), CpTv=(30.0, 25, 35))
    assert read(mixed).startswith("Does not pass the test (§3.5): the drop of CpTn (5.0) is below CnTn (10.0)")


def test_without_intervals_nothing_is_decided():
    unknown = rates(CpTn=(30.0, None, None), CnTp=(50.0, None, None), CnTn=(1.0, None, None), CpTv=(2.0, None, None))
    assert read(unknown).startswith("Not decided")


def test_one_pair_decides_nothing():
    wide = rates(**dict.fromkeys(("CpTn", "CnTp", "CnTn", "CpTv"), (50.0, 0.0, 100.0)))
    assert read(wide).startswith("Not decided")


def test_the_order_of_the_rows_does_not_matter():
    assert read(paper_rates("roberta-base").reverse()) == read(paper_rates("roberta-base"))


@pytest.mark.parametrize("coreference", ["pronoun", "same-name", "same-gender", "other-gender"])
def test_it_is_one_line(coreference):
    assert "\n" not in read(paper_rates("bert-base-cased"), coreference=coreference)


def test_a_pattern_without_triplets_does_not_take_part():
    assert read(rates(CpTn=(None, None, None), CnTp=50.0, CnTn=1.0, CpTv=2.0)) == (
        f"Passes the test (§3.5): the drop of CnTp (50.0) is above both controls, CnTn (1.0) and CpTv (2.0); {APART}"
    )


# ---------------------------------------------------------------- no verdict, where the paper has none


@pytest.mark.parametrize("coreference", ["same-gender", "other-gender"])
def test_where_another_person_is_meant_there_is_no_verdict(coreference):
    said = read(paper_rates("roberta-large"), coreference=coreference)
    assert said.startswith(f"No verdict: the target sentence is about another person ({coreference})")
    assert "The forbidden pattern with the largest drop is CnTp (82.8, from 82.8 to 82.8)" in said
    assert "passes" not in said.lower()


def test_without_triplets_nothing_is_said_of_drops():
    empty = rates(CpTn=(None, None, None))
    assert read(empty, coreference="other-gender").endswith("a drop is not a sign of understanding.")


@pytest.mark.parametrize(
    ("drops", "said"),
    [
        ({"f": 9.0, "c": 2.0}, f"The drop of f (9.0) is above the control c (2.0); {APART}"),
        ({"f": 1.0, "c": 2.0}, f"The drop of f (1.0) is below c (2.0); {APART}"),
        (
            {"f": (3.0, 1, 5), "c": 2.0},
            "The 95 % interval of f (3.0) overlaps with the interval of c (2.0).",
        ),
    ],
)
def test_own_patterns_have_no_verdict(drops, said):
    patterns = pattern_set(f=Role.FORBIDDEN, c=Role.CONTROL)
    assert read(rates(**drops), patterns) == f"No verdict: the test (§3.5) is defined for the paper's patterns. {said}"


def test_own_patterns_with_three_controls():
    patterns = pattern_set(f=Role.FORBIDDEN, a=Role.CONTROL, b=Role.CONTROL, c=Role.CONTROL)
    assert read(rates(f=9.0, a=1.0, b=2.0, c=3.0), patterns).endswith(
        f"The drop of f (9.0) is above all controls, a (1.0), b (2.0) and c (3.0); {APART}"
    )


@pytest.mark.parametrize("role", [Role.FORBIDDEN, Role.CONTROL])
def test_without_both_kinds_there_is_no_verdict(role):
    assert read(rates(a=1.0, b=2.0), pattern_set(a=role, b=role)).startswith("No verdict: the test (§3.5) compares")


def test_the_verdict_takes_the_intervals_with_verbs_as_clusters_where_a_run_has_them():
    drops = rates(CpTn=30.0, CnTp=50.0, CnTn=10.0, CpTv=20.0)
    narrow = drops.with_columns(drop_low_two_way=pl.col("drop") - 2, drop_high_two_way=pl.col("drop") + 2)
    assert read(narrow).endswith("the 95 % intervals with pairs and verbs as clusters do not overlap.")
    wide = drops.with_columns(drop_low_two_way=pl.col("drop") - 6, drop_high_two_way=pl.col("drop") + 6)
    assert read(wide) == (
        "Not decided (§3.5): the 95 % interval with pairs and verbs as clusters of CpTn (30.0) overlaps with the "
        "interval of CpTv (20.0). By the drops alone the model passes."
    )
