"""The files of the benchmark and of GLUE, what labels are called, and how a model was trained."""

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.finished_run import published
from negengine.engine.experiments.nli.nli_pairs import (
    KINDS,
    SOURCES,
    Label,
    map_head,
    read_benchmark,
    read_original,
    read_sets,
)
from negengine.engine.experiments.nli.training_told import training_told

from ..conftest import HEADER

E, C, N, NOT = Label.ENTAILMENT, Label.CONTRADICTION, Label.NEUTRAL, Label.NOT_ENTAILMENT
ROW = "0\ta\tb\tentailment\r\n"
TRIPLE = "".join(f"{i}\ta\tb\tentailment\r\n" for i in range(3))
GLUE = "index\tsentence1\tsentence2\tlabel\n0\t"
SNLI_OF_GLUE = (
    "captionID\tsentence1\tsentence2\tlabel1\tgold_label\n1\ta\tb\tneutral\tneutral\n"
    "2\tc\td\tneutral\tentailment\tneutral\tentailment\tentailment\tentailment\n"
    "3\te\tf\tneutral\tentailment\t\t\t\t-\n"
)
ORIGINALS = [  # source, content, pairs, skipped
    ("RTE", f'{GLUE}It is.\tIt’s not "so\tnot_entailment\n', [("It is.", 'It’s not "so', NOT)], {}),  # without quoting
    (
        "MNLI",
        "promptID\tsentence1\tsentence2\tlabel1\tgold_label\n1\ta\tb\tneutral\tcontradiction\n",
        [("a", "b", C)],
        {},
    ),
    (
        "SNLI",
        "gold_label\tsentence1\tsentence2\n-\ta\tb\nneutral\tc\td\nneutral\tc\t \nneutral\t\td\n",
        [("c", "d", N)],
        {"without a gold label": 1, "with an empty sentence": 2},
    ),
    # The rows of SNLI in GLUE have up to five labels of annotators; the header of train.tsv has one.
    (
        "SNLI",
        SNLI_OF_GLUE,
        [("a", "b", N), ("c", "d", E)],
        {"without a gold label": 1},
    ),
]

UNNAMED = ("LABEL_0", "LABEL_1", "LABEL_2")


def test_label_shares_of_the_real_files_are_those_of_table_5(shared):
    for source, labels in SOURCES.items():
        pairs = read_benchmark(shared / f"data/datasets/negation-nli/{source}.txt", source).pairs
        for split, shares in published("nli")[source]["labels"].items():
            own = [pair.gold for pair in pairs if split in {pair.kind, "all"}]
            assert len(own) == (1500 if split == "all" else 500)
            assert [round(100 * own.count(label) / len(own), 1) for label in labels] == shares
        if source == "RTE":  # the files are in cp1252
            assert {char for pair in pairs for char in pair.text + pair.hypothesis if ord(char) > 127} == set("éá£")


def pairs_of(tmp_path, rows, encoding="cp1252"):
    """The pairs of a file with a column `type`, so that it can hold some pairs of a triple; index → row."""
    body = "".join(f"{KINDS[index % 3]}\t{index}\t{row}\r\n" for index, row in rows.items())
    (tmp_path / "RTE.txt").write_bytes((f"type\t{HEADER}{body}").encode(encoding))
    return read_benchmark(tmp_path / "RTE.txt", "RTE").pairs


def test_a_pair_has_the_same_id_in_every_file_and_any_other_pair_another(tmp_path):
    """Row numbers and indices say nothing of the pair: a file with other rows before it changes them."""
    rows = ("the café\tthe cat\tentailment", "a man\ta park\tentailment")
    one, other = (  # the copy that somebody has saved as UTF-8
        pairs_of(tmp_path, {0: first, 3: second}, encoding)
        for first, second, encoding in ((*rows, "cp1252"), (*rows[::-1], "utf-8-sig"))
    )
    assert [pair.id for pair in one] == [pair.id for pair in reversed(other)]
    assert one[0].text == other[1].text == "the café"
    own = {0: "a\tb .\tentailment", 1: "a\tb .\tentailment", 3: "a b\t.\tentailment", 6: "a\tb .\tentailment"}
    ids = {pair.item: pair.id for pair in pairs_of(tmp_path, own)}
    assert len(set(ids.values())) == 4
    assert ids[6] == f"{ids[0]}-2"  # another pair of the same words


