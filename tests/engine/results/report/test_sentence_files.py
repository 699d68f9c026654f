"""Sentences as text and as files."""

import io
import json

import polars as pl
import pytest
from negengine.engine.errors import InputError
from negengine.engine.results.report.chosen_sentences import write
from negengine.engine.views.to_csv import csv_rows
from negengine.engine.views.to_json import json_array, json_lines

FRAME = pl.DataFrame(
    {
        "item": [0, 1, 2, 3, 4],
        "sentence": ['He said "no, [MASK]".', "a\nb", "x,y", None, "ß"],
        "failed": [True, False, None, True, False],
        "logprob": [-0.5, None, -1.25, 0.0, -3.0],
    }
)
READERS = {
    "parquet": pl.read_parquet,
    "csv": pl.read_csv,
    "tsv": lambda path: pl.read_csv(path, separator="\t"),
    "jsonl": pl.read_ndjson,
}


@pytest.mark.parametrize("suffix", READERS)
def test_a_file_has_the_rows(suffix, tmp_path):
    path = tmp_path / "folder" / f"sentences.{suffix}"
    assert write(FRAME.lazy(), path) == 5
    assert READERS[suffix](path).equals(FRAME)


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_pieces_make_one_text(at_once):
    rows = FRAME.lazy()
    assert pl.read_csv(io.StringIO("".join(csv_rows(rows, at_once=at_once)))).equals(FRAME)
    assert pl.read_ndjson(io.StringIO("".join(json_lines(rows, at_once=at_once)))).equals(FRAME)
    assert json.loads("".join(json_array(rows, at_once=at_once))) == FRAME.to_dicts()


def test_without_rows_there_is_a_header_and_an_empty_array():
    rows = FRAME.lazy().head(0)
    assert "".join(csv_rows(rows)) == "item,sentence,failed,logprob\n"
    assert json.loads("".join(json_array(rows))) == []


@pytest.mark.parametrize(("name", "said"), [("x.cvs", "did you mean '.csv'"), ("x", "must end in .parquet")])
def test_another_ending_is_refused(name, said, tmp_path):
    with pytest.raises(InputError, match=said):
        write(FRAME.lazy(), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_result_of_a_run_is_not_replaced(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "scores.parquet").write_bytes(b"results")
    with pytest.raises(InputError, match=r"belongs to a run; choose another name"):
        write(FRAME.lazy(), tmp_path / "scores.parquet")
    assert (tmp_path / "scores.parquet").read_bytes() == b"results"
