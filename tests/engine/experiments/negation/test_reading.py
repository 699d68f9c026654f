"""What a run means in one line: the verdict where the paper has one, and what supports it."""

import polars as pl
import pytest
from negengine.engine.experiments.negation.negation_tables import published
from negengine.engine.experiments.negation.reading import reading
from negengine.engine.text.pattern import Pattern, PatternSet, Role
from negengine.engine.text.pattern_files import load_patterns

PATTERNS = load_patterns()
DECIDE = "The 95 % intervals with pairs and verbs as clusters decide."


def rates(**drops: float | tuple[float, float | None, float | None]) -> pl.DataFrame:
    """A rates table with the drops given, or drop, low and high; intervals are narrow unless given."""
    given = {
        name: drop if isinstance(drop, tuple) else (drop, drop - 0.01, drop + 0.01) for name, drop in drops.items()
    }
    return pl.DataFrame(
        [(name, *figures) for name, figures in given.items()],
        schema={"pattern": pl.String, **dict.fromkeys(("drop", "drop_low_two_way", "drop_high_two_way"), pl.Float64)},
        orient="row",
    )


def paper_rates(model: str) -> pl.DataFrame:
    return rates(CpTp=(0.0, None, None), **published(model, PATTERNS).coreference["pronoun"].drops)


def read(drops: pl.DataFrame, patterns: PatternSet = PATTERNS, coreference: str = "pronoun") -> str:
    """With a short form for where the paper says it."""
    return reading(drops, patterns, coreference).replace("(Kletz et al. 2023, section 3.5)", "(§3.5)")


def pattern_set(**roles: Role) -> PatternSet:
    patterns = [Pattern(name, "{MASK}", role=role) for name, role in roles.items()]
    return PatternSet("mine", Pattern("s", "{MASK}", role=Role.SELECTING), tuple(patterns))


def test_the_papers_models_get_the_papers_verdicts():
    """Section 3.5: bert-base-cased "fails the test completely", bert-large-cased's control is "still too high", of
    roberta-base "only the [CnTp] drop is significant", roberta-large has "the most robust understanding"."""
    said = {
        "bert-base-cased": "Does not pass the test (§3.5): the drop of CpTn (3.6) is not above 50 and below CpTv "
        "(25.5); "
        f"the drop of CnTp (1.2) is not above 50 and below CnTn (1.5) and CpTv (25.5). {DECIDE}",
        "bert-large-cased": "Does not pass the test (§3.5): the drop of CpTn (44.7) is not above 50; "
        f"the drop of CnTp (16.5) is not above 50 and below CpTv (42.9). {DECIDE}",
        "roberta-base": "Passes the test in part (§3.5): the drop of CnTp (66.9) is above 50 and above both controls, "
        f"CnTn (12.1) and CpTv (23.3); the drop of CpTn (27.7) is not above 50. {DECIDE}",
        "roberta-large": "Passes the test (§3.5): the drops of CpTn (64.7) and CnTp (82.8) are above 50 and above both "
        f"controls, CnTn (43.5) and CpTv (26.0). {DECIDE}",
    }
    for model, expected in said.items():
        for coreference in ("pronoun", "same-name"):
            assert read(paper_rates(model), coreference=coreference).startswith(
                expected if coreference == "pronoun" else expected.split(":")[0]
            )
        assert read(paper_rates(model).reverse()) == read(paper_rates(model))


