"""The diagnostics against a slow reference (PyTorch, one text at a time, words as strings) and hand-made cases."""

import csv
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from negengine.engine.errors import InputError
from negengine.engine.inference.model import MaskedLM
from negengine.engine.probes.diagnostics import items as data
from negengine.engine.probes.diagnostics import probe as diagnostics
from negengine.engine.probes.diagnostics.items import Diagnostics, build_items, complete, read_diagnostics
from negengine.engine.probes.targets import target_ids
from negengine.engine.sentences.tokenizer import NOT_ONE_TOKEN
from rich.console import Console
from transformers import AutoModelForMaskedLM, AutoTokenizer

MINI = Path(__file__).parents[4] / "export" / "mini"
NAMES = ("CPRAG-102", "ROLE-88", "NEG-136-SIMP", "NEG-136-NAT")

# ---------------------------------------------------------------- made by hand

TABLES = {
    "CPRAG-102": """\
item\tcontext_s1\tcontext_s2\texpected\twithin_category\tbetween_category\tconstraint
0\tThe dog ran.\tAt last it came to the\tdog\tcat\tcar\tH
1\tThe red car. It was new.\tShe\ttree\tdog\thouse\tL
""",
    "ROLE-88": """\
item\tcontext\texpected\texp_cloze\ttarget\ttgt_cloze\ttgt_cloze(strict)
1-b\tthe man forgot which waitress the customer had \ttipped|paid for\t0.2\tserved\t0\t0
1-a\tthe man forgot which customer the waitress had \tserved\t0.6\tserved\t0.6\t0.6
""",
    "NEG-136-SIMP": """\
item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg
0\tA hammer is (a|an)\tA hammer is not (a|an)\ttool\tinsect
""",
    "NEG-136-NAT": """\
item\tcontext_aff\tcontext_neg\ttarget_aff\ttarget_neg\tlicensing
0\tOld cars are\tOld cars aren't\tslow\tfast\tY
1\tNew cars are\tNew cars aren't\tfast\tslow\tN
""",
}


def write(folder, **changes):
    """The tables above in a folder, some of them with other text: (old, new) by the first letter of their names."""
    for name, text in TABLES.items():
        old, new = changes.get(name.replace("-", "_"), ("", ""))
        assert old in text
        (folder / f"{name}.tsv").write_bytes(text.replace(old, new, 1).encode("utf-8", "surrogateescape"))
    return folder


@pytest.fixture
def small(tmp_path):
    return read_diagnostics(write(tmp_path))


def texts(items, **wanted):
    chosen = [item for item in items if all(getattr(item, name) == value for name, value in wanted.items())]
    assert chosen
    return [item.completions[0].text for item in chosen]


def test_a_context_gets_its_word_and_a_full_stop():
    assert complete("He put it on the", "table").text == "He put it on the [MASK]."
    assert complete("He put it on the", "table").sentence == "He put it on the table."


@pytest.mark.parametrize(("word", "sentence"), [("tool", "It is a tool."), ("insect", "It is an insect.")])
def test_the_article_agrees_with_the_word(word, sentence):
    assert complete("It is (a|an)", word).sentence == sentence


def test_negated_sentences_are_true_with_the_other_word(small):
    """A hammer is a tool, and is not an insect: good before bad, each with its own article."""
    compared = [
        tuple(one.sentence for one in pair)
        for item in build_items(small, draws=1, seed=0)
        if item.dataset == "NEG-136-SIMP"
        for pair in item.comparisons
    ]
    assert compared == [
        ("A hammer is a tool.", "A hammer is an insect."),
        ("A hammer is not an insect.", "A hammer is not a tool."),
    ]


def test_only_affirmative_contexts_have_an_expected_word(small):
    items = [item for item in build_items(small, draws=1, seed=0) if item.dataset.startswith("NEG")]
    assert {item.item.split()[1] for item in items if item.expected} == {"affirmative"}
    assert len(items) == 6


def test_role_reversal_compares_one_word_in_two_contexts(small):
    [pair] = [item for item in build_items(small, draws=1, seed=0) if item.dataset == "ROLE-88" and item.comparisons]
    [(good, bad)] = pair.comparisons
    assert good.sentence == "the man forgot which customer the waitress had served."
    assert bad.sentence == "the man forgot which waitress the customer had served."


def test_the_first_word_of_any_alternative_is_expected(small):
    [item] = [
        item
        for item in build_items(small, draws=1, seed=0)
        if (item.dataset, item.condition, item.item) == ("ROLE-88", "original", "1-b")
    ]
    assert [one.word for one in item.expected] == ["tipped", "paid"]


