"""The pairs of a training: files of GLUE, those of the hub, and pairs with negation that are learned or held out."""

from pathlib import Path

import polars as pl
import pytest
from hub_here import serve
from huggingface_hub import constants, file_download
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
    dev = "dev_matched.tsv" if source == "MNLI" else "dev.tsv"
    found = read(source, write(tmp_path, source, dev))
    assert found.dev_file.name == dev
    assert list(found.original[:2]) == first
    assert len(found.original) == len(found.dev) == n


def test_a_limit_draws_pairs_at_random_by_the_seed(tmp_path):
    write(tmp_path, "RTE", n=100)
    one, same, other = (read("RTE", tmp_path, limit=10, seed=seed).original for seed in (1, 1, 2))
    assert len(one) == 10
    assert one == same != other
    assert one == sorted(one, key=lambda pair: int(pair[0].split()[1]))
    assert len(read("RTE", tmp_path, limit=1000).original) == 100


def test_pairs_with_negation_are_added_to_the_training_alone(tmp_path, negation):
    without = read("RTE", write(tmp_path, "RTE"))
    found = read("RTE", tmp_path, fraction=0.7, benchmark=negation)
    assert len(found.examples(with_negation=False)) == 6
    assert len(found.examples(with_negation=True)) == 6 + len(found.negation.train) == 6 + 126
    assert len(found.dev) == 6
    assert not {pair.text for pair in found.negation.held_out} & {text for text, _, _ in found.original}
    # what a training without negation depends on is not changed by it
    assert found.identity_of(with_negation=False) == without.identity_of(with_negation=False) == without.identity
    assert found.identity_of(with_negation=True)["negation"] == 0.7
    (tmp_path / "dev.tsv").write_text(f"{HEADERS['RTE']}\n{row('RTE', 9, 'entailment')}\n")
    after = read("RTE", tmp_path).identity
    assert {key for key in after if without.identity[key] != after[key]} == {"dev sha256"}


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
    with pytest.raises(InputError, match=r"nowhere: no such file or folder; give another --negation-data"):
        read("RTE", write(tmp_path, "RTE"), fraction=0.7, benchmark=tmp_path / "nowhere")
    (tmp_path / "dev.tsv").unlink()
    with pytest.raises(InputError, match=r"holds no dev.tsv or dev_matched.tsv"):
        read("RTE", tmp_path)


def triple(number: int, text: str = "", hypothesis: str = "") -> list[Pair]:
    text, hypothesis = text or f"t{number}", hypothesis or f"h{number}"
    sides = ((f"not {text}", hypothesis), (text, f"not {hypothesis}"), (f"not {text}", f"not {hypothesis}"))
    return [
        Pair(3 * number + i, KINDS[i], one, other, Label.ENTAILMENT, f"RTE.txt:{3 * number + i + 2}")
        for i, (one, other) in enumerate(sides)
    ]


def triples(n: int) -> list[Pair]:
    return [pair for number in range(n) for pair in triple(number)]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fraction", [0.1, 0.7])
