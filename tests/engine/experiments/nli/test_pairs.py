"""Reading the benchmark's files and original dev sets in the layouts of GLUE."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.nli.nli_pairs import SOURCES, Label, read_benchmark, read_original, read_sets
from negengine.engine.experiments.published import published

from .conftest import BENCHMARK, HEADER

E, C, N, NOT = Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL, Label.NOT_ENTAILMENT


def test_label_shares_of_the_real_files_are_those_of_table_5(shared):
    for source, labels in SOURCES.items():
        pairs = read_benchmark(shared / BENCHMARK / f"{source}.txt", source).pairs
        for split, shares in published("nli")[source]["labels"].items():
            own = [pair.gold for pair in pairs if split in {pair.kind, "all"}]
            assert len(own) == (1500 if split == "all" else 500)
            assert [round(100 * own.count(label) / len(own), 1) for label in labels] == shares
        if source == "RTE":  # the files are in cp1252
            assert {char for pair in pairs for char in pair.text + pair.hypothesis if ord(char) > 127} == set("éá£")


def pairs_of(tmp_path, body, encoding="cp1252"):
    (tmp_path / "RTE.txt").write_bytes((HEADER + body).encode(encoding))
    return read_benchmark(tmp_path / "RTE.txt", "RTE").pairs


def test_the_type_of_a_pair_follows_from_its_index(tmp_path):
    body = "".join(f"{i}\tcafé\tb\tentailment\r\n" for i in (5, 0, 1, 3, 2))
    for encoding in ("cp1252", "utf-8-sig"):  # a copy that somebody has saved
        pairs = pairs_of(tmp_path, body, encoding)
        kinds = {pair.item: pair.kind for pair in pairs}
        assert kinds == {0: "Tneg-H", 1: "T-Hneg", 2: "Tneg-Hneg", 3: "Tneg-H", 5: "Tneg-Hneg"}
        assert pairs[0].text == "café"


ROW = "0\ta\tb\tentailment\r\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "RTE.txt:1: the file is empty"),
        (HEADER, "RTE.txt:1: no row below the header"),
        ("index\tText\tgold_label\r\n0\ta\tentailment", "RTE.txt:1: no column sentence2 or Hypothesis; the header"),
        (f"{HEADER}{ROW}1\ta\tb\tperhaps\r\n", "RTE.txt:3: unknown label 'perhaps'; RTE has entailment"),
        (f"{HEADER}0\ta\tb\tneutral\r\n", "RTE.txt:2: unknown label 'neutral'; RTE has entailment, not_entailment"),
        (f"{HEADER}0\ta\tb\r\n", "RTE.txt:2: 3 fields, but the header has 4"),
        (f"{HEADER}x\ta\tb\tentailment\r\n", "RTE.txt:2: index 'x' is not a whole number"),
        (f"{HEADER}{ROW}0\tc\td\tentailment", "RTE.txt:2 has the index 0, too"),
        (f"{HEADER}0\ta\t \tentailment\r\n", "RTE.txt:2: the hypothesis is empty"),
        ((HEADER + ROW).encode("utf-16"), "RTE.txt:1: the character U+0000"),
        (f"{HEADER}{ROW}".encode() + b"1\ta\x81\tb\tentailment\r\n", "RTE.txt:3: byte 0x81 is not UTF-8 or cp1252"),
    ],
)
def test_bad_files_are_refused_in_one_line_with_file_and_line(content, message, tmp_path):
    (tmp_path / "RTE.txt").write_bytes(content if isinstance(content, bytes) else content.encode("cp1252"))
    with pytest.raises(InputError) as caught:
        read_sets(tmp_path, {}, ["RTE"])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


# ---------------------------------------------------------------- ids


def test_a_pair_has_the_same_id_in_every_file_and_any_other_pair_another(tmp_path):
    """Row numbers and indices say nothing of the pair: a file with other rows before it changes them."""
    rows = ("the dog\tthe cat\tentailment\r\n", "a man\ta park\tentailment\r\n")
    both = [pairs_of(tmp_path, f"0\t{one}3\t{other}") for one, other in (rows, rows[::-1])]
    assert [pair.id for pair in both[0]] == [pair.id for pair in reversed(both[1])]
    body = (
        "0\ta\tb\tentailment\r\n1\ta\tb\tentailment\r\n3\ta\tb\tnot_entailment\r\n"
        "6\ta b\t.\tentailment\r\n9\ta\tb .\tentailment\r\n12\ta\tb\tentailment\r\n"
    )
    ids = {pair.item: pair.id for pair in pairs_of(tmp_path, body)}
    assert len(set(ids.values())) == 6
    assert ids[12] == f"{ids[0]}-2"


# ---------------------------------------------------------------- GLUE's layouts


GLUE_MNLI = "\t".join(
    [
        *("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse"),
        *("sentence1_parse", "sentence2_parse", "sentence1", "sentence2", "label1", "label2", "gold_label"),
    ]
)
GLUE_RTE = (
    'index\tsentence1\tsentence2\tlabel\n0\tIt is.\tIt’s not "so\tnot_entailment\n1\tIt was.\tIt was.\tentailment\n'
)
SNLI_OWN = "gold_label\tsentence1_binary_parse\tsentence1\tsentence2\tlabel1\tlabel2"
MNLI_ROW = "0\t1\t1n\tfiction\t( a )\t( b )\t(A)\t(B)\ta\tb\tneutral\tneutral\tcontradiction"


@pytest.mark.parametrize(
    ("source", "content", "pairs", "skipped"),
    [
        ("RTE", GLUE_RTE, [("It is.", 'It’s not "so', NOT), ("It was.", "It was.", E)], 0),  # without quoting
        ("MNLI", f"{GLUE_MNLI}\n{MNLI_ROW}\n", [("a", "b", C)], 0),  # the gold label, not an annotator's
        ("SNLI", f"{SNLI_OWN}\n-\tx\ta\tb\tneutral\t\nneutral\tx\tc\td\tneutral\t\n", [("c", "d", N)], 1),
    ],
)
def test_the_layouts_of_original_sets(source, content, pairs, skipped, tmp_path):
    (tmp_path / "dev.tsv").write_text(content, "utf-8")
    found = read_original(tmp_path / "dev.tsv", source)
    assert [(pair.text, pair.hypothesis, pair.gold) for pair in found.pairs] == pairs
    assert found.skipped == skipped


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"index\tsentence1\tsentence2\n0\ta\tb\n", "dev.tsv:1: no column gold_label or label; the header has index"),
        (b"index\tsentence1\tsentence2\tlabel\n0\ta\xe9\tb\tentailment\n", "dev.tsv:2: byte 0xe9 is not UTF-8"),
        (b"sentence1\tsentence2\tlabel\na\tb\t-\n", "dev.tsv:2: no row has a gold label"),
        (
            b"promptID\tsentence1\tsentence2\tlabel\n1\ta\tb\tentailment\n",
            "dev.tsv:1: the column promptID is that",
        ),
    ],
)
def test_bad_original_sets_are_refused(content, message, tmp_path):
    (tmp_path / "dev.tsv").write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_original(tmp_path / "dev.tsv", "RTE")