@pytest.mark.parametrize(
    ("condition", "context"),
    [
        ("-Obj", "the man forgot which one the customer had"),
        ("-Sub", "the man forgot which waitress the other had"),
        ("-ObjSub", "the man forgot which one the other had"),
    ],
)
def test_nouns_become_generic(small, condition, context):
    items = build_items(small, draws=1, seed=0)
    assert texts(items, dataset="ROLE-88", condition=condition, item="1-b") == [f"{context} [MASK]."]


def test_two_words_are_left_of_the_second_sentence(small):
    items = build_items(small, draws=1, seed=0)
    assert texts(items, dataset="CPRAG-102", condition="truncated") == [
        "The dog ran. to the [MASK].",
        "The red car. It was new. She [MASK].",
    ]


def test_shuffling_keeps_the_words_and_one_full_stop(small):
    items = build_items(small, draws=4, seed=0)
    shuffled = texts(items, condition="shuffled", cluster="1")
    assert len(shuffled) == 4
    for text in shuffled:
        first, _, second = text.partition(". ")
        assert second == "She [MASK]."
        assert Counter(first.split()) == Counter(["The", "red", "car", "It", "was", "new"])
    assert len(set(shuffled)) > 1


def test_both_perturbations_share_the_order_of_a_draw(small):
    items = build_items(small, draws=2, seed=5)
    for shuffled, both in zip(
        texts(items, condition="shuffled", cluster="0"),
        texts(items, condition="shuffled-truncated", cluster="0"),
        strict=True,
    ):
        assert both == shuffled.replace("At last it came to the", "to the")


def test_orders_depend_on_the_sentence_draw_and_seed_alone(small):
    turned = Diagnostics(pragmatic=small.pragmatic[::-1])
    one, other = (build_items(rows, draws=3, seed=2) for rows in (Diagnostics(small.pragmatic), turned))
    assert set(one) == set(other)
    assert set(one) != set(build_items(turned, draws=3, seed=3))
    sentence = "a b c d e f g h i j"
    assert len({data.shuffle(sentence, draw, seed) for draw in (1, 2) for seed in (0, 1)}) == 4
    assert data.shuffle(sentence.upper(), 1, 0) != data.shuffle(sentence, 1, 0).upper()


def test_a_value_on_a_quartile_is_in_the_lower_bin():
    """Quartiles of 0.1 … 0.5 by the linear rule are 0.2, 0.3 and 0.4, themselves among the values."""
    assert data.cloze_bins([0.1, 0.2, 0.3, 0.4, 0.5]) == ["cloze-1", "cloze-1", "cloze-2", "cloze-3", "cloze-4"]


class Fixed:
    """A model that predicts the same everywhere: given words with given probabilities, the rest evenly."""

    def __init__(self, exported, probabilities):
        vocabulary = (MINI / "vocab.txt").read_text("utf-8").splitlines()
        rest = (1 - sum(probabilities.values())) / (exported.vocab_size - len(probabilities))
        self._row = np.full(exported.vocab_size, np.log(rest), np.float32)
        for word, probability in probabilities.items():
            self._row[vocabulary.index(word)] = np.log(probability)

    def batch_size(self, _length):
        return 3

    def logits(self, ids, _mask_position):
        return np.tile(self._row, (len(ids), 1))


def judged(exported, diagnostics_, probabilities):
    plan = diagnostics.plan(exported, diagnostics_, draws=1)
    return diagnostics.score(plan, Fixed(exported, probabilities), slice(0, len(plan.items)))


def only(items, **wanted):
    [row] = items.filter(**wanted).to_dicts()
    return row


def test_ranks_and_differences_decide(mini, small):
    """Item 0 of CPRAG: dog 0.3, cat 0.295, car 0.1; item 1: tree, dog and house, where dog is above tree.

    dog is first, and above cat and car, though not by 0.01 above cat (0.005). tree (0.05) is fourth.
    """
    items = judged(mini, small, {"dog": 0.3, "cat": 0.295, "car": 0.1, "tree": 0.05})
    first, second = (only(items, dataset="CPRAG-102", condition="original", item=item) for item in "01")
    metrics = ("accuracy@1", "accuracy@5", "sensitivity", "sensitivity>0.01")
    assert [first[metric] for metric in metrics] == [True, True, True, False]
    assert [second[metric] for metric in metrics] == [False, True, False, False]
    assert (first["rank"], second["rank"]) == (1, 4)
    assert first["top"][:4] == ["dog", "cat", "car", "tree"]
    np.testing.assert_allclose(first["top_probability"][:4], [0.3, 0.295, 0.1, 0.05], rtol=1e-4)


def test_above_both_by_more_than_the_threshold(mini, small):
    """dog 0.3 is 0.02 above cat and 0.2 above car."""
    row = only(judged(mini, small, {"dog": 0.3, "cat": 0.28, "car": 0.1}), condition="original", item="0", cluster="0")
    assert (row["sensitivity"], row["sensitivity>0.01"]) == (True, True)


