"""The pairs of a run: the texts that were judged, and the labels given."""

import msgspec
import polars as pl
import pytest
from negengine.engine.errors import InputError
from negengine.engine.experiments.nli.pairs import read_sets
from negengine.engine.experiments.nli.runs import NliRun
from negengine.engine.files.reading import file_sha256

COLUMNS = ["item", "condition", "premise", "hypothesis", "expected", "answer", "correct", "failed", "rank", "logprob"]


def test_every_pair_has_its_texts(finished, data):
    rows = finished.sentences()
    sets = read_sets(data, {"RTE": data / "dev.tsv"}, ("RTE", "SNLI"))
    texts = [(pair.text, pair.hypothesis) for own in sets for pair in own.pairs]
    assert rows.columns[: len(COLUMNS)] == COLUMNS
    assert rows.select("premise", "hypothesis").rows() == texts


def test_a_wrong_label_fails(finished):
    rows = finished.sentences()
    assert (rows["failed"] != rows["correct"]).all()
    assert (rows["correct"] == (rows["expected"] == rows["answer"])).all()


def test_a_run_without_texts_says_what_to_do(finished, tmp_path):
    items = tmp_path / "items.parquet"
    finished.items.drop("premise", "hypothesis").write_parquet(items)
    files = {**finished.record.files, items.name: file_sha256(items)}
    old = NliRun(tmp_path, msgspec.structs.replace(finished.record, files=files))
    with pytest.raises(InputError, match="its items have no texts; run `nli` again with another --output"):
        old.sentences()
    assert "premise" in pl.read_parquet(finished.folder / "items.parquet").columns
