"""`ng.lama`: its sentences, what it excludes and refuses, comparisons, methods, and what `verify` finds."""

import json
from pathlib import Path

import negengine as ng
import polars as pl
import pytest
from lies import changed, copy_without_parts, damage, lie
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.lama.lama import Lama
from negengine.engine.results.comparison.compare import compare
from negengine.engine.results.comparison.groups import by_group
from negengine.engine.results.report.citation import cite
from negengine.engine.results.report.reproduction import reproduce
from pages import drawn_figures

lama = Lama.function()
COLUMNS = ["item", "condition", "sentence", "expected", "answer", "correct", "failed", "rank", "logprob"]
FACTS = [("paris", "France"), ("rome", "Italy"), ("london", "England"), ("unspeakableness", "Denmark")]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "TREx.jsonl"
    rows = []
    for answer, land in FACTS:
        query = f"The capital of {land} is [MASK] ."
        row = {"relation": "P36", "sub_label": land, "obj_label": answer, "masked_sentence": query}
        row |= {} if land == "Italy" else {"masked_negation": query.replace("is", "is not")}
        rows.append(row | {"misprimed_low": f"Berlin? {query}"})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


@pytest.fixture(scope="module")
def run(mini, data, tmp_path_factory):
    return lama(mini.folder, data=data, output=tmp_path_factory.mktemp("runs") / "run", progress=False)


def test_all_sentences_are_those_that_the_model_judged(mini, mini_tokenizer, data, seen_ids, tmp_path):
    """A query has its gold answer, and a negation none."""
    run = lama(mini.folder, data=data, output=tmp_path / "run", progress=False)
    items, rows = run.items, run.sentences()
    assert {tuple(ids.tolist()) for ids in mini_tokenizer.encode(rows["sentence"].to_list())} == seen_ids
    assert rows.columns[: len(COLUMNS)] == COLUMNS
    assert rows["condition"].to_list() == ["original"] * 3 + ["negated"] * 2 + ["misprimed-low"] * 3
    affirmative, negated = rows.filter(pl.col("condition") != "negated"), rows.filter(condition="negated")
    assert affirmative["expected"].to_list() == items["gold"].to_list() == ["paris", "rome", "london"] * 2
    assert affirmative["answer"].to_list() == items["top1"].to_list()
    assert affirmative["failed"].to_list() == (~items["precision@1"]).to_list()
    asked = items.filter(pl.col("negated_query").is_not_null())
    assert negated["answer"].to_list() == asked["negated_top1"].to_list()
    assert negated["failed"].to_list() == asked["overlap@1"].to_list()
    assert negated.select("expected", "correct", "rank", "logprob").null_count().row(0) == (2,) * 4


def test_wrong_options_are_one_line(mini, data, tmp_path):
    for message, options in {
        "--corpus Wikipedia: give GoogleRE, TREx": {"corpus": "Wikipedia"},
        "--vocabulary nouns: not all, not words, and not a file": {"vocabulary": "nouns"},
        "nowhere: ": {"data": "nowhere"},
        "--precision mixed: lama reports ranks and probabilities": {"precision": "mixed"},
    }.items():
        model = ng.load(mini.folder, precision=options.pop("precision", "auto"))
        with pytest.raises(InputError, match=message):
            lama(model, **{"data": data, "output": tmp_path / "run", **options})
    assert not (tmp_path / "run").exists()


def test_a_run_is_told_cited_drawn_compared_and_made_again(run, tmp_path):
    (text,) = cite(run).methods
    (precision,) = run.summary.filter(condition="original", split="all", metric="precision@1")["value"]
    assert "(Kassner and Schütze, 2020)" in text
    assert "ranked all tokens" in text
    assert f"Precision at rank 1: TREx {precision:.2f}" in text
    assert run.remarks() == ["facts excluded: 1 (the answer is not one token of the model)"]
    assert set(drawn_figures(run)) == {"correlation", "overlap", "precision"}
    again = reproduce(run.folder, tmp_path / "again", progress=False)
    assert again.is_same
    frame = compare(run, ng.open(tmp_path / "again")).frame
    assert set(frame["metric"]) == {"spearman", "overlap@1", "precision@1", "precision@5", "precision@10"}
    assert frame["difference"].to_list() == [0] * len(frame)
    groups = by_group(run, by="relation").frame.filter(metric="precision@1", condition="original")
    rate = run.items.filter(condition="original")["precision@1"].mean()
    assert groups.select("relation", "value").rows() == [("P36", pytest.approx(100 * rate))]


def test_every_sentence_and_correlation_is_that_of_the_reference_model_with_each_vocabulary(mini, data, run, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("paris\nrome\nlondon\nwater\nfire\n")
    for vocabulary in ("all", "words", str(words)):
        output = tmp_path / f"run of {Path(vocabulary).name}"
        found = lama(mini.folder, data=data, vocabulary=vocabulary, output=output, progress=False)
        if vocabulary != "all":
            with pytest.raises(InputError, match="cannot be compared: vocabulary all, there"):
                compare(run, found)
        verified = ng.verify(found, sample=100)
        assert not verified.damage
        assert {check.what: check.n for check in verified.checks if "again by" in check.what} == {
            "items decided again by the reference model": len(found.sentences()),
            "correlations decided again by the reference model": found.items["spearman"].count(),
        }


LIES = {
    "precision@5": (False, "precision@5 follows from the ranks and the first choices"),
    "gold_logprob": (1.0, "log-probabilities are at most 0, and the answer's is that of the first choice where its"),
    "top2_logprob": (0.0, "top1_logprob is not below top2_logprob"),
    "spearman": (1.5, "correlations are between -1 and 1"),
}


def test_lies_about_an_item_are_found(run, tmp_path):
    """By plain recounts; a correlation that could be one, by the model."""
    folder = copy_without_parts(run.folder, tmp_path / "run")
    items = pl.read_parquet(folder / "items.parquet")
    for column, (value, what) in LIES.items():
        wrong = not items[column][0] if value is False else value
        lie(folder, "lama", "items.parquet", changed(items, 0, **{column: wrong}))
        assert any(found.startswith(what) for found in damage(ng.verify(folder, sample=0))), column
    lie(folder, "lama", "items.parquet", changed(items, 0, spearman=items["spearman"][0] - 0.01))
    found = damage(ng.verify(folder, sample=100))
    assert "correlations decided again by the reference model" in found
    assert "tables follow from items.parquet" in found
