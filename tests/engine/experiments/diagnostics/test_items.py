"""From the files of lm-diagnostics, and what is wrong with a bad one, to what a model is asked."""

from collections import Counter

import polars as pl
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.diagnostics.contexts import DATASETS, read_diagnostics, requests_of, shuffle
from negengine.engine.inference.free_text import MASK
from negengine.engine.requests.items import ITEM
from polars.testing import assert_frame_equal

from .conftest import write_tables


def texts(rows, **wanted):
    """The first text of each item."""
    return rows.filter(**wanted).unique(ITEM, keep="first", maintain_order=True)["text"].to_list()


def test_what_is_asked_of_each_data_set(small):
    rows = requests_of(small, draws=1, seed=0)
    sides = rows.drop_nulls("role").with_columns(whole=pl.col("text").str.replace(MASK, pl.col("word"), literal=True))
    whole = sides.sort("role", descending=True).group_by(ITEM, maintain_order=True).agg("whole")
    compared = {name: sorted(map(tuple, whole.filter(dataset=name)["whole"])) for name in ("NEG-136-SIMP", "ROLE-88")}
    said, nouns = "the man forgot which {} had served.", ("customer the waitress", "waitress the customer")
    assert compared == {
        "NEG-136-SIMP": [
            ("A hammer is a tool.", "A hammer is an insect."),
            ("A hammer is not an insect.", "A hammer is not a tool."),
        ],
        "ROLE-88": [tuple(map(said.format, nouns))],
    }
    originals = rows.filter(condition="original")
    natural = originals.filter(dataset="NEG-136-NAT", item="1 negative")
    assert natural["splits"].to_list() == [["all", "negative", "unlicensed", "negative-unlicensed"]] * 2
    role = originals.filter(dataset="ROLE-88")
    # The first word of each alternative.
    assert role.filter("is_expected", item="1-b")["word"].to_list() == ["tipped", "paid"]
    bins = dict(role.select("item", "splits").unique("item").iter_rows())  # quartiles of 0.2 and 0.6: 0.3, 0.4, 0.5
    assert bins == {"1-b": ["all", "cloze-1"], "1-a": ["all", "cloze-4"], "1": ["all"]}
    for condition, context in (
        ("-Obj", "the man forgot which one the customer had"),
        ("-Sub", "the man forgot which waitress the other had"),
        ("-ObjSub", "the man forgot which one the other had"),
    ):
        assert texts(rows, dataset="ROLE-88", condition=condition, item="1-b") == [f"{context} [MASK]."]
    truncated = ["The dog ran. to the [MASK].", "The red car. It was new. She [MASK]."]
    assert texts(rows, dataset="CPRAG-102", condition="truncated") == truncated


def test_shuffling_keeps_the_words_and_one_full_stop_and_both_perturbations_share_the_order_of_a_draw(small):
    rows = requests_of(small, draws=4, seed=0)
    shuffled = texts(rows, condition="shuffled", cluster="1")
    assert len(shuffled) == 4
    for text in shuffled:
        first, _, second = text.partition(". ")
        assert second == "She [MASK]."
        assert Counter(first.split()) == Counter(["The", "red", "car", "It", "was", "new"])
    assert len(set(shuffled)) > 1
    both = texts(rows, condition="shuffled-truncated", cluster="0")
    whole = texts(rows, condition="shuffled", cluster="0")
    assert both == [text.replace("At last it came to the", "to the") for text in whole]


def test_orders_depend_on_the_sentence_draw_and_seed_alone(small):
    rows = small["CPRAG-102"]
    both = (requests_of({"CPRAG-102": own}, draws=3, seed=2).sort(pl.all()) for own in (rows, rows[::-1]))
    assert_frame_equal(*both)
    assert len({shuffle("a b c d e f g h i j", draw, seed) for draw in (1, 2) for seed in (0, 1)}) == 4


def test_counts_are_the_papers(shared):
    """In 4 of the 18 items of SIMP the two targets need different articles, as the data's README tells."""
    rows = requests_of(read_diagnostics(shared / "data/datasets/lm-diagnostics"), draws=1, seed=0)
    own = {name: rows.filter(dataset=name, condition="original") for name in DATASETS}
    asked = {name: (each.filter("is_expected")["item"].n_unique(), each.drop_nulls("role")["item"].n_unique())
             for name, each in own.items()}  # fmt: skip
    assert asked == {"CPRAG-102": (34, 34), "ROLE-88": (88, 44), "NEG-136-SIMP": (18, 36), "NEG-136-NAT": (16, 32)}
    assert own["NEG-136-SIMP"].filter(pl.col("text").n_unique().over(ITEM) > 1)["cluster"].n_unique() == 4


BAD = [  # a text of a table, what stands in its place, and the message
    ("CPRAG_102", "\tconstraint\n", "\tlevel\n", r"CPRAG-102\.tsv: no column 'constraint'; it has 'item'"),
    ("CPRAG_102", "\tdog\t", "\t \t", r"CPRAG-102\.tsv:2: expected is empty; a text is needed"),
    ("CPRAG_102", "1\tThe", "0\tThe", r"CPRAG-102\.tsv:3: item 0 is also in .*CPRAG-102\.tsv:2"),
    ("CPRAG_102", "\tShe\t", "\tShe [MASK]\t", r"CPRAG-102\.tsv:3: context_s2 has a \[MASK\]; it must end"),
    ("ROLE_88", "1-a", "2-a", r"ROLE-88\.tsv:2: item 1-b has no counterpart 1-a"),
    ("ROLE_88", "0.6\tserved", "0.6\tfed", r"ROLE-88\.tsv:2: target is 'served', but that of 1-a is 'fed'"),
    ("ROLE_88", "0.2", "nan", r"ROLE-88\.tsv:2: exp_cloze is 'nan'; a number from 0 to 1 is needed"),
]


def test_a_bad_table_is_refused_with_its_place(tmp_path):
    for name, old, new, message in BAD:
        with pytest.raises(InputError, match=message):
            read_diagnostics(write_tables(tmp_path, **{name: (old, new)}))


def test_one_file_or_one_name_reads_one_data_set(tmp_path):
    write_tables(tmp_path)
    one, other = read_diagnostics(tmp_path / "ROLE-88.tsv"), read_diagnostics(tmp_path, ["ROLE-88"])
    assert one == other
    assert set(one) == {"ROLE-88"}