def test_equal_probabilities_prefer_nothing(mini, small):
    """A target equally probable in both contexts of a pair is not more probable in the good one."""
    row = only(judged(mini, small, {"served": 0.4}), dataset="ROLE-88", item="1")
    assert (row["sensitivity"], row["sensitivity>0.01"]) == (False, False)


def test_any_expected_word_will_do(mini, small):
    """paid, the second alternative, is second: right at 5, wrong at 1."""
    row = only(judged(mini, small, {"dog": 0.4, "paid": 0.3}), condition="original", item="1-b")
    assert (row["rank"], row["accuracy@1"], row["accuracy@5"]) == (2, False, True)


def test_words_outside_the_vocabulary_never_come_out_right_and_are_counted(mini, tmp_path):
    """Item 0: a bad word outside. dog is first, but its comparison with the word is undefined, so false.

    Item 1: the expected word outside. Neither accuracy nor sensitivity can be right.
    """
    table = ("dog\tcat\tcar\tH\n1\tThe red car. It was new.\tShe\ttree", "dog\tcat\tqzxqzx\tH\n1\tA b.\tShe\tzyxxqz")
    found = read_diagnostics(write(tmp_path, CPRAG_102=table), ["CPRAG-102"])
    plan = diagnostics.plan(mini, found, draws=1)
    assert plan.outside == {"CPRAG-102": ["qzxqzx", "zyxxqz"]}
    items = judged(mini, found, {"dog": 0.5})
    first, second = (only(items, condition="original", item=item) for item in "01")
    assert (first["accuracy@1"], first["sensitivity"]) == (True, False)
    assert (second["accuracy@5"], second["sensitivity"], second["rank"]) == (False, False, None)
    assert first["probability"] == pytest.approx([0.5, first["probability"][1], None])
    summary = diagnostics.summarise(items)
    assert cell(summary, "CPRAG-102", "original", "all", "outside:accuracy")["value"] == 0.5
    assert cell(summary, "CPRAG-102", "original", "all", "outside:sensitivity")["value"] == 1


def cell(summary, *key):
    return only(summary, **dict(zip(("dataset", "condition", "split", "metric"), key, strict=True)))


def hand_made(rows):
    """Items from (dataset, condition, item, cluster, splits, draw, metric, value)."""
    made = []
    for *names, metric, value in rows:
        keys = dict(zip(("dataset", "condition", "item", "cluster", "splits", "draw"), names, strict=True))
        made.append({**keys, metric: value, "outside_expected": [], "outside_compared": []})
    return pl.DataFrame(made, schema=diagnostics._SCHEMA)


def test_shuffles_have_a_mean_over_draws_and_a_deviation_between_them():
    """Four items, three draws with 1, 2 and 3 of them right: 0.25, 0.5, 0.75; mean 0.5, sd √((1/16 + 1/16) / 3)."""
    items = hand_made(
        ("CPRAG-102", "shuffled", f"{i} draw-{d}", f"{i}", ["all", f"draw-{d}"], d, "accuracy@5", i < d)
        for d in (1, 2, 3)
        for i in range(4)
    )
    summary = diagnostics.summarise(items)
    mean = cell(summary, "CPRAG-102", "shuffled", "all", "accuracy@5")
    assert (mean["value"], mean["n"]) == (0.5, 12)
    spread = cell(summary, "CPRAG-102", "shuffled", "all", "sd:accuracy@5")
    assert (spread["value"], spread["n"]) == (pytest.approx((2 / 16 / 3) ** 0.5), 3)
    assert cell(summary, "CPRAG-102", "shuffled", "draw-3", "accuracy@5")["value"] == 0.75


def test_draws_of_an_item_are_no_independent_items():
    """Three draws that all agree say as much as one: the interval is that of 8 items, not of 24."""
    rows = [
        ("CPRAG-102", "shuffled", f"{i} draw-{d}", f"{i}", ["all", f"draw-{d}"], d, "accuracy@5", i < 4)
        for d in (1, 2, 3)
        for i in range(8)
    ]
    summary = diagnostics.summarise(hand_made(rows))
    whole, draw = (cell(summary, "CPRAG-102", "shuffled", split, "accuracy@5") for split in ("all", "draw-1"))
    assert whole["high"] - whole["low"] >= draw["high"] - draw["low"]


