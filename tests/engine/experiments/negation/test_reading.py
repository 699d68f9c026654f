"""What a run means in one line: the verdict where the paper has one, and what supports it."""

import polars as pl
import pytest
from negengine.engine.experiments.negation.negation_tables import published
from negengine.engine.experiments.negation.reading import reading
from negengine.engine.text.pattern import Pattern, PatternSet, Role
from negengine.engine.text.pattern_files import load_patterns

PATTERNS = load_patterns()
APART = "the 95 % intervals with pairs and verbs as clusters do not overlap."
ONE = "Not decided (§3.5): the 95 % interval with pairs and verbs as clusters of"
OWN = "No verdict: the test (§3.5) is defined for the paper's patterns. The"
FAILS, PASSES = "Does not pass the test (§3.5): the drop of", "Passes the test (§3.5): the drop"
CONTROLS = "CnTn (5.0) and CpTv (8.0)"
BY_DROPS = "By the drops alone the model"
LACKING = "No verdict: the test (§3.5) compares forbidden patterns with controls, and this run does not have both."


def read(drops, patterns: PatternSet = PATTERNS, coreference: str = "pronoun") -> str:
    """From the drop of each pattern, or drop, low and high; intervals are narrow unless given."""
    given = {name: own if isinstance(own, tuple) else (own, own - 0.01, own + 0.01) for name, own in drops.items()}
    columns = dict.fromkeys(("drop", "drop_low_two_way", "drop_high_two_way"), pl.Float64)
    rows = [(name, *figures) for name, figures in given.items()]
    return reading(pl.DataFrame(rows, schema={"pattern": pl.String, **columns}, orient="row"), patterns, coreference)


def paper(model: str) -> dict:
    return {"CpTp": (0.0, None, None), **published(model, PATTERNS).coreference["pronoun"].drops}


def own_patterns(**roles: Role) -> PatternSet:
    patterns = [Pattern(name, "{MASK}", role=role) for name, role in roles.items()]
    return PatternSet("mine", Pattern("s", "{MASK}", role=Role.SELECTING), tuple(patterns))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("bert-base-cased", "Does not pass"),
        ("bert-large-cased", f"{FAILS} CnTp (16.5) is below CpTv (42.9); {APART}"),
        ("roberta-base", "Passes"),  # by little: CpTn 27.7, CpTv 23.3
        ("roberta-large", f"{PASSES}s of CpTn (64.7) and CnTp (82.8) are above both controls, CnTn (43.5) and CpTv"),
    ],
)
def test_the_papers_models_are_read_by_their_numbers(model, expected):
    """In any order, and the same where the target has the name again."""
    drops = paper(model)
    found = read(drops)
    assert found.startswith(expected)
    assert found == read(drops, coreference="same-name") == read(dict(reversed(drops.items())))


@pytest.mark.parametrize(
    ("drops", "expected"),
    [
        (
            {"CpTn": 1.0, "CnTp": 7.0, "CnTn": 5.0, "CpTv": 8.0},
            f"{FAILS} CpTn (1.0) is below {CONTROLS}; the drop of CnTp (7.0) is below CpTv (8.0); {APART}",
        ),
        (
            {"CpTn": (30.0, 25, 35), "CnTp": (50.0, 49, 51), "CnTn": (10.0, 9, 11), "CpTv": (28.0, 23, 33)},
            f"{ONE} CpTn (30.0) overlaps with the interval of CpTv (28.0). {BY_DROPS} passes.",
        ),
        (
            {"CpTn": (9.0, 0, 80), "CnTp": (80.0, 79, 81), "CnTn": 1.0, "CpTv": (70.0, 60, 80)},
            (
                f"{ONE} CpTn (9.0) overlaps with the intervals of CnTn (1.0) and CpTv (70.0); the interval of CnTp "
                f"(80.0) overlaps with the interval of CpTv (70.0). {BY_DROPS} does not pass."
            ),
        ),
        (  # equal drops are not above one another
            {"CpTn": (30.0, 29, 31), "CnTp": (50.0, 49, 51), "CnTn": (10.0, 9, 11), "CpTv": (30.0, 29, 31)},
            f"{ONE} CpTn (30.0) overlaps with the interval of CpTv (30.0). {BY_DROPS} does not pass.",
        ),
        (  # one clear failure outweighs an overlap
            {"CpTn": (5.0, 4, 6), "CnTp": (50.0, 20, 80), "CnTn": (10.0, 9, 11), "CpTv": (30.0, 25, 35)},
            f"{FAILS} CpTn (5.0) is below CnTn (10.0) and CpTv (30.0); {APART}",
        ),
        (  # a pattern without triplets does not take part
            {"CpTn": (None, None, None), "CnTp": 50.0, "CnTn": 1.0, "CpTv": 2.0},
            f"{PASSES} of CnTp (50.0) is above both controls, CnTn (1.0) and CpTv (2.0); {APART}",
        ),
        (  # an interval that is missing tells nothing
            {"CpTn": (30.0, None, None), "CnTp": 50.0, "CnTn": 1.0, "CpTv": 2.0},
            f"{ONE} CpTn (30.0) overlaps with the intervals of CnTn (1.0) and CpTv (2.0). {BY_DROPS} passes.",
        ),
    ],
)
def test_the_verdict_names_what_supports_it(drops, expected):
    assert read(drops) == expected


@pytest.mark.parametrize("coreference", ["same-gender", "other-gender"])
def test_where_another_person_is_meant_there_is_no_verdict(coreference):
    said = (
        f"No verdict: the target sentence is about another person ({coreference}), so that a repetition stays natural "
        "and a drop is not a sign of understanding."
    )
    assert read({"CpTn": (None, None, None)}, coreference=coreference) == said
    assert read(paper("roberta-large"), coreference=coreference) == (
        f"{said} The forbidden pattern with the largest drop is CnTp (82.8, from 82.8 to 82.8); `negengine compare` "
        "shows it next to a run about the same person."
    )


@pytest.mark.parametrize(
    ("drops", "said"),
    [
        ({"f": 1.0, "a": 2.0}, f"{OWN} drop of f (1.0) is below a (2.0); {APART}"),
        (
            {"f": (3.0, 1, 5), "a": 2.0},
            f"{OWN} 95 % interval with pairs and verbs as clusters of f (3.0) overlaps with the interval of a (2.0).",
        ),
        (
            {"f": 9.0, "a": 1.0, "b": 2.0, "c": 3.0},
            f"{OWN} drop of f (9.0) is above all controls, a (1.0), b (2.0) and c (3.0); {APART}",
        ),
        ({"f": 1.0}, LACKING),
        ({"a": 1.0}, LACKING),
    ],
)
def test_own_patterns_have_no_verdict(drops, said):
    patterns = own_patterns(**{name: Role.FORBIDDEN if name == "f" else Role.CONTROL for name in drops})
    assert read(drops, patterns) == said
