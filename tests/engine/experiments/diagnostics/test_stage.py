"""The diagnostics against a slow reference (PyTorch, one text at a time, words as strings) and hand-made logits."""

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from asked_stages import Given, cell, decided, diagnostics_stage, only
from negengine.engine.experiments.diagnostics.files import read_diagnostics
from negengine.engine.inference.model import MaskedLM
from transformers import AutoModelForMaskedLM, AutoTokenizer

MINI = Path(__file__).parents[4] / "export" / "mini"


@pytest.fixture
def judge(mini):
    """Items and summary of some rows by a model that predicts the same everywhere: these words, the rest evenly."""
    vocabulary = (MINI / "vocab.txt").read_text("utf-8").splitlines()

    def judged(rows, probabilities):
        rest = (1 - sum(probabilities.values())) / (mini.vocab_size - len(probabilities))
        logits = np.full(mini.vocab_size, np.log(rest), np.float32)
        logits[[vocabulary.index(word) for word in probabilities]] = np.log([*probabilities.values()])
        return decided(diagnostics_stage(mini, rows, draws=1), Given(lambda _: logits))

    return judged


FOUR = {"dog": 0.3, "cat": 0.295, "car": 0.1, "tree": 0.05}
FIRST, SECOND, REVERSED, PAIR = ("CPRAG-102", "0"), ("CPRAG-102", "1"), ("ROLE-88", "1-b"), ("ROLE-88", "1")


@pytest.mark.parametrize(
    ("probabilities", "item", "figures"),
    [
        (FOUR, FIRST, (True, True, True, False, 1)),  # dog is above cat, but not by 0.01
        (FOUR, SECOND, (False, True, False, False, 4)),  # tree is fourth, below dog
        ({"dog": 0.3, "cat": 0.28, "car": 0.1}, FIRST, (True, True, True, True, 1)),  # above cat by 0.02
        # A target equally probable in both contexts of a pair is not more probable in the good one.
        ({"served": 0.4}, PAIR, (None, None, False, False, None)),
        # paid, the second of the expected words, is second: right at 5, wrong at 1.
        ({"dog": 0.4, "paid": 0.3}, REVERSED, (False, True, None, None, 2)),
    ],
)
def test_ranks_differences_ties_and_alternatives_decide(judge, small, probabilities, item, figures):
    """Of CPRAG dog is compared with cat and car, and tree with dog and house; of ROLE tipped or paid is expected."""
    dataset, name = item
    found = only(judge(small, probabilities)[0], dataset=dataset, condition="original", item=name)
    metrics = ("accuracy@1", "accuracy@5", "sensitivity", "sensitivity>0.01", "rank")
    assert tuple(found[metric] for metric in metrics) == figures
    top = list(probabilities.items())
    assert [found[f"top{i}"] for i, _ in enumerate(top, 1)] == [word for word, _ in top]
    chances = [found[f"top{i}_probability"] for i, _ in enumerate(top, 1)]
    np.testing.assert_allclose(chances, [chance for _, chance in top], rtol=1e-4)


def test_words_outside_the_vocabulary_are_never_right_and_are_counted(judge, write, tmp_path):
    """Item 0: a bad word outside. dog is first, but its comparison with the word is undefined, so false.

    Item 1: the expected word outside. Neither accuracy nor sensitivity can be right.
    """
    table = ("dog\tcat\tcar\tH\n1\tThe red car. It was new.\tShe\ttree", "dog\tcat\tqzxqzx\tH\n1\tA b.\tShe\tzyxxqz")
    items, summary = judge(read_diagnostics(write(tmp_path, CPRAG_102=table), ["CPRAG-102"]), {"dog": 0.5})
    first, second = (only(items, condition="original", item=item) for item in "01")
    assert (first["accuracy@1"], first["sensitivity"]) == (True, False)
    assert (second["accuracy@5"], second["sensitivity"], second["rank"]) == (False, False, None)
    assert (first["outside_expected"], first["outside_compared"]) == ("", "qzxqzx")
    assert (first["good_probability"], first["bad2_probability"]) == (pytest.approx(0.5), None)
    assert (second["outside_expected"], second["outside_compared"]) == ("zyxxqz", "zyxxqz")
    assert cell(summary, "CPRAG-102", "original", "all", "outside:accuracy")["value"] == 0.5
    assert cell(summary, "CPRAG-102", "original", "all", "outside:sensitivity")["value"] == 1


# ---------------------------------------------------------------- the slow reference


