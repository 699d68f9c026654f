"""From the files of lm-diagnostics, and what is wrong with a bad one, to what a model is asked."""

from collections import Counter

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.diagnostics.contexts import DATASETS, Rows, build_items, read_diagnostics, shuffle

from .conftest import write_tables


def texts(items, **wanted):
    chosen = [item for item in items if all(getattr(item, name) == value for name, value in wanted.items())]
    return [item.completions[0].text for item in chosen]


def test_what_is_asked_of_each_data_set(small):
    items = build_items(small, draws=1, seed=0)
    compared = {name: [tuple(one.sentence for one in item.compared) for item in items
                       if item.dataset == name and item.compared] for name in ("NEG-136-SIMP", "ROLE-88")}  # fmt: skip
    said, nouns = "the man forgot which {} had served.", ("customer the waitress", "waitress the customer")
    assert compared == {
        "NEG-136-SIMP": [
            ("A hammer is a tool.", "A hammer is an insect."),
            ("A hammer is not an insect.", "A hammer is not a tool."),
        ],
        "ROLE-88": [tuple(map(said.format, nouns))],
    }
    originals = {(item.dataset, item.item): item for item in items if item.condition == "original"}
    assert originals["NEG-136-NAT", "1 negative"].splits == ("all", "negative", "unlicensed", "negative-unlicensed")
    role = {name: originals["ROLE-88", name] for name in ("1-b", "1-a", "1")}
    assert [one.word for one in role["1-b"].expected] == ["tipped", "paid"]  # the first word of each alternative
    bins = {name: item.splits for name, item in role.items()}  # quartiles of 0.2 and 0.6: 0.3, 0.4, 0.5
    assert bins == {"1-b": ("all", "cloze-1"), "1-a": ("all", "cloze-4"), "1": ("all",)}
    for condition, context in (
        ("-Obj", "the man forgot which one the customer had"),
        ("-Sub", "the man forgot which waitress the other had"),
        ("-ObjSub", "the man forgot which one the other had"),
    ):
        assert texts(items, dataset="ROLE-88", condition=condition, item="1-b") == [f"{context} [MASK]."]
    truncated = ["The dog ran. to the [MASK].", "The red car. It was new. She [MASK]."]
    assert texts(items, dataset="CPRAG-102", condition="truncated") == truncated


def test_shuffling_keeps_the_words_and_one_full_stop_and_both_perturbations_share_the_order_of_a_draw(small):
    items = build_items(small, draws=4, seed=0)
    shuffled = texts(items, condition="shuffled", cluster="1")
    assert len(shuffled) == 4
    for text in shuffled:
        first, _, second = text.partition(". ")
        assert second == "She [MASK]."
        assert Counter(first.split()) == Counter(["The", "red", "car", "It", "was", "new"])
    assert len(set(shuffled)) > 1
    both = texts(items, condition="shuffled-truncated", cluster="0")
    whole = texts(items, condition="shuffled", cluster="0")
    assert both == [text.replace("At last it came to the", "to the") for text in whole]


def test_orders_depend_on_the_sentence_draw_and_seed_alone(small):
    turned = Rows(pragmatic=small.pragmatic[::-1])
    assert set(build_items(Rows(small.pragmatic), draws=3, seed=2)) == set(build_items(turned, draws=3, seed=2))
    assert len({shuffle("a b c d e f g h i j", draw, seed) for draw in (1, 2) for seed in (0, 1)}) == 4


def test_counts_are_the_papers(shared):
    """In 4 of the 18 items of SIMP the two targets need different articles, as the data's README tells."""
    items = build_items(read_diagnostics(shared / "data/datasets/lm-diagnostics"), draws=1, seed=0)
    own = {name: [item for item in items if (item.dataset, item.condition) == (name, "original")] for name in DATASETS}
    asked = {name: (sum(bool(item.expected) for item in each), sum(bool(item.compared) for item in each))
             for name, each in own.items()}  # fmt: skip
    assert asked == {"CPRAG-102": (34, 34), "ROLE-88": (88, 44), "NEG-136-SIMP": (18, 36), "NEG-136-NAT": (16, 32)}
    assert len({item.cluster for item in own["NEG-136-SIMP"] if len({one.text for one in item.compared}) > 1}) == 4


BAD = [  # a text of a table, what stands in its place, and the message
    ("CPRAG_102", "\tconstraint\n", "\tlevel\n", r"CPRAG-102\.tsv:1: no column 'constraint'; the header has item"),
    ("CPRAG_102", "\tdog\t", "\t \t", r"CPRAG-102\.tsv:2: expected is ' '; a text is needed"),
    ("CPRAG_102", "1\tThe", "0\tThe", r"CPRAG-102\.tsv:3: item 0 is also in .*CPRAG-102\.tsv:2"),
    ("CPRAG_102", "\tShe\t", "\tShe [MASK]\t", r"CPRAG-102\.tsv:3: context_s2 has a \[MASK\]; it must end"),
    ("ROLE_88", "1-a", "2-a", r"ROLE-88\.tsv:2: item 1-b has no counterpart 1-a"),
    ("ROLE_88", "0.6\tserved", "0.6\tfed", r"ROLE-88\.tsv:2: target is 'served', but that of 1-a is 'fed'"),
    ("ROLE_88", "0.2", "nan", r"ROLE-88\.tsv:2: exp_cloze is 'nan'; a number is needed"),
]


def test_a_bad_table_is_refused_with_its_place(tmp_path):
    for name, old, new, message in BAD:
        with pytest.raises(InputError, match=message) as caught:
            read_diagnostics(write_tables(tmp_path, **{name: (old, new)}))
        assert "\n" not in str(caught.value)


def test_one_file_or_one_name_reads_one_data_set(tmp_path):
    write_tables(tmp_path)
    one, other = read_diagnostics(tmp_path / "ROLE-88.tsv"), read_diagnostics(tmp_path, ["ROLE-88"])
    assert one == other == Rows(reversals=one.reversals)