def test_polarities_are_paired_by_item():
    """Eight affirmative sentences right, seven of their negations wrong: p = 2 · (1/2)⁷ = 1/64, the only test."""
    items = hand_made(
        ("NEG-136-SIMP", "original", f"{i} {polarity}", f"{i}", ["all", polarity], None, "sensitivity", right)
        for i in range(8)
        for polarity, right in (("affirmative", True), ("negative", i == 0))
    )
    summary = diagnostics.summarise(items)
    key = ("NEG-136-SIMP", "original", "affirmative vs negative")
    assert cell(summary, *key, "difference:sensitivity")["value"] == pytest.approx(7 / 8)
    assert cell(summary, *key, "mcnemar_p:sensitivity")["value"] == pytest.approx(1 / 64)
    assert cell(summary, *key, "mcnemar_p_holm:sensitivity")["value"] == pytest.approx(1 / 64)


def test_a_perturbation_is_paired_by_context():
    """Six contexts of three pairs, all right; without the object one of each pair is wrong: p = 2 · (1/2)³ = 1/4."""
    items = hand_made(
        (
            "ROLE-88",
            condition,
            f"{i}-{order}",
            f"{i}",
            ["all"],
            None,
            "accuracy@1",
            condition == "original" or order < "b",
        )
        for condition in ("original", "-Obj")
        for i in range(3)
        for order in "ab"
    )
    key = ("ROLE-88", "original vs -Obj", "all")
    summary = diagnostics.summarise(items)
    assert cell(summary, *key, "difference:accuracy@1")["n"] == 6
    assert cell(summary, *key, "difference:accuracy@1")["value"] == pytest.approx(0.5)
    assert cell(summary, *key, "mcnemar_p:accuracy@1")["value"] == pytest.approx(0.25)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("CPRAG_102", "\tconstraint\n", "\tlevel\n", r"CPRAG-102\.tsv:1: no column 'constraint'; the header has item"),
        ("CPRAG_102", "\tH\n", "\tM\n", r"CPRAG-102\.tsv:2: constraint is 'M'; it is H or L"),
        ("CPRAG_102", "\tdog\t", "\t \t", r"CPRAG-102\.tsv:2: expected is ' '; a text is needed"),
        ("CPRAG_102", "1\tThe", "0\tThe", r"CPRAG-102\.tsv:3: item 0 stands already in .*CPRAG-102\.tsv:2"),
        ("CPRAG_102", "The dog", "The \udce9", r"CPRAG-102\.tsv:2: byte 0xe9 is not UTF-8; save the file as UTF-8"),
        ("CPRAG_102", "\tShe\t", "\tShe [MASK]\t", r"CPRAG-102\.tsv:3: context_s2 has a \[MASK\], but"),
        ("CPRAG_102", "\tL\n", "\n", r"CPRAG-102\.tsv:3: 6 fields, but the header has 7"),
        ("CPRAG_102", TABLES["CPRAG-102"], "", r"CPRAG-102\.tsv:1: the file is empty"),
        ("ROLE_88", TABLES["ROLE-88"].split("\n", 1)[1], "", r"ROLE-88\.tsv:2: no row below the header"),
        ("ROLE_88", "1-a", "2-a", r"ROLE-88\.tsv:2: item 1-b has no counterpart 1-a"),
        ("ROLE_88", "1-a", "1", r"ROLE-88\.tsv:3: item is '1'; a number and -a or -b is needed"),
        ("ROLE_88", "0.6\tserved", "0.6\tfed", r"ROLE-88\.tsv:2: target 'served', but 'fed' in 1-a; a pair shares one"),
        ("ROLE_88", "0.2", "high", r"ROLE-88\.tsv:2: exp_cloze is 'high'; a number is needed"),
        ("ROLE_88", "0.2", "nan", r"ROLE-88\.tsv:2: exp_cloze is nan; a fraction from 0 to 1 is needed"),
        ("ROLE_88", "tipped|", "|", r"ROLE-88\.tsv:2: expected is '\|paid for'; there is no word beside a \|"),
        ("ROLE_88", "which waitress", "a waitress", r"ROLE-88\.tsv:2: context is .* `which … the … had` is needed"),
        ("NEG_136_SIMP", "\ttool\t", "\t\t", r"NEG-136-SIMP\.tsv:2: target_aff is ''; a text is needed"),
        ("NEG_136_NAT", "\tlicensing", "\tnatural", r"NEG-136-NAT\.tsv:1: no column 'licensing'"),
        ("NEG_136_NAT", "\tN\n", "\tno\n", r"NEG-136-NAT\.tsv:3: licensing is 'no'; it is Y or N"),
    ],
)
def test_a_bad_table_is_refused_with_its_place(tmp_path, name, old, new, message):
    with pytest.raises(InputError, match=message) as caught:
        read_diagnostics(write(tmp_path, **{name: (old, new)}))
    assert "\n" not in str(caught.value)


