"""GLUE's pairs from the hub, which a server on this machine stands in for."""

from pathlib import Path

import polars as pl
import pytest
from hub_here import serve
from huggingface_hub import constants, file_download
from negengine.engine.errors import InputError
from negengine.export.training.nli.data import read_data

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


def write(path: Path, columns: tuple[str, str], rows: list[tuple[str, str, int]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, schema=[*columns, "label"], orient="row").write_parquet(path)


def test_rte_is_fetched_once_and_kept_in_the_layout_of_glue(hub, fetch, tmp_path):
    folder = hub.folders[GLUE] / "rte"
    write(folder / "train-00000-of-00001.parquet", ("sentence1", "sentence2"), [("a\tb", "c", 0), ("d", "e\n", 1)])
    write(folder / "validation-00000-of-00001.parquet", ("sentence1", "sentence2"), [("f", "g", 1)])
    write(folder / "test-00000-of-00001.parquet", ("sentence1", "sentence2"), [("x", "y", -1)])
    assert fetch("RTE") == ([("a b", "c", 0), ("d", "e", 1)], [("f", "g", 1)])
    assert (tmp_path / "data" / "glue-rte" / "train.tsv").read_text() == (
        "index\tsentence1\tsentence2\tgold_label\n0\ta b\tc\tentailment\n1\td\te\tnot_entailment\n"
    )
    hub.asked.clear()
    assert fetch("RTE") == ([("a b", "c", 0), ("d", "e", 1)], [("f", "g", 1)])
    assert hub.asked == []


def test_labels_of_snli_are_its_own_and_pairs_without_one_are_not_used(hub, fetch):
    folder = hub.folders[SNLI] / "plain_text"
    rows = [("a", "b", 0), ("c", "d", 1), ("e", "f", 2), ("g", "h", -1)]
    write(folder / "train-00000-of-00001.parquet", ("premise", "hypothesis"), rows)
    write(folder / "validation-00000-of-00001.parquet", ("premise", "hypothesis"), rows[:2])
    # Numbers of the labels: entailment 0, contradiction 1, neutral 2; on the hub neutral is 1.
    assert fetch("SNLI") == ([("a", "b", 0), ("c", "d", 2), ("e", "f", 1)], [("a", "b", 0), ("c", "d", 2)])


def test_several_files_of_a_split_are_read_in_order(hub, fetch):
    folder = hub.folders[GLUE] / "mnli"
    for number, text in enumerate(("first", "second")):
        name = f"train-0000{number}-of-00002.parquet"
        write(folder / name, ("premise", "hypothesis"), [(text, "h", 0)])
    write(folder / "validation_matched-00000-of-00001.parquet", ("premise", "hypothesis"), [("m", "h", 0)])
    write(folder / "validation_mismatched-00000-of-00001.parquet", ("premise", "hypothesis"), [("n", "h", 0)])
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
        write(hub.folders[GLUE] / "rte/train-0.parquet", ("sentence1", "sentence2"), rows)
    assert fetch("RTE") == said
    assert not list((tmp_path / "data").rglob("*.tsv"))


def test_without_a_network_the_option_is_named(hub, fetch):
    hub.shutdown()
    hub.server_close()
    assert fetch("RTE").endswith("give GLUE's folder with --data")
