"""The diagnostics on hand-made logits, and their summary on items whose figures can be checked by hand."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from asked_stages import Given, cell, decided, diagnostics_stage, only
from negengine.engine.experiments.diagnostics.contexts import read_diagnostics
from negengine.engine.experiments.diagnostics.diagnostics import SCHEMA, Diagnostics

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


DECIDED = [  # probabilities, item, its accuracies, its sensitivities and its rank
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
    metrics = ("accuracy@1", "accuracy@5", "sensitivity", "sensitivity>0.01", "rank")
    for probabilities, (dataset, item), figures in DECIDED:
        found = only(judge(small, probabilities)[0], dataset=dataset, condition="original", item=item)
        assert tuple(found[metric] for metric in metrics) == figures
        chances = {found[f"top{i}"]: found[f"top{i}_probability"] for i, _ in enumerate(probabilities, 1)}
        assert list(chances.items()) == [(word, pytest.approx(own, rel=1e-4)) for word, own in probabilities.items()]


def test_words_outside_the_vocabulary_are_never_right_and_are_counted(judge, tmp_path):
    """Item 0: a bad word outside. dog is first, but its comparison with the word is undefined, so false.

    Item 1: the expected word outside. Neither accuracy nor sensitivity can be right.
    """
    table = ("dog\tcat\tcar\tH\n1\tThe red car. It was new.\tShe\ttree", "dog\tcat\tqzxqzx\tH\n1\tA b.\tShe\tzyxxqz")
    items, summary = judge(read_diagnostics(write_tables(tmp_path, CPRAG_102=table), ["CPRAG-102"]), {"dog": 0.5})
    first, second = (only(items, condition="original", item=item) for item in "01")
    assert (first["accuracy@1"], first["sensitivity"]) == (True, False)
    assert (second["accuracy@5"], second["sensitivity"], second["rank"]) == (False, False, None)
    assert (first["outside_expected"], first["outside_compared"]) == ("", "qzxqzx")
    assert (first["good_probability"], first["bad2_probability"]) == (pytest.approx(0.5), None)
    assert (second["outside_expected"], second["outside_compared"]) == ("zyxxqz", "zyxxqz")
    assert cell(summary, "CPRAG-102", "original", "all", "outside:accuracy")["value"] == 0.5
    assert cell(summary, "CPRAG-102", "original", "all", "outside:sensitivity")["value"] == 1


def summary_of(rows):
    """Of items from dataset, condition, item, cluster, splits, draw, metric and value."""
    made = []
    for *names, metric, value in rows:
        keys = dict(zip(("dataset", "condition", "item", "cluster", "splits", "draw"), names, strict=True))
        made.append({**keys, metric: value, "outside_expected": "", "outside_compared": ""})
    return Diagnostics.summarise(pl.DataFrame(made, schema=SCHEMA))


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
    """Eight affirmative sentences right, seven of their negations wrong: p = 2 · (1/2)⁷ = 1/64, the only test.

    Six contexts of three pairs, all right; without the object one of each pair is wrong: p = 2 · (1/2)³ = 1/4.
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
    for summary, *key, metric, n, figures in (
        (polarities, "NEG-136-SIMP", "original", "affirmative vs negative", "sensitivity", 8, (7 / 8, 1 / 64, 1 / 64)),
        (nouns, "ROLE-88", "original vs -Obj", "all", "accuracy@1", 6, (1 / 2, 1 / 4, 1 / 4)),
    ):
        rows = [cell(summary, *key, f"{kind}:{metric}") for kind in ("difference", "p", "p_holm")]
        assert [row["value"] for row in rows] == pytest.approx(figures)
        assert rows[0]["n"] == n
