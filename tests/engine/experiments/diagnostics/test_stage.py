"""The diagnostics against a slow reference (PyTorch, one text at a time, words as strings) and hand-made logits."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from asked_stages import cell, diagnostics_stage, only
from negengine.engine.experiments.diagnostics.files import read_diagnostics
from transformers import AutoModelForMaskedLM, AutoTokenizer

MINI = Path(__file__).parents[4] / "export" / "mini"


class Fixed:
    """A model that predicts the same everywhere: given words with given probabilities, the rest evenly."""

    def __init__(self, exported, probabilities):
        vocabulary = (MINI / "vocab.txt").read_text("utf-8").splitlines()
        rest = (1 - sum(probabilities.values())) / (exported.vocab_size - len(probabilities))
        self._row = np.full(exported.vocab_size, np.log(rest), np.float32)
        for word, probability in probabilities.items():
            self._row[vocabulary.index(word)] = np.log(probability)

    def divide_together(self, shapes):
        return [[slice(start, start + 2) for start in range(0, n, 2)] for n, _ in shapes]

    def reduce_logits(self, batches, reduce):
        for number, sentences in enumerate(batches):
            yield reduce(number, [self.logits(*some) for some in sentences])

    def logits(self, ids, _mask_position):
        return np.tile(self._row, (len(ids), 1))


@pytest.fixture
def judged(mini, decided):
    """The items of some rows with given probabilities."""

    def judge(rows, probabilities):
        return decided(diagnostics_stage(mini, rows, draws=1), Fixed(mini, probabilities))[0]

    return judge


def test_ranks_and_differences_decide(judged, small):
    """Item 0 of CPRAG: dog 0.3, cat 0.295, car 0.1; item 1: tree, dog and house, where dog is above tree.

    dog is first, and above cat and car, though not by 0.01 above cat (0.005). tree (0.05) is fourth.
    """
    items = judged(small, {"dog": 0.3, "cat": 0.295, "car": 0.1, "tree": 0.05})
    first, second = (only(items, dataset="CPRAG-102", condition="original", item=item) for item in "01")
    metrics = ("accuracy@1", "accuracy@5", "sensitivity", "sensitivity>0.01")
    assert [first[metric] for metric in metrics] == [True, True, True, False]
    assert [second[metric] for metric in metrics] == [False, True, False, False]
    assert (first["rank"], second["rank"]) == (1, 4)
    assert [first[f"top{i}"] for i in (1, 2, 3, 4)] == ["dog", "cat", "car", "tree"]
    probabilities = [first[f"top{i}_probability"] for i in (1, 2, 3, 4)]
    np.testing.assert_allclose(probabilities, [0.3, 0.295, 0.1, 0.05], rtol=1e-4)


@pytest.mark.parametrize(
    ("probabilities", "row", "wanted"),
    [
        # dog is 0.02 above cat and 0.2 above car.
        ({"dog": 0.3, "cat": 0.28, "car": 0.1}, {"condition": "original", "item": "0", "cluster": "0"},
         {"sensitivity": True, "sensitivity>0.01": True}),
        # A target equally probable in both contexts of a pair is not more probable in the good one.
        ({"served": 0.4}, {"dataset": "ROLE-88", "item": "1"}, {"sensitivity": False, "sensitivity>0.01": False}),
        # paid, the second of the expected words, is second: right at 5, wrong at 1.
        ({"dog": 0.4, "paid": 0.3}, {"condition": "original", "item": "1-b"},
         {"rank": 2, "accuracy@1": False, "accuracy@5": True}),
    ],
)  # fmt: skip
def test_thresholds_ties_and_alternatives(judged, small, probabilities, row, wanted):
    found = only(judged(small, probabilities), **row)
    assert {name: found[name] for name in wanted} == wanted


def test_words_outside_the_vocabulary_are_never_right_and_are_counted(mini, decided, write, tmp_path):
    """Item 0: a bad word outside. dog is first, but its comparison with the word is undefined, so false.

    Item 1: the expected word outside. Neither accuracy nor sensitivity can be right.
    """
    table = ("dog\tcat\tcar\tH\n1\tThe red car. It was new.\tShe\ttree", "dog\tcat\tqzxqzx\tH\n1\tA b.\tShe\tzyxxqz")
    found = read_diagnostics(write(tmp_path, CPRAG_102=table), ["CPRAG-102"])
    items, summary = decided(diagnostics_stage(mini, found, draws=1), Fixed(mini, {"dog": 0.5}))
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

    def first(self, context, k):
        return self.tokenizer.convert_ids_to_tokens(self.probabilities(context).topk(k).indices.tolist())


@pytest.fixture(scope="module")
def reference(one_thread):
    return Reference()


@pytest.fixture
def items(finished):
    return finished[0]


def assert_accuracies(row, reference, context, expected):
    assert row["query"] == f"{context} [MASK]."
    assert row["expected"] == "|".join(expected)
    for k in (1, 5):
        right = any(word in expected for word in reference.first(context, k))
        assert row[f"accuracy@{k}"] == right


def assert_sensitivities(row, good, bad):
    assert row["sensitivity"] == all(good > other for other in bad)
    assert row["sensitivity>0.01"] == all(good - other > 0.01 for other in bad)


def test_cprag_equals_the_reference(rows_of, items, reference):
    for row in rows_of("CPRAG-102")[::6]:
        own = items.filter(dataset="CPRAG-102", cluster=row["item"])
        whole = f"{row['context_s1']} {row['context_s2']}"
        found = only(own, condition="original")
        assert_accuracies(found, reference, whole, [row["expected"]])
        words = [row[name] for name in ("expected", "within_category", "between_category")]
        good, *bad = chances = [reference.probability(whole, word) for word in words]
        found_chances = [found[f"{one}_probability"] for one in ("good", "bad", "bad2")]
        np.testing.assert_allclose(found_chances, chances, rtol=1e-3, atol=1e-9)
        assert_sensitivities(found, good, bad)
        last = " ".join(row["context_s2"].split()[-2:])
        truncated = f"{row['context_s1']} {last}"
        assert_accuracies(only(own, condition="truncated"), reference, truncated, [row["expected"]])
        for found in own.filter(pl.col("draw") == 2).to_dicts():
            context = found["query"].removesuffix(" [MASK].")
            second = row["context_s2"] if found["condition"] == "shuffled" else last
            first = context.removesuffix(f". {second}")
            assert Counter(first.split()) == Counter(re.sub(r"\.", "", row["context_s1"]).split())
            assert_accuracies(found, reference, context, [row["expected"]])


def test_role_equals_the_reference(rows_of, items, reference):
    rows = rows_of("ROLE-88")
    cuts = np.percentile([float(row["exp_cloze"]) for row in rows], [25, 50, 75])
    for row in rows[::9]:
        context = row["context"].strip()
        expected = [words.split()[0] for words in row["expected"].split("|")]
        without_object = re.sub("which .* the", "which one the", context)
        contexts = {
            "original": context,
            "-Obj": without_object,
            "-Sub": re.sub("which (.*) the .* had", r"which \1 the other had", context),
            "-ObjSub": re.sub("which (.*) the .* had", r"which \1 the other had", without_object),
        }
        for condition, text in contexts.items():
            found = only(items, dataset="ROLE-88", condition=condition, item=row["item"])
            assert_accuracies(found, reference, text, list(dict.fromkeys(expected)))
            assert found["splits"] == f"all|cloze-{1 + sum(float(row['exp_cloze']) > cut for cut in cuts)}"


def test_role_reversals_equal_the_reference(rows_of, items, reference):
    by_item = {row["item"]: row for row in rows_of("ROLE-88")}
    pairs = sorted({item.split("-")[0] for item in by_item})
    assert len(pairs) == 44
    for pair in pairs[::5]:
        good, bad = (
            reference.probability(row["context"].strip(), row["target"])
            for row in (by_item[f"{pair}-a"], by_item[f"{pair}-b"])
        )
        found = only(items, dataset="ROLE-88", item=pair)
        np.testing.assert_allclose([found["good_probability"], found["bad_probability"]], [good, bad], rtol=1e-3)
        assert_sensitivities(found, good, [bad])


@pytest.mark.parametrize("name", ["NEG-136-SIMP", "NEG-136-NAT"])
def test_neg_equals_the_reference(rows_of, items, reference, name):
    for row in rows_of(name)[::3]:
        for polarity, true, false in (("aff", "target_aff", "target_neg"), ("neg", "target_neg", "target_aff")):

            def chance(word, context=row[f"context_{polarity}"]):
                article = "an" if re.match("[aeiou]", word) else "a"
                return reference.probability(context.replace("(a|an)", article), word)

            good, bad = chance(row[true]), chance(row[false])
            split = {"aff": "affirmative", "neg": "negative"}[polarity]
            found = only(items, dataset=name, item=f"{row['item']} {split}")
            assert_sensitivities(found, good, [bad])
            if "licensing" in row:
                licensing = "licensed" if row["licensing"] == "Y" else "unlicensed"
                assert found["splits"] == f"all|{split}|{licensing}|{split}-{licensing}"
            if polarity == "aff":
                article = "an" if row[true][0] in "aeiou" else "a"
                context = row["context_aff"].replace("(a|an)", article)
                assert_accuracies(found, reference, context, [row[true]])
                assert found["rank"] == 1 + sum(p > good for p in reference.probabilities(context).tolist())


# ---------------------------------------------------------------- before a run, and parts
