"""What labels are called, by which a model and a data set can both be scored, and how a classifier was trained."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.nli.nli_items import training_told
from negengine.engine.experiments.nli.nli_pairs import THREE_WAY, TWO_WAY, Label, coarsen, common_scheme, map_head

E, C, N, NOT = Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL, Label.NOT_ENTAILMENT
UNNAMED = ("LABEL_0", "LABEL_1", "LABEL_2")


@pytest.mark.parametrize(
    ("names", "given", "found"),
    [
        (("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), None, (C, N, E)),
        (("Not-Entailment", "Entailment"), None, (NOT, E)),
        (("not entailment", "entails"), None, (NOT, E)),
        (("e", "n", "c"), None, (E, N, C)),
        (UNNAMED, "contradiction, entailment,neutral", (C, E, N)),
        (UNNAMED, None, "model: its labels are 'LABEL_0', 'LABEL_1', 'LABEL_2'.*--labels"),
        (("entailment", "neutral"), None, "model: its labels are 'entailment', 'neutral'.*--labels"),
        (("entailment", "entailment", "neutral"), None, "model: its labels are .*--labels"),
        (UNNAMED, "entailment,neutral", "2 labels, but model has 3"),
        (UNNAMED, "entailment,neutral,maybe", r"give entailment, contradiction, neutral \(or entailment and not_ent"),
        (UNNAMED, "entailment,neutral,neutral", "each once"),
    ],
)
def test_names_of_heads_tell_the_labels_or_are_refused(names, given, found):
    if isinstance(found, tuple):
        assert map_head(names, "model", given) == found
    else:
        with pytest.raises(InputError, match=found):
            map_head(names, "model", given)


def test_two_way_wherever_one_side_is():
    assert common_scheme(THREE_WAY, THREE_WAY) == THREE_WAY
    for head, gold in ((THREE_WAY, TWO_WAY), (TWO_WAY, THREE_WAY), (TWO_WAY, TWO_WAY)):
        assert common_scheme(head, gold) == TWO_WAY
    assert [coarsen(label, TWO_WAY) for label in (E, N, C, NOT)] == [E, NOT, NOT, NOT]
    assert [coarsen(label, THREE_WAY) for label in (E, N, C)] == [E, N, C]


TRAINING = {
    "model": "bert-base-cased", "task": "RTE", "epochs": 50, "batch_size": 8, "learning_rate": 2e-5,
    "weight_decay": 0.0, "max_length": 128, "seed": 42,
}  # fmt: skip


def test_the_settings_of_the_training_are_told_as_far_as_they_are_known():
    assert training_told(TRAINING | {"limit": None}) == (
        "We fine-tuned bert-base-cased on the original training split of RTE (transformers' Trainer; 50 epochs, "
        "batches of 8, learning rate 2e-05, weight decay 0, at most 128 tokens, seed 42). "
    )
    said = training_told(TRAINING | {"limit": 1000, "negation": 0.7})
    assert "on 1,000 pairs of the original training split of RTE, with 70 % of the new pairs; the other" in said
    said = training_told(TRAINING | {"hub": {"repository": "nyu-mll/glue", "revision": "abc"}})
    assert "split of RTE (nyu-mll/glue on the hub, revision abc) (transformers' Trainer" in said
    for unknown in (None, {}, {"model": "m"}, "x", TRAINING | {"epochs": "many"}):
        assert training_told(unknown) == ""