def test_an_unknown_data_set_is_refused(tmp_path):
    with pytest.raises(InputError, match="unknown data set 'CPRAG-34'; known are CPRAG-102, ROLE-88"):
        read_diagnostics(write(tmp_path), ["CPRAG-34"])


def test_a_missing_file_is_named(tmp_path):
    (write(tmp_path) / "ROLE-88.tsv").unlink()
    with pytest.raises(InputError, match=r"no ROLE-88\.tsv in there; give the folder of lm-diagnostics"):
        read_diagnostics(tmp_path)


def test_a_file_of_another_name_is_refused(tmp_path):
    (tmp_path / "items.tsv").write_text(TABLES["ROLE-88"])
    with pytest.raises(InputError, match=r"items\.tsv: is no CPRAG-102 or .*; a file is known by its name"):
        read_diagnostics(tmp_path / "items.tsv")


def test_one_file_or_one_name_reads_one_data_set(tmp_path):
    write(tmp_path)
    one, other = read_diagnostics(tmp_path / "ROLE-88.tsv"), read_diagnostics(tmp_path, ["ROLE-88"])
    assert one == other
    assert len(one.reversals) == 2
    assert not one.pragmatic
    assert not one.simple
    assert not one.natural


def test_files_are_found_in_folders_of_upstream(tmp_path):
    for name, text in TABLES.items():
        folder = tmp_path / "datasets" / name.removesuffix("-SIMP").removesuffix("-NAT")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.tsv").write_text(text)
    here = tmp_path / "here"
    here.mkdir()
    assert read_diagnostics(tmp_path / "datasets").sha256 == read_diagnostics(write(here)).sha256


def test_a_context_that_is_too_long_is_refused_with_its_place(mini, tmp_path):
    found = read_diagnostics(write(tmp_path, CPRAG_102=("The dog", "The dog " * 600)), ["CPRAG-102"])
    with pytest.raises(InputError, match=r"CPRAG-102\.tsv:2: \d+ tokens, mini takes 512: shorten the text"):
        diagnostics.plan(mini, found)


def test_no_draw_is_refused(mini, small):
    with pytest.raises(InputError, match="--draws 0: give 1 or more"):
        diagnostics.plan(mini, small, draws=0)


# ---------------------------------------------------------------- the real data


@pytest.fixture(scope="module")
def folder(shared):
    return shared / "data/datasets/lm-diagnostics"


@pytest.fixture(scope="module")
def real(folder):
    return read_diagnostics(folder)


