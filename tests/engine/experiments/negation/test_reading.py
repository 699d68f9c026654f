"""What a run means in one line: the verdict where the paper has one, and what supports it."""

import polars as pl
import pytest
from negengine.engine.experiments.negation.negation_tables import published
from negengine.engine.experiments.negation.reading import reading
from negengine.engine.text.pattern import Pattern, PatternSet, Role
from negengine.engine.text.pattern_files import load_patterns

PATTERNS, NONE = load_patterns(), (None, None)
DECIDE = "The 95 % intervals with pairs and verbs as clusters decide."


def rates(**drops):
    """A rates table with the drops given, or drop, low and high; intervals are narrow unless given."""
    given = (own if isinstance(own, tuple) else (own, own - 0.01, own + 0.01) for own in drops.values())
    rows = [(name, *figures) for name, figures in zip(drops, given, strict=True)]
    figures = dict.fromkeys(("drop", "drop_low_two_way", "drop_high_two_way"), pl.Float64)
    return pl.DataFrame(rows, schema={"pattern": pl.String, **figures}, orient="row")


def paper_rates(model):
    return rates(CpTp=(0.0, None, None), **published(model, PATTERNS).coreference["pronoun"].drops)


def read(drops, patterns=PATTERNS, coreference="pronoun"):
    """With a short form for where the paper says it."""
    return reading(drops, patterns, coreference).replace("(Kletz et al. 2023, section 3.5)", "(§3.5)")


def pattern_set(**roles):
    patterns = [Pattern(name, "{MASK}", role=role) for name, role in roles.items()]
    return PatternSet("mine", Pattern("s", "{MASK}", role=Role.SELECTING), tuple(patterns))


SAID = {
    "bert-base-cased": "Does not pass the test (§3.5): the drop of CpTn (3.6) is not above 50 and below CpTv (25.5); "
    f"the drop of CnTp (1.2) is not above 50 and below CnTn (1.5) and CpTv (25.5). {DECIDE}",
    "bert-large-cased": "Does not pass the test (§3.5): the drop of CpTn (44.7) is not above 50; "
    f"the drop of CnTp (16.5) is not above 50 and below CpTv (42.9). {DECIDE}",
    "roberta-base": "Passes the test in part (§3.5): the drop of CnTp (66.9) is above 50 and above both controls, "
    f"CnTn (12.1) and CpTv (23.3); the drop of CpTn (27.7) is not above 50. {DECIDE}",
    "roberta-large": "Passes the test (§3.5): the drops of CpTn (64.7) and CnTp (82.8) are above 50 and above both "
    f"controls, CnTn (43.5) and CpTv (26.0). {DECIDE}",
}


@pytest.mark.parametrize("model", SAID)
def test_the_papers_models_get_the_papers_verdicts(model):
    """Section 3.5: bert-base-cased "fails the test completely", bert-large-cased's control is "still too high", of
    roberta-base "only the [CnTp] drop is significant", roberta-large has "the most robust understanding"."""
    assert read(paper_rates(model)) == read(paper_rates(model).reverse()) == SAID[model]
    assert read(paper_rates(model), coreference="same-name").startswith(SAID[model].partition(":")[0])


@pytest.mark.parametrize(
    ("drops", "verdict", "why"),
    [
        (  # far above the controls, and nearly nothing
            rates(CpTn=(3.0, 2.5, 3.5), CnTp=(3.2, 2.7, 3.7), CnTn=(0.5, 0.0, 1.0), CpTv=(0.6, 0.1, 1.1)),
            "Does not pass",
            f"the drop of CpTn (3.0) is not above 50; the drop of CnTp (3.2) is not above 50. {DECIDE}",
        ),
        (
            rates(CpTn=(60.0, 55, 65), CnTp=(70.0, 69, 71), CnTn=(10.0, 9, 11), CpTv=(58.0, 53, 63)),
            "Not decided",
            f"with the interval of CpTv (58.0). {DECIDE} By the drops alone the model passes.",
        ),
        (
            rates(CpTn=(0.0, 0, 80), CnTp=(51.0, 0, 80), CnTn=(0.0, 0, 80), CpTv=(0.0, 0, 80)),
            "Not decided",
            f"with the intervals of CnTn (0.0) and CpTv (0.0). {DECIDE} By the drops alone the model does not pass.",
        ),
        (  # one clear failure outweighs what is not decided
            rates(CpTn=(5.0, 4, 6), CnTp=(50.0, 20, 80), CnTn=(10.0, 9, 11), CpTv=(10.0, 9, 11)),
            "Does not pass",
            f"and below CnTn (10.0) and CpTv (10.0); the interval of CnTp (50.0) reaches below 50. {DECIDE}",
        ),
        (  # a pattern without triplets does not take part
            rates(CpTn=(None, *NONE), CnTp=60.0, CnTn=1.0, CpTv=2.0),
            "Passes",
            f"the drop of CnTp (60.0) is above 50 and above both controls, CnTn (1.0) and CpTv (2.0). {DECIDE}",
        ),
        (  # without intervals
            rates(CpTn=(60.0, *NONE), CnTp=(70.0, *NONE), CnTn=(1.0, *NONE), CpTv=(2.0, *NONE)),
            "Not decided",
            "",
        ),
    ],
)
def test_the_verdict_names_what_supports_it(drops, verdict, why):
    said = read(drops)
    assert said.startswith(verdict)
    assert said.endswith(why)


def test_where_another_person_is_meant_or_a_kind_of_pattern_is_missing_there_is_no_verdict():
    for coreference in ("same-gender", "other-gender"):
        said = read(paper_rates("roberta-large"), coreference=coreference)
        assert said.startswith(f"No verdict: the target sentence is about another person ({coreference})")
        assert "The forbidden pattern with the largest drop is CnTp (82.8, from 82.8 to 82.8)" in said
        assert "passes" not in said.lower()
        empty = rates(CpTn=(None, None, None))
        assert read(empty, coreference=coreference).endswith("a drop is not a sign of understanding.")
    for role in (Role.FORBIDDEN, Role.CONTROL):
        said = read(rates(a=1.0, b=2.0), pattern_set(a=role, b=role))
        assert said.startswith("No verdict: the test (§3.5) compares")


@pytest.mark.parametrize(
    ("drops", "said"),
    [
        ({"f": 1.0, "a": 2.0}, "The drop of f (1.0) is below a (2.0)."),
        ({"f": (3.0, 1, 5), "a": 2.0}, "The interval of f (3.0) overlaps with the interval of a (2.0)."),
        ({"f": 9, "a": 1, "b": 2, "c": 3}, "The drop of f (9.0) is above all controls, a (1.0), b (2.0) and c (3.0)."),
    ],
)
def test_own_patterns_have_no_verdict(drops, said):
    patterns = pattern_set(**{name: Role.FORBIDDEN if name == "f" else Role.CONTROL for name in drops})
    begin = "No verdict: the test (§3.5) is defined for the paper's patterns."
    assert read(rates(**drops), patterns) == f"{begin} {said} {DECIDE}"
