"""The patterns of the three variants are those of the papers."""

import pytest

from .conftest import VARIANTS

TARGETS = ["likes to", "does like to", "really likes to", "really does like to"]


@pytest.mark.parametrize(
    ("variant", "acts", "connectives"),
    [
        ("original", "{ACT}", {"P": "", "N": ""}),
        ("connective", "{ACT}", {"P": "So, ", "N": "However, "}),
        ("coordinated", "{ACT}, {ACT1} or {ACT2}", {"P": "", "N": ""}),
    ],
)
def test_the_eight_patterns_of_each_variant(variant, acts, connectives):
    contexts = {"P": f"who tries to {acts} as often as possible.", "N": f"who doesn't like to {acts}."}
    assert {pattern.name: pattern.sentence for pattern in VARIANTS[variant].scored} == {
        f"{number}{end}": f"{{NAME}} is {{PROF}} {context} {connectives[end]}{{PRON}} {target} {{MASK}}."
        for number, target in enumerate(TARGETS, 1)
        for end, context in contexts.items()
    }
    assert VARIANTS[variant].selecting.sentence == "{NAME} is {PROF} and {PRON} likes to {MASK}"
