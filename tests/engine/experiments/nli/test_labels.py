"""What labels are called, and by which labels a model and a data set can both be scored."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.nli.nli_pairs import THREE_WAY, TWO_WAY, Label, coarsen, common_scheme, map_head

E, C, N, NOT = Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL, Label.NOT_ENTAILMENT


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (("contradiction", "neutral", "entailment"), (C, N, E)),
        (("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), (C, N, E)),
        (("entailment", "not_entailment"), (E, NOT)),
        (("Not-Entailment", "Entailment"), (NOT, E)),
        (("not entailment", "entails"), (NOT, E)),
        (("e", "n", "c"), (E, N, C)),
    ],
)
def test_names_of_heads(names, labels):
    assert map_head(names, "model") == labels


@pytest.mark.parametrize(
    "names",
    [
        ("LABEL_0", "LABEL_1", "LABEL_2"),
        ("entailment", "neutral"),
        ("entailment", "entailment", "neutral"),
        ("entailment", "neutral", "contradiction", "not_entailment"),
        ("positive", "negative"),
    ],
)
def test_names_that_do_not_tell_are_refused_with_the_names_seen(names):
    with pytest.raises(InputError, match=r"model: its labels are ") as caught:
        map_head(names, "model")
    assert all(repr(name) in str(caught.value) for name in names)
    assert "--labels" in str(caught.value)


def test_labels_can_be_given():
    assert map_head(("LABEL_0", "LABEL_1", "LABEL_2"), "model", "contradiction, entailment,neutral") == (C, E, N)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("entailment,neutral", "2 labels, but model has 3"),
        ("entailment,neutral,maybe", r"give entailment, contradiction, neutral \(or entailment and not_entailment\)"),
        ("entailment,neutral,neutral", "each once"),
    ],
)
def test_given_labels_that_do_not_fit_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        map_head(("LABEL_0", "LABEL_1", "LABEL_2"), "model", given)


@pytest.mark.parametrize(
    ("head", "gold", "scheme"),
    [
        (THREE_WAY, THREE_WAY, THREE_WAY),
        (THREE_WAY, TWO_WAY, TWO_WAY),
        (TWO_WAY, THREE_WAY, TWO_WAY),
        (TWO_WAY, TWO_WAY, TWO_WAY),
    ],
)
def test_two_way_wherever_one_side_is(head, gold, scheme):
    assert common_scheme(head, gold) == scheme


def test_neutral_and_contradiction_are_not_entailment():
    assert [coarsen(label, TWO_WAY) for label in (E, N, C, NOT)] == [E, NOT, NOT, NOT]
    assert [coarsen(label, THREE_WAY) for label in (E, N, C)] == [E, N, C]
