"""Reading the benchmark's files and original dev sets in the layouts of GLUE."""

from collections import Counter

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.nli.nli_pairs import SOURCES, Label, read_benchmark, read_original, read_sets
from negengine.engine.experiments.published import published

from .conftest import BENCHMARK, HEADER

E, C, N, NOT = Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL, Label.NOT_ENTAILMENT


@pytest.mark.parametrize("source", ["RTE", "SNLI", "MNLI"])
def test_label_shares_of_the_real_files_are_those_of_table_5(source, shared):
    pairs = read_benchmark(shared / BENCHMARK / f"{source}.txt", source).pairs
    assert len(pairs) == 1500
    for split in ("Tneg-H", "T-Hneg", "Tneg-Hneg", "all"):
        own = [pair.gold for pair in pairs if split in {pair.kind, "all"}]
        assert len(own) == (1500 if split == "all" else 500)
        counts = Counter(own)
        shares = [round(100 * counts[label] / len(own), 1) for label in SOURCES[source]]
        assert shares == published("nli")[source]["labels"][split]


def test_letters_beyond_ascii_are_read_as_cp1252(shared):
    pairs = read_benchmark(shared / BENCHMARK / "RTE.txt", "RTE").pairs
    assert {char for pair in pairs for char in pair.text + pair.hypothesis if ord(char) > 127} == set("éá£")


def benchmark(tmp_path, body, header=HEADER):
    path = tmp_path / "RTE.txt"
    path.write_bytes((header + body).encode("cp1252"))
    return path


def test_the_type_of_a_pair_follows_from_its_index(tmp_path):
    body = "".join(f"{i}\ta\tb\tentailment\r\n" for i in (5, 0, 1, 3, 2))
    kinds = {pair.item: pair.kind for pair in read_benchmark(benchmark(tmp_path, body), "RTE").pairs}
    assert kinds == {0: "Tneg-H", 1: "T-Hneg", 2: "Tneg-Hneg", 3: "Tneg-H", 5: "Tneg-Hneg"}


def test_a_copy_saved_as_utf8_is_read_as_such(tmp_path):
    path = tmp_path / "RTE.txt"
    path.write_bytes((HEADER + "0\tcafé\tb\tentailment\r\n").encode("utf-8-sig"))
    assert read_benchmark(path, "RTE").pairs[0].text == "café"


@pytest.mark.parametrize(
    ("header", "body", "message"),
    [
        ("", "", "RTE.txt:1: the file is empty"),
        (HEADER, "", "RTE.txt:1: no row below the header"),
        ("index\tText\tgold_label\r\n", "0\ta\tentailment", "RTE.txt:1: no column sentence2 or Hypothesis; the header"),
        ("Text\tHypothesis\tgold_label\r\n", "a\tb\tentailment", "RTE.txt:1: no column index"),
        ("index\tText\tHypothesis\r\n", "0\ta\tb", "RTE.txt:1: no column gold_label or label"),
        (
            HEADER,
            "0\ta\tb\tentailment\r\n1\ta\tb\tperhaps\r\n",
            "RTE.txt:3: unknown label 'perhaps'; RTE has entailment",
        ),
        (HEADER, "0\ta\tb\tneutral\r\n", "RTE.txt:2: unknown label 'neutral'; RTE has entailment, not_entailment"),
        (HEADER, "0\ta\tb\r\n", "RTE.txt:2: 3 fields, but the header has 4"),
        (HEADER, "x\ta\tb\tentailment\r\n", "RTE.txt:2: index 'x' is not a whole number"),
        (HEADER, "0\ta\tb\tentailment\r\n0\tc\td\tentailment", "RTE.txt:2 has the index 0, too"),
        (HEADER, "0\ta\t \tentailment\r\n", "RTE.txt:2: the hypothesis is empty"),
        (HEADER, "0\t\tb\tentailment\r\n", "RTE.txt:2: the text is empty"),
    ],
)
def test_bad_files_are_refused_in_one_line_with_file_and_line(header, body, message, tmp_path):
    with pytest.raises(InputError) as caught:
        read_benchmark(benchmark(tmp_path, body, header), "RTE")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ((HEADER + "0\ta\tb\tentailment\r\n").encode("utf-16"), "RTE.txt:1: the character U+0000"),
        (
            HEADER.encode() + b"0\ta\tb\tentailment\r\n1\ta\x81\tb\tentailment\r\n",
            "RTE.txt:3: byte 0x81 is not UTF-8 or cp1252",
        ),
    ],
)
def test_other_encodings_are_refused(content, message, tmp_path):
    (tmp_path / "RTE.txt").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_benchmark(tmp_path / "RTE.txt", "RTE")
    assert message in str(caught.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"SNLI\.txt: cannot be read"):
        read_sets(tmp_path, {}, ["SNLI"])