def rows_of(folder, name):
    with (folder / f"{name}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def originals(items, dataset):
    return [item for item in items if (item.dataset, item.condition) == (dataset, "original")]


def test_counts_are_the_papers(shared, real):
    """34 × 3 = 102 completions, 88 contexts in 44 pairs, 72 and 64 sentences; accuracy of 18 and 16 contexts."""
    notes = tomllib.loads((shared / "data/published/what-bert-is-not.toml").read_text("utf-8"))
    items = build_items(real, draws=3, seed=0)
    sentences = {
        name: {(item.cluster, one.sentence) for item in originals(items, name) for one in item.completions}
        for name in NAMES
    }
    contexts = {name: sum(bool(item.expected) for item in originals(items, name)) for name in NAMES}
    comparisons = {name: sum(bool(item.comparisons) for item in originals(items, name)) for name in NAMES}
    assert len(sentences["CPRAG-102"]) == notes["cprag_102"]["size_by_name_count"] == 34 * 3
    assert contexts["ROLE-88"] == notes["role_88"]["items_kept_count"] == 88
    assert len(sentences["NEG-136-SIMP"]) == notes["neg_136"]["simple_sentences_count"] == 72
    assert len(sentences["NEG-136-NAT"]) == notes["neg_136"]["natural_items_count"] == 64
    assert contexts == {"CPRAG-102": 34, "ROLE-88": 88, "NEG-136-SIMP": 18, "NEG-136-NAT": 16}
    assert comparisons == {"CPRAG-102": 34, "ROLE-88": 44, "NEG-136-SIMP": 36, "NEG-136-NAT": 32}


def test_splits_have_the_sizes_that_the_columns_say(real):
    items = build_items(real, draws=1, seed=0)
    sizes = Counter((item.dataset, split) for item in items if item.condition == "original" for split in item.splits)
    assert (sizes["CPRAG-102", "H"], sizes["CPRAG-102", "L"]) == (18, 16)
    assert sum(sizes["ROLE-88", f"cloze-{number}"] for number in range(1, 5)) == 88
    for kind in ("licensed", "unlicensed"):
        assert (sizes["NEG-136-NAT", kind], sizes["NEG-136-NAT", f"negative-{kind}"]) == (16, 8)


def test_generic_nouns_change_every_context_and_leave_half_of_them(real):
    items = build_items(real, draws=1, seed=0)
    before = texts([item for item in items if item.expected], dataset="ROLE-88", condition="original")
    for condition in ("-Obj", "-Sub", "-ObjSub"):
        after = texts(items, dataset="ROLE-88", condition=condition)
        assert all(old != new for old, new in zip(before, after, strict=True))
    assert len(set(after)) == 44


def test_four_articles_differ_between_true_and_false(real):
    """In 4 of the 18 items of SIMP the two targets need different articles, as the data's README tells."""
    items = originals(build_items(real, draws=1, seed=0), "NEG-136-SIMP")
    different = {item.cluster for item in items for good, bad in item.comparisons if good.text != bad.text}
    assert len(different) == 4


CASED = "pancakes mascara panda otter sandals rake shovel donkey zebra greyhound chihuahua"


@pytest.mark.parametrize(
    ("name", "outside"),
    [
        ("bert-base-uncased", ""),
        ("bert-base-cased", CASED),
        ("roberta-base", "panda otter sandals zebra greyhound chihuahua"),
    ],
)
def test_targets_outside_published_vocabularies(real, published_tokenizer, name, outside):
    """The data's README lists them, counted there with other code."""
    tokenizer = published_tokenizer(name)
    items = [item for dataset in NAMES for item in originals(build_items(real, draws=1, seed=0), dataset)]
    compared = list(dict.fromkeys(one for item in items for pair in item.comparisons for one in pair))
    ids = target_ids(tokenizer, [one.text for one in compared], [one.word for one in compared])
    assert {one.word for one, i in zip(compared, ids, strict=True) if i == NOT_ONE_TOKEN} == set(outside.split())


@pytest.fixture(scope="module")
def finished(mini, real, tmp_path_factory):
    run = tmp_path_factory.mktemp("run") / "diagnostics"
    return run, diagnostics.run(diagnostics.plan(mini, real, seed=7), MaskedLM(mini), run)


@pytest.fixture(scope="module")
def items(finished):
    return pl.read_parquet(finished[0] / "items.parquet")


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
def reference():
    return Reference()


def assert_accuracies(row, reference, context, expected):
    assert row["query"] == f"{context} [MASK]."
    assert row["expected"] == expected
    for k in (1, 5):
        right = any(word in expected for word in reference.first(context, k))
        assert row[f"accuracy@{k}"] == right


def assert_sensitivities(row, good, bad):
    assert row["sensitivity"] == all(good > other for other in bad)
    assert row["sensitivity>0.01"] == all(good - other > 0.01 for other in bad)


def test_cprag_equals_the_reference(folder, items, reference):
    for row in rows_of(folder, "CPRAG-102")[::3]:
        own = items.filter(dataset="CPRAG-102", cluster=row["item"])
        whole = f"{row['context_s1']} {row['context_s2']}"
        found = only(own, condition="original")
        assert_accuracies(found, reference, whole, [row["expected"]])
        words = [row[name] for name in ("expected", "within_category", "between_category")]
        good, *bad = chances = [reference.probability(whole, word) for word in words]
        np.testing.assert_allclose(found["probability"], chances, rtol=1e-3, atol=1e-9)
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


def test_role_equals_the_reference(folder, items, reference):
    rows = rows_of(folder, "ROLE-88")
    cuts = np.percentile([float(row["exp_cloze"]) for row in rows], [25, 50, 75])
    for row in rows[::5]:
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
            assert found["splits"][1] == f"cloze-{1 + sum(float(row['exp_cloze']) > cut for cut in cuts)}"


def test_role_reversals_equal_the_reference(folder, items, reference):
    by_item = {row["item"]: row for row in rows_of(folder, "ROLE-88")}
    pairs = sorted({item.split("-")[0] for item in by_item})
    assert len(pairs) == 44
    for pair in pairs[::4]:
        good, bad = (
            reference.probability(row["context"].strip(), row["target"])
            for row in (by_item[f"{pair}-a"], by_item[f"{pair}-b"])
        )
        found = only(items, dataset="ROLE-88", item=pair)
        np.testing.assert_allclose(found["probability"], [good, bad], rtol=1e-3)
        assert_sensitivities(found, good, [bad])


@pytest.mark.parametrize("name", ["NEG-136-SIMP", "NEG-136-NAT"])
def test_neg_and_its_rates_equal_the_reference(folder, finished, items, reference, name):
    """Every item; the summary's rates and Wilson's interval are those of counting in plain Python."""
    outcomes = {}
    for row in rows_of(folder, name):
        for polarity, true, false in (("aff", "target_aff", "target_neg"), ("neg", "target_neg", "target_aff")):

            def chance(word, context=row[f"context_{polarity}"]):
                article = "an" if re.match("[aeiou]", word) else "a"
                return reference.probability(context.replace("(a|an)", article), word)

            good, bad = chance(row[true]), chance(row[false])
            split = {"aff": "affirmative", "neg": "negative"}[polarity]
            found = only(items, dataset=name, item=f"{row['item']} {split}")
            assert_sensitivities(found, good, [bad])
            splits = [split]
            if "licensing" in row:
                splits.append(f"{split}-{'licensed' if row['licensing'] == 'Y' else 'unlicensed'}")
            for one in splits:
                outcomes.setdefault(one, []).append(good > bad)
            if polarity == "aff":
                article = "an" if row[true][0] in "aeiou" else "a"
                context = row["context_aff"].replace("(a|an)", article)
                assert_accuracies(found, reference, context, [row[true]])
                assert found["rank"] == 1 + sum(p > good for p in reference.probabilities(context).tolist())
    for split, right in outcomes.items():
        rate = cell(finished[1], name, "original", split, "sensitivity")
        n, p, z = len(right), sum(right) / len(right), 1.959963984540054
        middle, half = (p + z * z / 2 / n) / (1 + z * z / n), z * (p * (1 - p) / n + z * z / 4 / n / n) ** 0.5
        assert (rate["value"], rate["n"]) == (pytest.approx(p), n)
        assert rate["low"] == pytest.approx(middle - half / (1 + z * z / n), abs=1e-9)
        assert rate["high"] == pytest.approx(middle + half / (1 + z * z / n), abs=1e-9)


def test_rates_are_counts_over_items(finished, items):
    _, summary = finished
    for dataset, condition, split, metric in [
        ("CPRAG-102", "original", "H", "accuracy@5"),
        ("CPRAG-102", "original", "L", "sensitivity"),
        ("CPRAG-102", "shuffled-truncated", "all", "accuracy@5"),
        ("ROLE-88", "original", "cloze-4", "accuracy@5"),
        ("ROLE-88", "-Sub", "all", "accuracy@5"),
        ("ROLE-88", "original", "all", "sensitivity>0.01"),
    ]:
        own = [
            row[metric]
            for row in items.iter_rows(named=True)
            if (row["dataset"], row["condition"]) == (dataset, condition)
            and split in row["splits"]
            and row[metric] is not None
        ]
        rate = cell(summary, dataset, condition, split, metric)
        assert (rate["value"], rate["n"]) == (pytest.approx(sum(own) / len(own)), len(own))
        assert 0 <= rate["low"] <= rate["value"] <= rate["high"] <= 1


def test_an_item_counts_once_in_a_split(items):
    keys = items.explode("splits").select("dataset", "condition", "splits", "item")
    assert keys.n_unique() == len(keys)


# ---------------------------------------------------------------- resuming


def test_a_second_run_does_nothing_and_returns_the_same(finished, mini, real):
    folder, summary = finished
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}
    assert diagnostics.run(diagnostics.plan(mini, real, seed=7), None, folder).equals(summary)
    assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}


