import tomllib
from pathlib import Path

import pytest
from negengine.engine.basics.choices import Coreference
from negengine.engine.experiments.negation.tables import published
from negengine.engine.text.pattern_files import load_patterns

MODELS = ["bert-base-cased", "bert-large-cased", "roberta-base", "roberta-large"]
PATTERNS = load_patterns()
TRANSCRIPT = Path(__file__).parents[5] / "shared" / "data" / "published" / "self-contained-negation-test.toml"


@pytest.fixture
def transcript():
    if not TRANSCRIPT.is_file():
        pytest.skip("no transcript of the paper's tables beside the repository")
    return tomllib.loads(TRANSCRIPT.read_text("utf-8"))


@pytest.mark.parametrize("model", MODELS)
def test_table_5(transcript, model):
    table = transcript["table_5"]
    assert published(model, PATTERNS).selection == {
        "verbs": table["row_1_available_verbs_count"][model],
        "pairs": table["row_2_available_name_prof_pairs_count"][model],
        "tested": table["row_3_tested_triplets_millions"][model] * 1_000_000,
        "repeating": table["row_4_triplets_with_act_repetition_millions"][model] * 1_000_000,
        "ratio": table["row_5_repetition_ratio_percent"][model],
        "selected": table["row_6_selected_triplets_count"][model],
    }


@pytest.mark.parametrize("model", MODELS)
def test_table_6(transcript, model):
    drops = {pattern: transcript["table_6"][pattern][model] for pattern in ("CpTn", "CnTp", "CnTn", "CpTv")}
    assert published(model, PATTERNS).coreference["pronoun"].drops == drops


COLUMNS = {"same-name": "coref", "same-gender": "noncoref_same_gender", "other-gender": "noncoref_other_gender"}


@pytest.mark.parametrize("table", ["table_8a", "table_8b", "table_9a", "table_9b"])
@pytest.mark.parametrize(("coreference", "column"), COLUMNS.items())
def test_tables_8_and_9(transcript, table, coreference, column):
    column_of_paper = {pattern: drops[column] for pattern, drops in transcript[table]["drop_points"].items()}
    assert published(transcript[table]["model"], PATTERNS).coreference[coreference].drops == column_of_paper


@pytest.mark.parametrize("table", ["table_8a", "table_8b", "table_9a", "table_9b"])
@pytest.mark.parametrize(("coreference", "column"), COLUMNS.items())
def test_triplets_of_tables_8_and_9(transcript, table, coreference, column):
    thousands = transcript[table]["triplets_thousands"].get(column)
    triplets = published(transcript[table]["model"], PATTERNS).coreference[coreference].triplets
    assert triplets == (None if thousands is None else round(thousands * 1000))


@pytest.mark.parametrize("model", MODELS)
def test_the_names_are_those_of_our_own_tables(model):
    ours = {pattern.name for pattern in load_patterns().scored}
    figures = published(model, PATTERNS).coreference
    assert set(figures) == set(Coreference)
    assert all(set(column.drops) == ours for column in figures.values())


@pytest.mark.parametrize("model", MODELS)
def test_the_base_test_has_the_selected_triplets(model):
    figures = published(model, PATTERNS)
    assert figures.coreference["pronoun"].triplets == figures.selection["selected"]


HUB_IDS = {"FacebookAI/roberta-base": "roberta-base", "google-bert/bert-large-cased": "bert-large-cased"}


@pytest.mark.parametrize(("name", "model"), HUB_IDS.items())
def test_a_model_is_known_by_its_hub_id(name, model):
    assert published(name, PATTERNS).model == model


@pytest.mark.parametrize("name", ["mini", "bert-base-uncased", "someone/roberta-base", "roberta"])
def test_other_models_have_no_figures(name):
    assert published(name, PATTERNS) is None
