"""Our copies of the other papers' figures beside the transcripts, and whose they are."""

import tomllib

import pytest
from negengine.engine.experiments.negation.negation_tables import published as published_test
from negengine.engine.experiments.published import CELL, paper_of
from negengine.engine.text.pattern_files import load_patterns

CORPORA = {"Google-RE": "GoogleRE", "T-REx": "TREx", "ConceptNet": "ConceptNet", "SQuAD": "SQuAD"}
SPLITS = {"Total": "all", "birth-place": "place_of_birth", "birth-date": "date_of_birth"}
SPLITS |= {"death-place": "place_of_death"}
PATTERNS = load_patterns()
COLUMNS = {"same-name": "coref", "same-gender": "noncoref_same_gender", "other-gender": "noncoref_other_gender"}


@pytest.fixture
def transcript(shared):
    def read(name):
        return tomllib.loads((shared / f"data/published/{name}.toml").read_text("utf-8"))

    return read


def figures(experiment, model):
    """Cell of the summary → percent, as `paper_of` has it."""
    found = paper_of(experiment, model).figures
    return {row[:4]: pytest.approx(100 * row[4]) for row in found.select(*CELL, "published").iter_rows()}


def test_our_copy_of_table_1_of_negated_lama_is_the_transcript(transcript):
    rows = transcript("negated-lama")["table_1"]["rows"]
    names = {"spearman": "spearman_x100", "overlap@1": "overlap_percent"}
    cells = [(CORPORA[row["corpus"]], SPLITS.get(row["relation_group"], row["relation_group"]), row) for row in rows]
    for model in ("bert_base", "bert_large"):
        assert figures("lama", f"{model.replace('_', '-')}-cased") == {
            (corpus, "original", split, metric): row[name][model]
            for corpus, split, row in cells
            for metric, name in names.items()
        }


def test_our_copy_of_table_2_of_the_replication_is_the_transcript(transcript):
    assert figures("gh22", "roberta") == figures("gh22", "someone/roberta-large") == {}
    rows = transcript("self-contained-negation-test")["table_2"]["rows"]
    for model in ("roberta-large", "bert-large-cased"):
        rates = {f"{row['pattern']}{row['polarity']}@1": row["repetition_percent"][model] for row in rows}
        cells = {("GH22", "original", split, "repetition_rate"): rate for split, rate in rates.items()}
        assert figures("gh22", model) == cells


def test_our_copy_of_tables_5_to_9_of_the_negation_test_is_the_transcript(transcript):
    found, millions = transcript("self-contained-negation-test"), 1_000_000
    table = found["table_5"]
    for model in ("bert-base-cased", "bert-large-cased", "roberta-base", "roberta-large"):
        own = published_test(model, PATTERNS)
        assert own.selection == {
            "verbs": table["row_1_available_verbs_count"][model],
            "pairs": table["row_2_available_name_prof_pairs_count"][model],
            "tested": table["row_3_tested_triplets_millions"][model] * millions,
            "repeating": table["row_4_triplets_with_act_repetition_millions"][model] * millions,
            "ratio": table["row_5_repetition_ratio_percent"][model],
            "selected": table["row_6_selected_triplets_count"][model],
        }
        pronoun = own.coreference["pronoun"]
        assert pronoun.drops == {pattern.name: found["table_6"][pattern.name][model] for pattern in PATTERNS.scored}
        assert pronoun.triplets == own.selection["selected"]
    for theirs in (found[f"table_{name}"] for name in ("8a", "8b", "9a", "9b")):
        thousands = theirs["triplets_thousands"]
        for coreference, column in COLUMNS.items():
            own = published_test(theirs["model"], PATTERNS).coreference[coreference]
            assert own.drops == {pattern: drops[column] for pattern, drops in theirs["drop_points"].items()}
            assert own.triplets == (round(thousands[column] * 1000) if column in thousands else None)
    assert published_test("FacebookAI/roberta-base", PATTERNS).model == "roberta-base"
    assert published_test("bert-base-uncased", PATTERNS) is published_test("roberta", PATTERNS) is None