def test_an_interrupted_run_is_resumed_to_the_same_summary(mini, small, tmp_path, monkeypatch, interrupt):
    monkeypatch.setattr(diagnostics, "_ITEMS_PER_PART", 6)
    plan = diagnostics.plan(mini, small)
    model = MaskedLM(mini)
    expected = diagnostics.run(plan, model, tmp_path / "whole")
    calls = interrupt(diagnostics, "score", 3)
    with pytest.raises(KeyboardInterrupt):
        diagnostics.run(plan, model, tmp_path / "run")
    assert diagnostics.run(plan, model, tmp_path / "run").equals(expected)
    assert len(calls) == len(plan.parts) + 1  # the third part was begun twice


def test_items_do_not_depend_on_the_parts(mini, small, tmp_path, monkeypatch):
    expected = diagnostics.score(diagnostics.plan(mini, small), MaskedLM(mini), slice(0, None))
    monkeypatch.setattr(diagnostics, "_ITEMS_PER_PART", 5)
    diagnostics.run(diagnostics.plan(mini, small), MaskedLM(mini), tmp_path / "run")
    found = pl.read_parquet(tmp_path / "run/items.parquet")
    probabilities = ["probability", "top_probability"]
    assert found.drop(probabilities).equals(expected.drop(probabilities))


@pytest.mark.parametrize(
    ("change", "message"),
    [({"seed": 1}, "seed 7, now 1"), ({"seed": 7, "draws": 2}, "draws 3, now 2")],
)
def test_a_folder_made_with_other_settings_is_refused(finished, mini, real, change, message):
    with pytest.raises(InputError, match=message):
        diagnostics.run(diagnostics.plan(mini, real, **change), None, finished[0])


