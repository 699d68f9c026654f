"""The patterns of the three variants, and what a pattern set must be like."""

from importlib.resources import files

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.gh22.gh22_patterns import Variant, load_variant

P, N = "who tries to {} as often as possible.", "who doesn't like to {}."
TARGETS = {
    "1": "{PRON} likes to {MASK}.",
    "2": "{PRON} does like to {MASK}.",
    "3": "{PRON} really likes to {MASK}.",
    "4": "{PRON} really does like to {MASK}.",
}
VERBS = {Variant.COORDINATED: "{ACT}, {ACT1} or {ACT2}"}
CONNECTIVES = {Variant.CONNECTIVE: {"P": "So, ", "N": "However, "}}


@pytest.mark.parametrize("variant", Variant)
def test_the_eight_patterns_of_each_variant(variant):
    patterns = load_variant(variant)
    wanted = {
        f"{number}{polarity}": (
            "{NAME} is {PROF} " + context.format(VERBS.get(variant, "{ACT}")),
            CONNECTIVES.get(variant, {}).get(polarity, "") + target,
        )
        for number, target in TARGETS.items()
        for polarity, context in (("P", P), ("N", N))
    }
    assert {pattern.name: (pattern.context, pattern.target) for pattern in patterns.scored} == wanted
    assert patterns.selecting.sentence == "{NAME} is {PROF} and {PRON} likes to {MASK}"


def test_a_pattern_without_its_partner_is_refused(tmp_path):
    text = (files("negengine.engine.text") / "resources/patterns/gh22.toml").read_text("utf-8")
    (tmp_path / "own.toml").write_text(text.replace('name = "3N"', 'name = "5N"'), "utf-8")
    with pytest.raises(InputError, match=r"own\.toml: pattern '3P': patterns come in pairs"):
        load_variant(Variant.ORIGINAL, tmp_path / "own.toml")
