"""The diagnostics on hand-made logits, and their summary on items whose figures can be checked by hand."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from asked_stages import Given, cell, decided, diagnostics_stage, only, published
from negengine.engine.experiments.diagnostics.contexts import read_diagnostics
from negengine.engine.experiments.diagnostics.diagnostics import Diagnostics
from negengine.engine.requests.word import SEVERAL

from .conftest import write_tables

MINI = Path(__file__).parents[4] / "export" / "mini"
FOUR = {"dog": 0.3, "cat": 0.295, "car": 0.1, "tree": 0.05}
FIRST, SECOND, REVERSED, PAIR = ("CPRAG-102", "0"), ("CPRAG-102", "1"), ("ROLE-88", "1-b"), ("ROLE-88", "1")


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


METRICS = ("accuracy@1", "accuracy@5", "sensitivity", "sensitivity>0.01")
DECIDED = [  # probabilities, item, its accuracies, its sensitivities and the best rank of its expected words
    (FOUR, FIRST, (True, True, True, False, 1)),  # dog is above cat, but not by 0.01
    (FOUR, SECOND, (False, True, False, False, 4)),  # tree is fourth, below dog
    ({"dog": 0.3, "cat": 0.28, "car": 0.1}, FIRST, (True, True, True, True, 1)),  # above cat by 0.02
    # A target equally probable in both contexts of a pair is not more probable in the good one.
    ({"served": 0.4}, PAIR, (None, None, False, False, None)),
    # paid, the second of the expected words, is second: right at 5, wrong at 1.
    ({"dog": 0.4, "paid": 0.3}, REVERSED, (False, True, None, None, 2)),
]


def test_ranks_differences_ties_and_alternatives_decide(judge, small):
    """Of CPRAG dog is compared with cat and car, and tree with dog and house; of ROLE tipped or paid is expected."""
    for probabilities, (dataset, item), figures in DECIDED:
        items = judge(small, probabilities)[0].filter(dataset=dataset, condition="original", item=item)
        assert (*items.select(METRICS).row(0), items.filter("is_expected")["rank"].min()) == figures
        assert items[1:].select(METRICS).null_count().sum_horizontal().to_list() == [4 * (len(items) - 1)]
        found = items.row(0, named=True)
        chances = {found[f"top{i}"]: np.exp(found[f"top{i}_logprob"]) for i, _ in enumerate(probabilities, 1)}
        assert list(chances.items()) == [(word, pytest.approx(own, rel=1e-4)) for word, own in probabilities.items()]


def test_words_outside_the_vocabulary_are_never_right_and_are_counted(judge, tmp_path):
    """Item 0: a bad word outside. dog is first, but its comparison with the word is undefined, so false.

    Item 1: the expected word outside. Neither accuracy nor sensitivity can be right.
    """
    table = ("dog\tcat\tcar\tH\n1\tThe red car. It was new.\tShe\ttree", "dog\tcat\tqzxqzx\tH\n1\tA b.\tShe\tzyxxqz")
    items, summary = judge(read_diagnostics(write_tables(tmp_path, CPRAG_102=table), ["CPRAG-102"]), {"dog": 0.5})
    first, second = (items.filter(condition="original", item=item) for item in "01")
    assert first.select("accuracy@1", "sensitivity").row(0) == (True, False)
    assert second.select("accuracy@5", "sensitivity").row(0) == (False, False)
    assert [own.filter(why=SEVERAL)["word"].to_list() for own in (first, second)] == [["qzxqzx"], ["zyxxqz"]]
    assert only(first, role="good")["logprob"] == pytest.approx(np.log(0.5))
    assert only(first, role="bad2").items() >= {"rank": None, "logprob": None, "top1": None}.items()
    assert cell(summary, "CPRAG-102", "original", "all", "outside:accuracy")["value"] == 0.5
    assert cell(summary, "CPRAG-102", "original", "all", "outside:sensitivity")["value"] == 1


def summary_of(rows):
    """Of items from dataset, condition, item, cluster, splits, draw, metric and value."""
    made = []
    for *names, metric, value in rows:
        keys = dict(zip(("dataset", "condition", "item", "cluster", "splits", "draw"), names, strict=True))
        keys |= {
            "splits": keys["splits"].split("|"),
            "columns": [None, *("draw" if "draw" in own else "split" for own in keys["splits"].split("|")[1:])],
            "pair": keys["item" if keys["dataset"] == "ROLE-88" else "cluster"],
        }
        own = {"is_expected": True, "role": None, "tokens": 1, "rank": 1 if value else 9, "logprob": -1.0}
        if metric == "sensitivity":
            made.append({**keys, **own, "is_expected": False, "role": "bad", "logprob": -2.0 if value else -0.5})
            own |= {"is_expected": False, "role": "good"}
        made.append({**keys, **own})
    kinds = {"role": pl.String, "draw": pl.Int32, "cluster": pl.String}
    return published(Diagnostics, pl.DataFrame(made, schema_overrides=kinds))[1]


def test_shuffles_have_a_mean_over_draws_and_a_deviation_between_them():
    """Four items, three draws with 1, 2 and 3 of them right: 0.25, 0.5, 0.75; mean 0.5, sd √((1/16 + 1/16) / 3)."""
    summary = summary_of(
        ("CPRAG-102", "shuffled", f"{i} draw-{d}", f"{i}", f"all|draw-{d}", d, "accuracy@5", i < d)
        for d in (1, 2, 3)
        for i in range(4)
    )
    figures = {("all", "accuracy@5"): (0.5, 12), ("all", "sd:accuracy@5"): (pytest.approx((2 / 16 / 3) ** 0.5), 3)}
    for key, wanted in (figures | {("draw-3", "accuracy@5"): (0.75, 4)}).items():
        row = cell(summary, "CPRAG-102", "shuffled", *key)
        assert (row["value"], row["n"]) == wanted
    # Draws of an item are not independent items.
    assert cell(summary, "CPRAG-102", "shuffled", "all", "accuracy@5")["clusters"] == 4


def test_polarities_are_paired_by_item_and_perturbations_by_context():
    """Eight affirmative sentences right, seven of their negations wrong: p = 2 · (1/2)⁷ = 1/64, of two tests alike.

    Six contexts of three pairs, all right; without the object one of each pair is wrong: p = 2 · (1/2)³ = 1/4, of two.
    """
    polarities = summary_of(
        ("NEG-136-SIMP", "original", f"{i} {polarity}", f"{i}", f"all|{polarity}", None, "sensitivity", right)
        for i in range(8)
        for polarity, right in (("affirmative", True), ("negative", i == 0))
    )
    nouns = summary_of(
        ("ROLE-88", name, f"{i}-{order}", f"{i}", "all", None, "accuracy@1", name == "original" or order < "b")
        for name in ("original", "-Obj")
        for i in range(3)
        for order in "ab"
    )
    for summary, sides, metric, n, figures in (
        (polarities, {"split": "affirmative", "other_split": "negative"}, "sensitivity", 8, (7 / 8, 1 / 64, 1 / 64)),
        (nouns, {"condition": "original", "other_condition": "-Obj"}, "accuracy@1", 6, (1 / 2, 1 / 4, 1 / 4)),
    ):
        row = only(summary, **sides, metric=metric)
        assert [row[name] for name in ("value", "p", "p_holm")] == pytest.approx(figures)
        assert row["n"] == n
