"""The classifier's judgements against transformers, pair by pair, and what is refused before a model is opened."""

import pytest
import torch
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.cues.cue_words import has_cue
from negengine.engine.experiments.nli.nli_judgements import PAPER_LENGTH, Judgements
from negengine.engine.experiments.nli.nli_pairs import KINDS, THREE_WAY, read_benchmark
from transformers import AutoTokenizer, BertForSequenceClassification

from .conftest import HEADER, LONGEST

pytestmark = pytest.mark.usefixtures("one_thread")


def test_items_equal_a_slow_reference(classifier, head, data, finished):
    """Every pair through transformers, one at a time."""
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
            two_way = source == "RTE" or head == "two-way"
            scored = [one if one == "entailment" or not two_way else "not_entailment" for one in (gold, label)]
            kind = KINDS[int(index) % 3] if condition == "new" else ""
            negation = has_cue(text) or has_cue(hypothesis)
            given = (gold, label, *scored, scored[0] == scored[1])
            rows.append((source, condition, kind, int(index), negation, *given, len(whole) > LONGEST))
            probabilities.append(chances.max().item())
    items = finished.items
    columns = ["dataset", "condition", "split", "item", "negation"]
    columns += ["gold", "predicted", "expected", "answer", "correct", "truncated"]
    assert items.select(columns).rows() == rows
    assert items["probability"].to_list() == pytest.approx(probabilities, abs=5e-5)
    assert 0 < items["truncated"].sum() < len(items)
    assert items["predicted"].n_unique() > 1


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
