"""The pairs of a training: files of GLUE, those of the hub, and pairs with negation that are learned or held out."""

from dataclasses import replace

import polars as pl
import pytest
from hub_here import serve
from negengine.engine.basics.errors import InputError
from negengine.engine.experiments.nli.nli_pairs import KINDS, Label, Pair, read_benchmark
from negengine.export.training.nli_pairs import read_data, split, write_held_out

PARSES = "sentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse"
HEADERS = {
    "RTE": "index\tsentence1\tsentence2\tlabel",
    "SNLI": f"index\tcaptionID\tpairID\t{PARSES}\tsentence1\tsentence2\tlabel1\tgold_label",
    "MNLI": f"index\tpromptID\tpairID\tgenre\t{PARSES}\tsentence1\tsentence2\tlabel1\tgold_label",
}
LABELS = {"RTE": ("entailment", "not_entailment"), "SNLI": ("neutral", "-"), "MNLI": ("contradiction", "entailment")}


def rows(source: str, n: int = 6) -> str:
    """A file of `n` pairs with the labels of the source in turn."""
    lines = [HEADERS[source]]
    for i in range(n):
        known = {"index": str(i), "sentence1": f"text {i}", "sentence2": f"hypothesis {i}"}
        label = LABELS[source][i % 2]
        cells = (known.get(column, label if "label" in column else "x") for column in HEADERS[source].split("\t"))
        lines.append("\t".join(cells))
    return "\n".join(lines) + "\n"


def write(folder, source="RTE", dev="dev.tsv", n=6):
    for name in ("train.tsv", dev):
        (folder / name).write_text(rows(source, n), "utf-8")
    return folder


def read(source, folder, **options):
    plain = {"fraction": None, "benchmark": None, "limit": None, "seed": 0, "say": lambda _: None}
    return read_data(source, folder, **plain | options)


@pytest.mark.parametrize(
    ("source", "dev", "first"),
    [
        ("RTE", "dev.tsv", [("text 0", "hypothesis 0", 0), ("text 1", "hypothesis 1", 1)]),
        ("SNLI", "dev.tsv", [("text 0", "hypothesis 0", 2), ("text 2", "hypothesis 2", 2)]),  # "-" is no gold label
        ("MNLI", "dev_matched.tsv", [("text 0", "hypothesis 0", 1), ("text 1", "hypothesis 1", 0)]),
    ],
)
def test_columns_are_found_by_their_names(source, dev, first, tmp_path):
    found = read(source, write(tmp_path, source, dev))
    assert found.dev_file.name == dev
    assert list(found.original[:2]) == first
    assert len(found.original) == len(found.dev) == (3 if source == "SNLI" else 6)


def test_a_limit_draws_pairs_at_random_by_the_seed(tmp_path):
    write(tmp_path, n=100)
    one, same, other = (read("RTE", tmp_path, limit=10, seed=seed).original for seed in (1, 1, 2))
    assert len(one) == 10
    assert one == same != other
    assert one == sorted(one, key=lambda pair: int(pair[0].split()[1]))
    assert len(read("RTE", tmp_path, limit=1000).original) == 100


def test_pairs_with_negation_are_added_to_the_training_alone(tmp_path, negation):
    without = read("RTE", write(tmp_path))
    found = read("RTE", tmp_path, fraction=0.7, benchmark=negation)
    sizes = [len(found.examples(with_negation=each)) for each in (False, True)]
    assert (*sizes, len(found.negation.train), len(found.dev)) == (6, 6 + 126, 126, 6)
    assert not {pair.text for pair in found.negation.held_out} & {text for text, _, _ in found.original}
    # what a training without negation depends on is not changed by it
    assert found.identity_of(with_negation=False) == without.identity_of(with_negation=False) == without.identity
    assert found.identity_of(with_negation=True)["negation"] == 0.7
    (tmp_path / "dev.tsv").write_text(rows("RTE", 1))
    after = read("RTE", tmp_path).identity
    assert {key for key in after if without.identity[key] != after[key]} == {"dev sha256"}


def rte(*lines: str) -> str:
    return "\n".join([HEADERS["RTE"], *lines]) + "\n"


