"""Our copies of the other papers' figures beside the transcripts, and whose they are."""

import tomllib

import pytest
from negengine.engine.experiments.published import NEGATED_LAMA, WHAT_BERT_IS_NOT, column, published, trex_group

CORPORA = {"Google-RE": "GoogleRE", "T-REx": "TREx", "ConceptNet": "ConceptNet", "SQuAD": "SQuAD"}
SPLITS = {
    "birth-place": "place_of_birth",
    "birth-date": "date_of_birth",
    "death-place": "place_of_death",
    "Total": "all",
}


def test_our_copy_of_table_1_of_negated_lama_is_the_transcript(shared):
    transcript = tomllib.loads((shared / "data/published/negated-lama.toml").read_text("utf-8"))
    wanted = [
        {
            "corpus": CORPORA[row["corpus"]],
            "split": SPLITS.get(row["relation_group"], row["relation_group"]),
            "facts": row["facts_count"],
            **({"relations": row["relations_count"]} if "relations_count" in row else {}),
            **{
                model: {"spearman": row["spearman_x100"][model], "overlap": row["overlap_percent"][model]}
                for model in ("bert_base", "bert_large")
            },
        }
        for row in transcript["table_1"]["rows"]
    ]
    assert published(NEGATED_LAMA)["rows"] == wanted


def test_groups_of_trex_are_those_of_the_data(shared):
    """P27 has no row in the data; the paper counts one relation more than they have among N-M."""
    lines = (shared / "data/datasets/negated-lama/relations.tsv").read_text("utf-8").splitlines()[1:]
    wanted = {fields[1]: fields[3] for fields in (line.split("\t") for line in lines) if fields[0] == "TREx"}
    found = {relation: group for group, own in published(NEGATED_LAMA)["trex"].items() for relation in own}
    assert found == wanted | {"P27": "N-M"}
    sizes = {row["split"]: row["relations"] for row in published(NEGATED_LAMA)["rows"] if row["corpus"] == "TREx"}
    assert {group: len(own) for group, own in published(NEGATED_LAMA)["trex"].items()} == sizes


def test_only_relations_of_trex_have_a_group():
    assert trex_group("TREx", "P36") == ("1-1",)
    assert trex_group("TREx", "P0") == trex_group("GoogleRE", "P36") == ()


@pytest.mark.parametrize("paper", [NEGATED_LAMA, WHAT_BERT_IS_NOT])
def test_a_model_of_no_paper_has_no_column(paper):
    assert column(paper, "mini") is None
    assert column(paper, "bert-large-cased" if paper == NEGATED_LAMA else "bert-large-uncased") is not None