class Reference:
    """Upstream's way of scoring: contexts one at a time, predictions and vocabulary as strings."""

    def __init__(self):
        self.tokenizer = AutoTokenizer.from_pretrained(MINI)
        self.model = AutoModelForMaskedLM.from_pretrained(MINI).eval()
        self.probabilities = cache(self.predict)

    def predict(self, context):
        tokens = ["[CLS]", *self.tokenizer.tokenize(context), "[MASK]", ".", "[SEP]"]
        ids = torch.tensor([self.tokenizer.convert_tokens_to_ids(tokens)])
        with torch.inference_mode():
            return self.model(ids).logits[0, -3].double().softmax(-1)

    def probability(self, context, word):
        found = self.tokenizer.vocab.get(word)
        return float("nan") if found is None else self.probabilities(context)[found].item()

    def expects(self, row, context, *expected):
        """Whether a row has the right accuracies for a context."""
        assert (row["query"], row["expected"]) == (f"{context} [MASK].", "|".join(expected))
        for k in (1, 5):
            first = self.tokenizer.convert_ids_to_tokens(self.probabilities(context).topk(k).indices.tolist())
            assert row[f"accuracy@{k}"] == any(word in expected for word in first)

    def compares(self, row, *asked):
        """Whether a row has the right probabilities and sensitivities of contexts with words, the good one first."""
        good, *bad = chances = [self.probability(*one) for one in asked]
        found = [row[f"{one}_probability"] for one in ("good", "bad", "bad2")][: len(chances)]
        np.testing.assert_allclose(np.array(found, float), chances, rtol=1e-3, atol=1e-9)
        assert row["sensitivity"] == all(good > other for other in bad)
        assert row["sensitivity>0.01"] == all(good - other > 0.01 for other in bad)


@pytest.fixture(scope="module")
def reference(one_thread):
    return Reference()


@pytest.fixture(scope="module")
def judged(mini, folder):
    """Name → the rows of a real table, read by other code, with a few of them; and the items of the table."""

    def judge(name, every):
        lines = (folder / f"{name}.tsv").read_text("utf-8").splitlines()
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
        stage = diagnostics_stage(mini, read_diagnostics(folder, [name]), draws=2, seed=7)
        return rows, rows[::every], decided(stage, MaskedLM(mini))[0]

    return judge


def test_cprag_equals_the_reference(judged, reference):
    _, rows, items = judged("CPRAG-102", 6)
    for row in rows:
        own = items.filter(cluster=row["item"])
        whole, last = f"{row['context_s1']} {row['context_s2']}", " ".join(row["context_s2"].split()[-2:])
        found = only(own, condition="original")
        reference.expects(found, whole, row["expected"])
        words = (row[name] for name in ("expected", "within_category", "between_category"))
        reference.compares(found, *((whole, word) for word in words))
        reference.expects(only(own, condition="truncated"), f"{row['context_s1']} {last}", row["expected"])


def test_role_equals_the_reference(judged, reference):
    rows, some, items = judged("ROLE-88", 9)
    contexts = {row["item"]: row["context"].strip() for row in rows}
    cuts = np.percentile([float(row["exp_cloze"]) for row in rows], [25, 50, 75])
    for row in some:
        found = only(items, condition="original", item=row["item"])
        expected = dict.fromkeys(words.split()[0] for words in row["expected"].split("|"))
        reference.expects(found, contexts[row["item"]], *expected)
        assert found["splits"] == f"all|cloze-{1 + sum(float(row['exp_cloze']) > cut for cut in cuts)}"
        pair, _, _ = row["item"].partition("-")
        asked = ((contexts[f"{pair}-{order}"], row["target"]) for order in "ab")
        reference.compares(only(items, condition="original", item=pair), *asked)


@pytest.mark.parametrize("name", ["NEG-136-SIMP", "NEG-136-NAT"])
def test_neg_equals_the_reference(judged, reference, name):
    _, rows, items = judged(name, 3)
    for row in rows:
        for polarity, *words in (("affirmative", "target_aff", "target_neg"), ("negative", "target_neg", "target_aff")):
            context = row[f"context_{polarity[:3]}"]
            articles = ("an" if row[word][0] in "aeiou" else "a" for word in words)
            texts = [context.replace("(a|an)", article) for article in articles]
            found = only(items, item=f"{row['item']} {polarity}")
            reference.compares(found, *((text, row[word]) for text, word in zip(texts, words, strict=True)))
            if "licensing" in row:
                licensing = "licensed" if row["licensing"] == "Y" else "unlicensed"
                assert found["splits"] == f"all|{polarity}|{licensing}|{polarity}-{licensing}"
            if polarity == "affirmative":
                reference.expects(found, texts[0], row["target_aff"])
                chances = reference.probabilities(texts[0])
                assert found["rank"] == 1 + int((chances > reference.probability(texts[0], row["target_aff"])).sum())