# ---------------------------------------------------------------- ids


def test_a_pair_has_the_same_id_in_every_file(tmp_path):
    """Row numbers and indices say nothing of the pair: a file with other rows before it changes them."""
    rows = ("the dog\tthe cat\tentailment\r\n", "a man\ta park\tentailment\r\n")
    first = read_benchmark(benchmark(tmp_path, f"0\t{rows[0]}3\t{rows[1]}"), "RTE").pairs
    second = read_benchmark(benchmark(tmp_path, f"0\t{rows[1]}3\t{rows[0]}"), "RTE").pairs
    assert {pair.text: pair.id for pair in first} == {pair.text: pair.id for pair in second}


def test_pairs_that_differ_in_anything_have_other_ids(tmp_path):
    body = (
        "0\ta\tb\tentailment\r\n1\ta\tb\tentailment\r\n"
        "3\ta\tb\tnot_entailment\r\n6\ta b\t.\tentailment\r\n9\ta\tb .\tentailment\r\n"
    )
    pairs = read_benchmark(benchmark(tmp_path, body), "RTE").pairs
    assert len({pair.id for pair in pairs}) == 5


def test_the_second_of_two_equal_pairs_has_an_id_of_its_own(tmp_path):
    first, second = read_benchmark(benchmark(tmp_path, "0\ta\tb\tentailment\r\n3\ta\tb\tentailment\r\n"), "RTE").pairs
    assert second.id == f"{first.id}-2"


# ---------------------------------------------------------------- GLUE's layouts

GLUE_RTE = 'index\tsentence1\tsentence2\tlabel\n0\tIt is.\tIt’s not "so\n1\tIt was.\tIt was.\tentailment\n'
GLUE_MNLI = "\t".join(
    [
        *("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"),
        *("sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1", "label2", "gold_label"),
    ]
)
SNLI_OWN = "gold_label\tsentence1_binary_parse\tsentence1\tsentence2\tlabel1\tlabel2"


def test_glue_rte_without_quoting(tmp_path):
    (tmp_path / "dev.tsv").write_text(GLUE_RTE.replace('"so', '"so\tnot_entailment'), "utf-8")
    pairs = read_original(tmp_path / "dev.tsv", "RTE").pairs
    assert [(pair.hypothesis, pair.gold) for pair in pairs] == [('It’s not "so', NOT), ("It was.", E)]


def test_glue_mnli_takes_the_gold_label_not_an_annotators(tmp_path):
    row = "0\t1\t1n\tfiction\t( a )\t( b )\t(A)\t(B)\ta\tb\tneutral\tneutral\tcontradiction"
    (tmp_path / "dev_matched.tsv").write_text(f"{GLUE_MNLI}\n{row}\n")
    (pair,) = read_original(tmp_path / "dev_matched.tsv", "MNLI").pairs
    assert (pair.text, pair.hypothesis, pair.gold) == ("a", "b", C)


def test_snli_pairs_without_consensus_are_excluded_and_counted(tmp_path):
    (tmp_path / "dev.txt").write_text(f"{SNLI_OWN}\n-\tx\ta\tb\tneutral\t\nneutral\tx\tc\td\tneutral\t\n")
    pairs = read_original(tmp_path / "dev.txt", "SNLI")
    assert ([pair.text for pair in pairs.pairs], pairs.skipped) == (["c"], 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"index\tsentence1\tsentence2\n0\ta\tb\n", "dev.tsv:1: no column gold_label or label; the header has index"),
        (b"index\tsentence1\tsentence2\tlabel\n0\ta\xe9\tb\tentailment\n", "dev.tsv:2: byte 0xe9 is not UTF-8"),
        (b"sentence1\tsentence2\tlabel\na\tb\t-\n", "dev.tsv:2: no row has a gold label"),
    ],
)
def test_bad_original_sets_are_refused(content, message, tmp_path):
    (tmp_path / "dev.tsv").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_original(tmp_path / "dev.tsv", "RTE")
    assert message in str(caught.value)
