"""The classifier's judgements against transformers, pair by pair; the same however the run is cut or interrupted."""

from collections import Counter

import pytest
import torch
from asked_stages import cell
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_words import has_cue
from negengine.engine.experiments.nli.nli_judgements import PAPER_LENGTH, Judgements
from negengine.engine.experiments.nli.nli_pairs import THREE_WAY, read_benchmark
from negengine.engine.runs.loop import run_stage
from negengine.engine.runs.merge import merge
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from .conftest import HEADER, LONGEST, execution, judgements, results

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def slow_rows(classifier, data):
    """Every pair through transformers, one at a time.

    Source, condition, kind, item, negation, gold, label, truncated; and apart the probability of the label.
    """
    tokenizer = AutoTokenizer.from_pretrained(classifier[0])
    model = BertForSequenceClassification.from_pretrained(classifier[0]).eval()
    files = [("RTE", "original", "dev.tsv"), ("RTE", "new", "RTE.txt"), ("SNLI", "new", "SNLI.txt")]
    rows, probabilities = [], []
    for source, condition, name in files:
        for line in (data / name).read_text("cp1252").strip().split("\n")[1:]:
            index, text, hypothesis, gold = line.split("\t")
            whole = tokenizer(text, hypothesis)["input_ids"]
            cut = tokenizer(text, hypothesis, truncation="longest_first", max_length=LONGEST, return_tensors="pt")
            with torch.inference_mode():
                chances = model(**cut).logits.softmax(-1)[0]
            label = model.config.id2label[int(chances.argmax())]
            kind = ("Tneg-H", "T-Hneg", "Tneg-Hneg")[int(index) % 3] if condition == "new" else ""
            negation = has_cue(text) or has_cue(hypothesis)
            rows.append((source, condition, kind, int(index), negation, gold, label, len(whole) > LONGEST))
            probabilities.append(chances.max().item())
    return rows, probabilities


def slow_correct(source, gold, label, checkpoint):
    two_way = source == "RTE" or BertConfig.from_pretrained(checkpoint).num_labels == 2
    if two_way:
        return (gold == "entailment") == (label == "entailment")
    return gold == label


def test_items_equal_a_slow_reference(slow_rows, finished):
    items, (rows, probabilities) = finished.items, slow_rows
    found = items.select("dataset", "condition", "split", "item", "negation", "gold", "predicted", "truncated").rows()
    assert found == rows
    assert items["probability"].to_list() == pytest.approx(probabilities, abs=1e-5)
    assert 0 < items["truncated"].sum() < len(items)
    assert items["predicted"].n_unique() > 1


def test_accuracies_majorities_and_drops_equal_a_slow_reference(classifier, slow_rows, finished):
    rows, _ = slow_rows
    summary = finished.summary

    def outcomes(source, condition, split):
        own = [
            r
            for r in rows
            if r[:2] == (source, condition) and (split in {r[2], "all"} or (split == "negation" and r[4]))
        ]
        golds = [r[5] for r in own]
        if source != "RTE" and BertConfig.from_pretrained(classifier[0]).num_labels == 2:
            golds = ["entailment" if gold == "entailment" else "not" for gold in golds]
        correct = [slow_correct(source, r[5], r[6], classifier[0]) for r in own]
        return len(own), sum(correct) / len(own), max(Counter(golds).values()) / len(own)

    for source, condition, splits in (
        ("RTE", "original", ("all", "negation")),
        ("RTE", "new", ("Tneg-H", "T-Hneg", "Tneg-Hneg", "all")),
        ("SNLI", "new", ("Tneg-H", "T-Hneg", "Tneg-Hneg", "all")),
    ):
        for split in splits:
            n, accuracy, majority = outcomes(source, condition, split)
            row = cell(summary, source, condition, split, "accuracy")
            assert (row["n"], row["value"]) == (n, pytest.approx(accuracy))
            assert row["low"] < row["value"] < row["high"]
            assert cell(summary, source, condition, split, "majority")["value"] == pytest.approx(majority)
    before, after = outcomes("RTE", "original", "all")[1], outcomes("RTE", "new", "T-Hneg")[1]
    assert cell(summary, "RTE", "new", "T-Hneg", "drop")["value"] == pytest.approx(before - after)
    assert cell(summary, "RTE", "new", "T-Hneg", "relative_drop")["value"] == pytest.approx(1 - after / before)
    with_cue = outcomes("RTE", "original", "negation")[1]
    assert cell(summary, "RTE", "new", "all", "drop_from_negation")["value"] == pytest.approx(
        with_cue - outcomes("RTE", "new", "all")[1]
    )


def test_shards_are_merged_to_the_same_bytes(classifiers, data, runs, tmp_path):
    stage, shards = judgements(classifiers["three-way"][1], data), [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(shards, 1):
        run_stage(stage, folder, execution(shard=f"{number}/2"))
    assert merge(shards, tmp_path / "whole", {"nli": Judgements.publish}) == "nli"
    assert results(tmp_path / "whole") == results(runs["three-way"].folder)


def test_a_sentence_with_padding_is_refused_with_file_and_line_before_a_model_is_opened(classifiers, tmp_path):
    (tmp_path / "RTE.txt").write_text(HEADER + "0\tthe man\tthe [PAD] man\tentailment\r\n")
    stage = Judgements.plan(classifiers["three-way"][1], THREE_WAY, [read_benchmark(tmp_path / "RTE.txt", "RTE")])
    with pytest.raises(InputError, match=r"RTE\.txt:2: contains the padding token"):
        stage.check(lambda _: None)


def test_the_paper_cuts_at_128_tokens_and_a_shorter_model_at_its_own_length(classifiers):
    exported = classifiers["three-way"][1]
    assert Judgements.plan(exported, THREE_WAY, []).max_length == 40
    assert PAPER_LENGTH == 128
    for length in (4, 41):
        with pytest.raises(InputError, match=f"--max-length {length}: .* takes 5 to 40 tokens a pair"):
            Judgements.plan(exported, THREE_WAY, [], max_length=length)
