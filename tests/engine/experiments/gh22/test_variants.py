"""The patterns of the three variants, and what a pattern set must be like."""

from importlib.resources import files

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant

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


def test_a_pattern_without_its_partner_is_refused(tmp_path):
    text = (files("negengine.engine.text") / "resources/patterns/gh22.toml").read_text("utf-8")
    (tmp_path / "own.toml").write_text(text.replace('name = "3N"', 'name = "5N"'), "utf-8")
    with pytest.raises(InputError, match=r"own\.toml: pattern '3P': patterns come in pairs"):
        load_variant(Variant.ORIGINAL, tmp_path / "own.toml")
