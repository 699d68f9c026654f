"""The published figures that stand in the pattern files are those of the paper's Tables 5, 6, 8 and 9."""

import tomllib

import pytest
from negengine.engine.basics.choices import Coreference
from negengine.engine.experiments.negation.negation_tables import published
from negengine.engine.text.pattern_files import load_patterns

MODELS = ["bert-base-cased", "bert-large-cased", "roberta-base", "roberta-large"]
PATTERNS = load_patterns()
COLUMNS = {"same-name": "coref", "same-gender": "noncoref_same_gender", "other-gender": "noncoref_other_gender"}


@pytest.fixture
def transcript(shared):
    return tomllib.loads((shared / "data/published/self-contained-negation-test.toml").read_text("utf-8"))


@pytest.mark.parametrize("model", MODELS)
def test_tables_5_and_6(transcript, model):
    table, own = transcript["table_5"], published(model, PATTERNS)
    assert own.selection == {
        "verbs": table["row_1_available_verbs_count"][model],
        "pairs": table["row_2_available_name_prof_pairs_count"][model],
        "tested": table["row_3_tested_triplets_millions"][model] * 1_000_000,
        "repeating": table["row_4_triplets_with_act_repetition_millions"][model] * 1_000_000,
        "ratio": table["row_5_repetition_ratio_percent"][model],
        "selected": table["row_6_selected_triplets_count"][model],
    }
    pronoun = own.coreference["pronoun"]
    assert pronoun.drops == {pattern.name: transcript["table_6"][pattern.name][model] for pattern in PATTERNS.scored}
    assert pronoun.triplets == own.selection["selected"]
    assert set(own.coreference) == set(Coreference)


@pytest.mark.parametrize("table", ["table_8a", "table_8b", "table_9a", "table_9b"])
def test_tables_8_and_9(transcript, table):
    theirs = transcript[table]
    for coreference, column in COLUMNS.items():
        own, thousands = published(theirs["model"], PATTERNS).coreference[coreference], theirs["triplets_thousands"]
        assert own.drops == {pattern: drops[column] for pattern, drops in theirs["drop_points"].items()}
        assert own.triplets == (round(thousands[column] * 1000) if column in thousands else None)


def test_a_model_is_known_by_its_hub_id_and_no_other_has_figures():
    for name, model in {"FacebookAI/roberta-base": MODELS[2], "google-bert/bert-large-cased": MODELS[1]}.items():
        assert published(name, PATTERNS).model == model
    for name in ("mini", "bert-base-uncased", "someone/roberta-base", "roberta"):
        assert published(name, PATTERNS) is None