def test_a_folder_made_from_other_data_is_refused(finished, mini, small):
    with pytest.raises(InputError, match="was made with data sha256 "):
        diagnostics.run(diagnostics.plan(mini, small, seed=7), None, finished[0])


# ---------------------------------------------------------------- tables


def shown(tables, width=200):
    console = Console(width=width)
    with console.capture() as capture:
        console.print(*tables)
    return capture.get()


def cells(text, start):
    line = next(line for line in text.splitlines() if line.startswith(start))
    return [part.strip() for part in line.strip("│┃").replace("┃", "│").split("│")]


def test_our_copy_of_the_notes_figures_is_the_transcript(shared):
    notes = tomllib.loads((shared / "data/published/what-bert-is-not.toml").read_text("utf-8"))
    figures = {
        model: {
            (key[0], key[2], metric): figure["value"] for (key, metric), figure in diagnostics._published(model).items()
        }
        for model in ("bert-base-uncased", "bert-large-uncased", "mini")
    }
    natural = notes["neg_136"]["less_natural_negative_sentences_preferring_true_percent"]
    role = notes["role_88"]["accuracy_bert_large_percent"]
    both = {("CPRAG-102", "all", "accuracy@5"): 50, ("NEG-136-NAT", "negative-unlicensed", "sensitivity"): natural}
    large = {("ROLE-88", "all", f"accuracy@{k}"): role for k in notes["role_88"]["accuracy_k_tested"]}
    assert figures == {"bert-base-uncased": both, "bert-large-uncased": both | large, "mini": {}}


def test_accuracies_stand_in_the_papers_layout(finished):
    _, summary = finished
    text = shown(diagnostics.tables(summary, "mini")[:1])
    heading, row = cells(text, "┃ k"), cells(text, "│ 5")
    assert heading == ["k", "Orig", "Shuf", "Trunc", "Shuf + Trunc", "H", "L"]
    value, spread = (
        cell(summary, "CPRAG-102", "shuffled", "all", f"{name}accuracy@5")["value"] for name in ("", "sd:")
    )
    assert row[2] == f"{100 * value:.1f} ± {100 * spread:.1f}"
    assert "paper" not in text
    text = shown(diagnostics.tables(summary, "mini")[1:2])
    assert cells(text, "┃ k") == ["k", "Orig", "-Obj", "-Sub", "-ObjSub"]
    assert cells(text, "│ n") == ["n", "88", "88", "88", "88"]


def test_the_papers_figures_stand_in_brackets_with_their_doubts(finished):
    _, summary = finished
    text = shown(diagnostics.tables(summary, "google-bert/bert-large-uncased"))
    assert cells(text, "│ 5")[1].endswith("(≈ 50)")
    assert text.count("(37.5 ?)") == 2
    assert "without its k" in text
    assert "(37.5" not in shown(diagnostics.tables(summary, "bert-base-uncased"))


def test_sensitivities_and_tests_are_told(finished):
    _, summary = finished
    *_, sensitivities, tests = diagnostics.tables(summary, "mini")
    text = shown([sensitivities])
    rate, beyond = (
        cell(summary, "NEG-136-NAT", "original", "negative-licensed", metric)
        for metric in ("sensitivity", "sensitivity>0.01")
    )
    row = cells(text, "│ NAT   │ negative-licensed")
    assert row[2] == f"{100 * rate['value']:.1f}"
    assert row[3] == f"{100 * rate['low']:.1f} to {100 * rate['high']:.1f}"
    assert row[4:] == [f"{100 * beyond['value']:.1f}", "8"]
    assert "CPRAG 0 of 34, ROLE 0 of 44" in " ".join(text.split())
    text = shown([tests])
    key = ("NEG-136-SIMP", "original", "affirmative vs negative")
    p = cell(summary, *key, "mcnemar_p_holm:sensitivity")["value"]
    difference = cell(summary, *key, "difference:sensitivity")["value"]
    row = cells(text, "│ SIMP")
    assert row[1:4] == ["aff. / neg.", "preferred", f"{100 * difference:+.1f}"]
    assert row[-1] == f"{p:.2g}"


def test_tables_fit_in_80_columns(finished):
    text = shown(diagnostics.tables(finished[1], "bert-large-uncased"), width=200)
    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80


def test_one_data_set_alone_has_its_tables(mini, small, tmp_path):
    plan = diagnostics.plan(mini, Diagnostics(simple=small.simple))
    text = shown(diagnostics.tables(diagnostics.run(plan, MaskedLM(mini), tmp_path / "run"), "mini"))
    assert "NEG-136-SIMP" in text
    assert not any(name in text for name in ("CPRAG", "ROLE", "NAT"))