@pytest.mark.parametrize(
    ("drops", "expected"),
    [
        (  # far above the controls, and nearly nothing
            rates(CpTn=(3.0, 2.5, 3.5), CnTp=(3.2, 2.7, 3.7), CnTn=(0.5, 0.0, 1.0), CpTv=(0.6, 0.1, 1.1)),
            (
                "Does not pass the test (§3.5): the drop of CpTn (3.0) is not above 50; the drop of CnTp (3.2) is not "
                "above 50"
                f". {DECIDE}"
            ),
        ),
        (
            rates(CpTn=(60.0, 55, 65), CnTp=(70.0, 69, 71), CnTn=(10.0, 9, 11), CpTv=(58.0, 53, 63)),
            (
                "Not decided (§3.5): the drop of CnTp (70.0) is above 50 and above both controls, CnTn (10.0) and CpTv "
                "(58.0); "
                f"the interval of CpTn (60.0) overlaps with the interval of CpTv (58.0). {DECIDE} "
                "By the drops alone the model passes."
            ),
        ),
        (
            rates(CpTn=(0.0, 0, 80), CnTp=(51.0, 0, 80), CnTn=(0.0, 0, 80), CpTv=(0.0, 0, 80)),
            (
                "Not decided (§3.5): the interval of CpTn (0.0) reaches below 50 and overlaps with the intervals of "
                "CnTn (0.0) "
                "and CpTv (0.0); the interval of CnTp (51.0) reaches below 50 and overlaps with the intervals of CnTn "
                "(0.0) and "
                f"CpTv (0.0). {DECIDE} By the drops alone the model does not pass."
            ),
        ),
        (  # equal drops are not above one another
            rates(CpTn=(60.0, 59, 61), CnTp=(70.0, 69, 71), CnTn=(10.0, 9, 11), CpTv=(60.0, 59, 61)),
            (
                "Not decided (§3.5): the drop of CnTp (70.0) is above 50 and above both controls, CnTn (10.0) and CpTv "
                "(60.0); "
                f"the interval of CpTn (60.0) overlaps with the interval of CpTv (60.0). {DECIDE} "
                "By the drops alone the model does not pass."
            ),
        ),
        (  # one clear failure outweighs what is not decided
            rates(CpTn=(5.0, 4, 6), CnTp=(50.0, 20, 80), CnTn=(10.0, 9, 11), CpTv=(10.0, 9, 11)),
            (
                "Does not pass the test (§3.5): the drop of CpTn (5.0) is not above 50 and below CnTn (10.0) and CpTv "
                "(10.0); "
                f"the interval of CnTp (50.0) reaches below 50. {DECIDE}"
            ),
        ),
        (  # a pattern without triplets does not take part
            rates(CpTn=(None, None, None), CnTp=60.0, CnTn=1.0, CpTv=2.0),
            (
                "Passes the test (§3.5): the drop of CnTp (60.0) is above 50 and above both controls, CnTn (1.0) and "
                "CpTv (2.0)"
                f". {DECIDE}"
            ),
        ),
    ],
)
def test_the_verdict_names_what_supports_it(drops, expected):
    assert read(drops) == expected


@pytest.mark.parametrize("ends", [(None, None), (0.0, 100.0)], ids=["no interval", "one pair"])
def test_without_intervals_nothing_is_decided(ends):
    drops = {name: (drop, *ends) for name, drop in (("CpTn", 60.0), ("CnTp", 70.0), ("CnTn", 1.0), ("CpTv", 2.0))}
    assert read(rates(**drops)).startswith("Not decided")


@pytest.mark.parametrize("coreference", ["same-gender", "other-gender"])
def test_where_another_person_is_meant_there_is_no_verdict(coreference):
    said = read(paper_rates("roberta-large"), coreference=coreference)
    assert said.startswith(f"No verdict: the target sentence is about another person ({coreference})")
    assert "The forbidden pattern with the largest drop is CnTp (82.8, from 82.8 to 82.8)" in said
    assert "passes" not in said.lower()
    assert "\n" not in said
    empty = rates(CpTn=(None, None, None))
    assert read(empty, coreference=coreference).endswith("a drop is not a sign of understanding.")


@pytest.mark.parametrize(
    ("drops", "said"),
    [
        ({"f": 1.0, "a": 2.0}, f"The drop of f (1.0) is below a (2.0). {DECIDE}"),
        (
            {"f": (3.0, 1, 5), "a": 2.0},
            f"The interval of f (3.0) overlaps with the interval of a (2.0). {DECIDE}",
        ),
        (
            {"f": 9.0, "a": 1.0, "b": 2.0, "c": 3.0},
            f"The drop of f (9.0) is above all controls, a (1.0), b (2.0) and c (3.0). {DECIDE}",
        ),
    ],
)
def test_own_patterns_have_no_verdict(drops, said):
    patterns = pattern_set(**{name: Role.FORBIDDEN if name == "f" else Role.CONTROL for name in drops})
    assert read(rates(**drops), patterns) == f"No verdict: the test (§3.5) is defined for the paper's patterns. {said}"


@pytest.mark.parametrize("role", [Role.FORBIDDEN, Role.CONTROL])
def test_without_both_kinds_there_is_no_verdict(role):
    assert read(rates(a=1.0, b=2.0), pattern_set(a=role, b=role)).startswith("No verdict: the test (§3.5) compares")