def test_the_layouts_of_original_sets(tmp_path):
    for source, content, pairs, skipped in ORIGINALS:
        (tmp_path / "dev.tsv").write_text(content, "utf-8")
        found = read_original(tmp_path / "dev.tsv", source)
        assert [(pair.text, pair.hypothesis, pair.gold) for pair in found.pairs] == pairs
        assert found.unused == skipped


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "RTE.txt: the file is empty"),
        ("index\tText\tgold_label\r\n0\ta\tentailment", "RTE.txt:1: no column sentence2, Hypothesis, hypothesis"),
        (f"{HEADER}{TRIPLE}{ROW.replace('0', '4')}", "RTE.txt:5: index 4 is here, but not 3 of the same original pair"),
        (f"{HEADER}{TRIPLE.replace('2	a', '2	x')}", "RTE.txt:4: the text is not that of"),
        (f"{HEADER}{TRIPLE.replace('2	a	b', '2	a	x')}", "RTE.txt:4: the hypothesis is not that of"),
        (f"type\t{HEADER}T-Hneg\t{ROW}", "RTE.txt:2: the type is 'T-Hneg', but the index 0 is that of Tneg-H"),
        (f"{HEADER}{TRIPLE}".replace("\ta\t", '\t"a ""b"""\t'), "RTE.txt:2: this text stands in quotation marks"),
        (f'{GLUE}"a, b"\tc\tentailment\n', "dev.tsv:2: this text stands in quotation marks"),
        (f"language\t{GLUE[:-2]}en\t0\ta\tb\tentailment\nde\t1\ta\tb\tentailment\n", "dev.tsv:3: the language is 'de'"),
        (f"{GLUE}a\tb\tunknown\n", "dev.tsv:2: unknown label 'unknown'"),
        (f"{GLUE}a\tb\tneutral\tentailment\n", "dev.tsv:2: 5 fields, but the header has 4"),
        (f"{HEADER}{ROW}1\ta\tb\tperhaps\r\n", "RTE.txt:3: unknown label 'perhaps'; RTE has entailment"),
        (f"{HEADER}0\ta\tb\r\n", "RTE.txt:2: 3 fields, but the header has 4"),
        (f"{HEADER}{ROW}0\tc\td\tentailment", "RTE.txt:2 has the index 0, too"),
        (f"{HEADER}{ROW}".encode() + b"1\ta\x81\tb\tentailment\r\n", "RTE.txt:3: byte 0x81 is not UTF-8 or cp1252"),
        (f"{GLUE}a\tb\t-\n", "dev.tsv:2: no row has a gold label"),
        (GLUE.replace("index", "promptID") + "a\tb\tentailment\n", "dev.tsv:1: the column promptID is that"),
    ],
)
def test_bad_files_are_refused_in_one_line_with_file_and_line(content, message, tmp_path):
    name = message.partition(":")[0]
    (tmp_path / name.partition(" ")[0]).write_bytes(content if isinstance(content, bytes) else content.encode("cp1252"))
    with pytest.raises(InputError) as caught:
        read_original(tmp_path / name, "RTE") if name == "dev.tsv" else read_sets(tmp_path, {}, ["RTE"])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("names", "given", "found"),
    [
        (("CONTRADICTION", "NEUTRAL", "ENTAILMENT"), None, (C, N, E)),
        (("e", "n", "c"), None, (E, N, C)),
        (UNNAMED, "contradiction, entailment,neutral", (C, E, N)),
        (UNNAMED, None, "model: its labels are 'LABEL_0', 'LABEL_1', 'LABEL_2'.*--labels"),
        (UNNAMED, "entailment,neutral,maybe", r"give entailment, contradiction, neutral \(or entailment and not_ent"),
        (UNNAMED, "entailment,neutral,neutral", "each once"),
    ],
)
def test_names_of_heads_tell_the_labels_or_are_refused(names, given, found):
    if isinstance(found, tuple):
        assert map_head(names, "model", given) == found
    else:
        with pytest.raises(InputError, match=found):
            map_head(names, "model", given)


def test_the_settings_of_the_training_are_told_as_far_as_they_are_known():
    known = {"model": "bert-base-cased", "task": "RTE", "epochs": 50, "batch_size": 8, "learning_rate": 2e-5}
    known |= {"weight_decay": 0.0, "max_length": 128, "seed": 42}
    assert training_told(known) == (
        "We fine-tuned bert-base-cased on the original training split of RTE (transformers' Trainer; 50 epochs, "
        "batches of 8, learning rate 2e-05, weight decay 0, at most 128 tokens, seed 42). "
    )
    for unknown in ({}, {"model": "m"}, known | {"epochs": "many"}):
        assert training_told(unknown) == ""