@pytest.mark.parametrize(
    ("source", "content", "said"),
    [
        ("RTE", rte("0\ta\tb\tneutral"), r"train.tsv:2: unknown label 'neutral'; RTE has entailment, not_entailment"),
        ("RTE", rows("MNLI"), "train.tsv:1: the column promptID is that of"),
        ("MNLI", rows("SNLI"), "train.tsv:1: the column captionID is that of"),
        ("RTE", "index\tquestion\tsentence\tlabel\n0\ta\tb\tentailment\n", "train.tsv:1: no column sentence1 or Text"),
        ("RTE", rte("0\ta\tb"), r"train.tsv:2: 3 fields, but the header has 4"),
        ("RTE", rte("0\ta\t \tentailment"), "train.tsv:2: the hypothesis is empty"),
        ("RTE", rte(), "train.tsv:1: no row below the header"),
        ("RTE", "", "train.tsv:1: the file is empty"),
        ("RTE", rte("0\ta\tb\t-"), "train.tsv:2: no row has a gold label"),
        ("RTE", None, r"holds no train.tsv; --data is GLUE's folder of RTE"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_file_and_line_and_missing_ones_named(source, content, said, tmp_path):
    with pytest.raises(InputError, match=r"nowhere: no such file or folder; give another --negation-data"):
        read("RTE", write(tmp_path), fraction=0.7, benchmark=tmp_path / "nowhere")
    (tmp_path / "train.tsv").unlink()
    if content is not None:
        (tmp_path / "train.tsv").write_text(content, "utf-8")
    with pytest.raises(InputError, match=said):
        read(source, tmp_path)


# ---------------------------------------------------------------- the split of the pairs with negation


def triple(number: int, text: str = "", hypothesis: str = "") -> list[Pair]:
    text, hypothesis = text or f"t{number}", hypothesis or f"h{number}"
    sides = ((f"not {text}", hypothesis), (text, f"not {hypothesis}"), (f"not {text}", f"not {hypothesis}"))
    return [
        Pair(3 * number + i, KINDS[i], one, other, Label.ENTAILMENT, f"RTE.txt:{3 * number + i + 2}")
        for i, (one, other) in enumerate(sides)
    ]


def triples(n: int, text: str = "") -> list[Pair]:
    return [pair for number in range(n) for pair in triple(number, text)]


def test_no_triple_is_in_both_parts_and_the_seed_decides():
    for fraction in (0.1, 0.7):
        found = split(triples(50), fraction, 1)
        assert found == split(triples(50), fraction, 1) != split(triples(50), fraction, 2)
        learned, held_out = ({pair.item // 3 for pair in part} for part in (found.train, found.held_out))
        assert not learned & held_out
        assert len(found.train) == 3 * len(learned) == 3 * round(50 * fraction)
        assert sorted(pair.item for pair in (*found.train, *found.held_out)) == list(range(150))
    for none, said in ((1, "between 0 and 1"), (0.01, "none is left to learn")):
        with pytest.raises(InputError, match=f"--negation {none}: .*{said}"):
            split(triples(5), none, 0)


@pytest.mark.parametrize("source", ["RTE", "SNLI", "MNLI"])
def test_of_the_real_pairs_none_is_learned_and_tested(source, shared):
    """1,050 and 450 pairs, as in the paper: all ten accuracies of its section 6.2 are multiples of 1/450."""
    pairs = read_benchmark(shared / "data" / "datasets" / "negation-nli" / f"{source}.txt", source).pairs
    found = split(pairs, 0.7, 42)
    assert (len(found.train), len(found.held_out)) == (1050, 450)
    learned, held_out = ({(pair.text, pair.hypothesis) for pair in part} for part in (found.train, found.held_out))
    assert not learned & held_out
    assert not {pair.item // 3 for pair in found.train} & {pair.item // 3 for pair in found.held_out}


def test_triples_of_equal_pairs_stay_together_and_texts_that_both_parts_have_are_counted():
    """One caption with many hypotheses, as in SNLI: the pairs differ, their text does not."""
    pairs = [*triple(0, "a", "b"), *triple(1), *triple(2, "a", "b"), *triple(3), *triple(4, "a", "b")]
    for seed in range(20):
        learned = {pair.item // 3 for pair in split(pairs, 0.6, seed).train}
        assert len(learned & {0, 2, 4}) in {0, 3}
    assert split(triples(10, "caption"), 0.5, 0).shared_texts == 15
    assert split(triples(10), 0.5, 0).shared_texts == 0


def test_held_out_pairs_are_read_back_with_their_types(tmp_path):
    held_out = split(triples(10), 0.7, 0).held_out
    found = read_benchmark(write_held_out(tmp_path, "RTE", held_out) / "RTE.txt", "RTE").pairs
    assert [replace(pair, location="", id="") for pair in found] == [
        replace(pair, location="", id="") for pair in held_out
    ]


# ---------------------------------------------------------------- the hub, served here

GLUE, SNLI = "datasets/nyu-mll/glue", "datasets/stanfordnlp/snli"


@pytest.fixture
def hub(tmp_path):
    """A stand-in; `hub.put(repository, file, pairs)` adds a parquet file."""

    def put(name, file, pairs):
        columns = ("sentence1", "sentence2") if file.startswith("rte") else ("premise", "hypothesis")
        path = folders[name] / f"{file}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pl.DataFrame(pairs, schema=[*columns, "label"], orient="row").write_parquet(path)

    folders = {name: tmp_path / "hub" / name for name in (GLUE, SNLI)}
    for folder in folders.values():
        folder.mkdir(parents=True)
    with serve(folders) as served:
        served.put = put
        yield served


@pytest.fixture
def fetch(hub, use_hub, tmp_path, monkeypatch):
    """Reads a source from the stand-in: the pairs, or the error."""
    use_hub(hub.address)
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path / "data"))

    def run(source: str):
        try:
            found = read(source, None)
        except InputError as error:
            return str(error)
        return found.original, found.dev

    return run


def test_rte_is_fetched_once_and_kept_in_the_layout_of_glue(hub, fetch, tmp_path):
    hub.put(GLUE, "rte/train-00000-of-00001", [("a\tb", "c", 0), ("d", "e\n", 1)])
    hub.put(GLUE, "rte/validation-00000-of-00001", [("f", "g", 1)])
    hub.put(GLUE, "rte/test-00000-of-00001", [("x", "y", -1)])
    found = ([("a b", "c", 0), ("d", "e", 1)], [("f", "g", 1)])
    assert fetch("RTE") == found
    assert (tmp_path / "data" / "glue-rte" / "train.tsv").read_text() == (
        "index\tsentence1\tsentence2\tgold_label\n0\ta b\tc\tentailment\n1\td\te\tnot_entailment\n"
    )
    hub.asked.clear()
    assert fetch("RTE") == found
    assert hub.asked == []


def test_snli_has_labels_of_its_own_and_mnli_several_files(hub, fetch):
    pairs = [("a", "b", 0), ("c", "d", 1), ("e", "f", 2), ("g", "h", -1)]
    hub.put(SNLI, "plain_text/train-00000-of-00001", pairs)
    hub.put(SNLI, "plain_text/validation-00000-of-00001", pairs[:2])
    # Numbers of the labels: entailment 0, contradiction 1, neutral 2; on the hub neutral is 1, and -1 is no label.
    assert fetch("SNLI") == ([("a", "b", 0), ("c", "d", 2), ("e", "f", 1)], [("a", "b", 0), ("c", "d", 2)])
    files = ("train-00000-of-00002", "train-00001-of-00002")
    for file in (*files, "validation_matched-00000-of-00001", "validation_mismatched-00000-of-00001"):
        hub.put(GLUE, f"mnli/{file}", [(file, "h", 0)])
    assert fetch("MNLI") == ([(file, "h", 0) for file in files], [("validation_matched-00000-of-00001", "h", 0)])


def test_another_data_set_than_expected_and_no_network_name_the_option(hub, fetch, tmp_path):
    advice = "; give GLUE's folder with --data"
    assert fetch("RTE") == f"nyu-mll/glue on the hub has no files rte/train-*.parquet{advice}"
    hub.put(GLUE, "rte/train-0", [("a", "b", 7)])
    assert fetch("RTE") == f"nyu-mll/glue on the hub: unknown label 7{advice}"
    hub.shutdown()
    hub.server_close()
    assert fetch("RTE").endswith(advice)
    assert not list((tmp_path / "data").rglob("*.tsv"))