def test_no_triple_is_in_both_parts_and_the_seed_decides(fraction, seed):
    found = split(triples(50), fraction, seed)
    assert found == split(triples(50), fraction, seed) != split(triples(50), fraction, seed + 1)
    learned, held_out = ({pair.item // 3 for pair in part} for part in (found.train, found.held_out))
    assert not learned & held_out
    assert len(learned) == round(50 * fraction)
    assert len(found.train) == 3 * len(learned)
    assert sorted(pair.item for pair in (*found.train, *found.held_out)) == list(range(150))


@pytest.mark.parametrize("source", ["RTE", "SNLI", "MNLI"])
def test_of_the_real_pairs_none_is_learned_and_tested(source, shared):
    """1,050 and 450 pairs, as in the paper: all ten accuracies of its section 6.2 are multiples of 1/450."""
    pairs = read_benchmark(shared / "data" / "datasets" / "negation-nli" / f"{source}.txt", source).pairs
    found = split(pairs, 0.7, 42)
    assert (len(found.train), len(found.held_out)) == (1050, 450)
    learned, held_out = ({(pair.text, pair.hypothesis) for pair in part} for part in (found.train, found.held_out))
    assert not learned & held_out
    assert not {pair.item // 3 for pair in found.train} & {pair.item // 3 for pair in found.held_out}


def test_triples_of_equal_pairs_stay_together():
    pairs = [*triple(0, "a", "b"), *triple(1), *triple(2, "a", "b"), *triple(3), *triple(4, "a", "b")]
    for seed in range(20):
        learned = {pair.item // 3 for pair in split(pairs, 0.6, seed).train}
        assert len(learned & {0, 2, 4}) in {0, 3}


def test_texts_that_both_parts_have_are_counted():
    """One caption with many hypotheses, as in SNLI: the pairs differ, their text does not."""
    pairs = [pair for number in range(10) for pair in triple(number, "caption")]
    assert split(pairs, 0.5, 0).shared_texts == 15
    assert split(triples(10), 0.5, 0).shared_texts == 0


@pytest.mark.parametrize(
    ("fraction", "said"),
    [(0, "between 0 and 1"), (1, "between 0 and 1"), (70, "between 0 and 1"), (0.01, "none is left to learn")],
)
def test_a_fraction_that_leaves_nothing_is_refused(fraction, said):
    with pytest.raises(InputError, match=f"--negation {fraction}: .*{said}"):
        split(triples(5), fraction, 0)


def test_held_out_pairs_are_read_back_with_their_types(tmp_path):
    held_out = split(triples(10), 0.7, 0).held_out
    folder = write_held_out(tmp_path, "RTE", held_out)
    found = read_benchmark(folder / "RTE.txt", "RTE").pairs
    assert [(pair.item, pair.kind, pair.text, pair.hypothesis, pair.gold) for pair in found] == [
        (pair.item, pair.kind, pair.text, pair.hypothesis, pair.gold) for pair in held_out
    ]


GLUE, SNLI = "datasets/nyu-mll/glue", "datasets/stanfordnlp/snli"


@pytest.fixture
def hub(tmp_path):
    folders = {name: tmp_path / "hub" / name for name in (GLUE, SNLI)}
    for folder in folders.values():
        folder.mkdir(parents=True)
    with serve(folders) as served:
        yield served


@pytest.fixture
def fetch(hub, tmp_path, monkeypatch):
    """Reads a source from the stand-in: the pairs, or the error."""
    monkeypatch.setattr(constants, "ENDPOINT", hub.address)
    monkeypatch.setattr(
        file_download, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    )
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path / "data"))

    def run(source: str):
        try:
            found = read_data(source, None, fraction=None, benchmark=None, limit=None, seed=0, say=lambda _: None)
        except InputError as error:
            return str(error)
        return found.original, found.dev

    return run


def write_parquet(path: Path, columns: tuple[str, str], rows: list[tuple[str, str, int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, schema=[*columns, "label"], orient="row").write_parquet(path)


RTE, OTHERS = ("sentence1", "sentence2"), ("premise", "hypothesis")


def test_rte_is_fetched_once_and_kept_in_the_layout_of_glue(hub, fetch, tmp_path):
    folder, found = hub.folders[GLUE] / "rte", ([("a b", "c", 0), ("d", "e", 1)], [("f", "g", 1)])
    write_parquet(folder / "train-00000-of-00001.parquet", RTE, [("a\tb", "c", 0), ("d", "e\n", 1)])
    write_parquet(folder / "validation-00000-of-00001.parquet", RTE, [("f", "g", 1)])
    write_parquet(folder / "test-00000-of-00001.parquet", RTE, [("x", "y", -1)])
    assert fetch("RTE") == found
    assert (tmp_path / "data" / "glue-rte" / "train.tsv").read_text() == (
        "index\tsentence1\tsentence2\tgold_label\n0\ta b\tc\tentailment\n1\td\te\tnot_entailment\n"
    )
    hub.asked.clear()
    assert fetch("RTE") == found
    assert hub.asked == []


def test_snli_has_labels_of_its_own_and_mnli_several_files(hub, fetch):
    folder = hub.folders[SNLI] / "plain_text"
    rows = [("a", "b", 0), ("c", "d", 1), ("e", "f", 2), ("g", "h", -1)]
    write_parquet(folder / "train-00000-of-00001.parquet", OTHERS, rows)
    write_parquet(folder / "validation-00000-of-00001.parquet", OTHERS, rows[:2])
    # Numbers of the labels: entailment 0, contradiction 1, neutral 2; on the hub neutral is 1, and -1 is no label.
    assert fetch("SNLI") == ([("a", "b", 0), ("c", "d", 2), ("e", "f", 1)], [("a", "b", 0), ("c", "d", 2)])
    folder = hub.folders[GLUE] / "mnli"
    for number, text in enumerate(("first", "second")):
        write_parquet(folder / f"train-0000{number}-of-00002.parquet", OTHERS, [(text, "h", 0)])
    write_parquet(folder / "validation_matched-00000-of-00001.parquet", OTHERS, [("m", "h", 0)])
    write_parquet(folder / "validation_mismatched-00000-of-00001.parquet", OTHERS, [("n", "h", 0)])
    assert fetch("MNLI") == ([("first", "h", 0), ("second", "h", 0)], [("m", "h", 0)])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("a", "b", 7)], "nyu-mll/glue on the hub: unknown label 7; give GLUE's folder with --data"),
        (None, "nyu-mll/glue on the hub has no files rte/train-*.parquet; give GLUE's folder with --data"),
    ],
)
def test_another_data_set_than_expected_is_refused(rows, said, hub, fetch, tmp_path):
    if rows is not None:
        write_parquet(hub.folders[GLUE] / "rte/train-0.parquet", ("sentence1", "sentence2"), rows)
    assert fetch("RTE") == said
    assert not list((tmp_path / "data").rglob("*.tsv"))


def test_without_a_network_the_option_is_named(hub, fetch):
    hub.shutdown()
    hub.server_close()
    assert fetch("RTE").endswith("give GLUE's folder with --data")
