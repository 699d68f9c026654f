"""Reading GLUE's files for a training: layouts of the three tasks, samples, and files that are not the task's."""

import pytest
from negengine.engine.errors import InputError
from negengine.export.training.nli.data import read_data

PARSES = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
HEADERS = {
    "RTE": "index\tsentence1\tsentence2\tlabel",
    "SNLI": f"index\tcaptionID\tpairID\t{PARSES}\tsentence1\tsentence2\tlabel1\tgold_label",
    "MNLI": f"index\tpromptID\tpairID\tgenre\t{PARSES}\tsentence1\tsentence2\tlabel1\tgold_label",
}
LABELS = {"RTE": ("entailment", "not_entailment"), "SNLI": ("neutral", "-"), "MNLI": ("contradiction", "entailment")}


def row(source: str, number: int, label: str) -> str:
    known = {"index": str(number), "sentence1": f"text {number}", "sentence2": f"hypothesis {number}"}
    return "\t".join(known.get(column, label if "label" in column else "x") for column in HEADERS[source].split("\t"))


def write(folder, source, dev="dev.tsv", n=6):
    rows = [HEADERS[source], *(row(source, i, LABELS[source][i % 2]) for i in range(n))]
    for name in ("train.tsv", dev):
        (folder / name).write_text("\n".join(rows) + "\n", "utf-8")
    return folder


def read(source, folder, **options):
    plain = {"fraction": None, "benchmark": None, "limit": None, "seed": 0, "say": lambda _: None}
    return read_data(source, folder, **plain | options)


@pytest.mark.parametrize(
    ("source", "first", "n"),
    [
        ("RTE", [("text 0", "hypothesis 0", 0), ("text 1", "hypothesis 1", 1)], 6),
        ("SNLI", [("text 0", "hypothesis 0", 2), ("text 2", "hypothesis 2", 2)], 3),  # "-" is not a gold label
        ("MNLI", [("text 0", "hypothesis 0", 1), ("text 1", "hypothesis 1", 0)], 6),
    ],
)
def test_columns_are_found_by_their_names(source, first, n, tmp_path):
    found = read(source, write(tmp_path, source))
    assert list(found.original[:2]) == first
    assert len(found.original) == len(found.dev) == n


def test_mnli_has_the_matched_dev_set(tmp_path):
    assert read("MNLI", write(tmp_path, "MNLI", "dev_matched.tsv")).dev_file.name == "dev_matched.tsv"


def test_a_limit_draws_pairs_at_random_by_the_seed(tmp_path):
    write(tmp_path, "RTE", n=100)
    one, same, other = (read("RTE", tmp_path, limit=10, seed=seed).original for seed in (1, 1, 2))
    assert len(one) == 10
    assert one == same != other
    assert one == sorted(one, key=lambda pair: int(pair[0].split()[1]))
    assert len(read("RTE", tmp_path, limit=1000).original) == 100


def test_pairs_with_negation_are_added_to_the_training_alone(tmp_path, negation):
    found = read("RTE", write(tmp_path, "RTE"), fraction=0.7, benchmark=negation)
    assert len(found.examples(with_negation=False)) == 6
    assert len(found.examples(with_negation=True)) == 6 + len(found.negation.train) == 6 + 126
    assert len(found.dev) == 6
    assert not {pair.text for pair in found.negation.held_out} & {text for text, _, _ in found.original}


def test_what_a_training_without_negation_depends_on_is_not_changed_by_it(tmp_path, negation):
    write(tmp_path, "RTE")
    without, with_ = read("RTE", tmp_path), read("RTE", tmp_path, fraction=0.7, benchmark=negation)
    assert with_.identity_of(with_negation=False) == without.identity_of(with_negation=False) == without.identity
    assert with_.identity_of(with_negation=True)["negation"] == 0.7


def test_the_digest_is_that_of_the_files(tmp_path):
    before = read("RTE", write(tmp_path, "RTE")).identity
    (tmp_path / "dev.tsv").write_text(f"{HEADERS['RTE']}\n{row('RTE', 9, 'entailment')}\n")
    after = read("RTE", tmp_path).identity
    assert {key for key in before if before[key] != after[key]} == {"dev sha256"}


def rte(*rows: str) -> str:
    return "\n".join([HEADERS["RTE"], *rows]) + "\n"


@pytest.mark.parametrize(
    ("source", "content", "said"),
    [
        ("RTE", rte("0\ta\tb\tneutral"), r"train.tsv:2: unknown label 'neutral'; RTE has entailment, not_entailment"),
        ("MNLI", rte("0\ta\tb\tentailment", "1\ta\tb\tnot_entailment"), r"train.tsv:3: unknown label 'not_entailment'"),
        ("RTE", f"{HEADERS['MNLI']}\n{row('MNLI', 0, 'neutral')}\n", "train.tsv:1: the column promptID is that of"),
        ("MNLI", f"{HEADERS['SNLI']}\n{row('SNLI', 0, 'neutral')}\n", "train.tsv:1: the column captionID is that of"),
        ("SNLI", f"{HEADERS['MNLI']}\n{row('MNLI', 0, 'neutral')}\n", "train.tsv:1: the column promptID is that of"),
        ("RTE", "index\tquestion\tsentence\tlabel\n0\ta\tb\tentailment\n", "train.tsv:1: no column sentence1 or Text"),
        ("RTE", rte("0\ta\tb"), r"train.tsv:2: 3 fields, but the header has 4"),
        ("RTE", rte("0\ta\t \tentailment"), "train.tsv:2: the hypothesis is empty"),
        ("RTE", rte(), "train.tsv:1: no row below the header"),
        ("RTE", "", "train.tsv:1: the file is empty"),
        ("RTE", "gj04\t1\t\tOur friends won't buy this analysis.\n", "train.tsv:1: no row below the header"),  # CoLA
        ("RTE", rte("0\ta\tb\t-"), "train.tsv:2: no row has a gold label"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_file_and_line(source, content, said, tmp_path):
    write(tmp_path, "RTE")
    (tmp_path / "train.tsv").write_text(content, "utf-8")
    with pytest.raises(InputError, match=said):
        read(source, tmp_path)


def test_a_missing_file_names_what_is_needed(tmp_path):
    with pytest.raises(InputError, match=r"holds no train.tsv; --data is GLUE's folder of RTE"):
        read("RTE", tmp_path)
    write(tmp_path, "RTE")
    (tmp_path / "dev.tsv").unlink()
    with pytest.raises(InputError, match=r"holds no dev.tsv or dev_matched.tsv"):
        read("RTE", tmp_path)


def test_missing_pairs_with_negation_name_their_option(tmp_path):
    with pytest.raises(InputError, match=r"nowhere: no such file or folder; give another --negation-data"):
        read("RTE", write(tmp_path, "RTE"), fraction=0.7, benchmark=tmp_path / "nowhere")
