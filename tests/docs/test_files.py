"""docs/files.md has every column of the files of the negation test and of tables of one's own, and no other column.

Those of the other experiments: tests/engine/experiments/test_every_experiment.py.
"""

import json

import negengine as ng
import polars as pl
from pages import FILES, documented

OWN = {"sentence": ["A robin is a [MASK].", "no mask"], "target": ["bird", "bird"], "group": ["a", "b"]}
PAIRS = {"good": ["She smokes.", "He is happy."], "bad": ["She smoke.", "[MASK]"]}


def columns(path):
    return list(pl.read_parquet_schema(path))


def test_the_files_of_the_negation_test_are_documented(scored_run, several_tokens_run):
    names = ("triplets", "answers", "scores", "rates")
    for name in names:
        own, both = (columns(run / f"{name}.parquet") for run in (scored_run, several_tokens_run))
        assert documented(f"{name}.parquet") == own == [column for column in both if column != "tokens"], name
        assert ("tokens" in both) == (name == "triplets")
    found = json.loads((scored_run / "selection.json").read_text("utf-8"))
    assert set(documented("selection.json")) == {*found, "lazy"}
    assert documented("compare --items") == ng.items(scored_run).columns
    page = FILES.read_text("utf-8")
    assert not [path.name for path in scored_run.glob("[!.]*") if path.name not in page and path.suffix != ".json"]


def test_the_files_of_tables_of_ones_own_are_documented(model, tmp_path):
    (tmp_path / "set").mkdir()
    for name in ("one", "two"):
        pl.DataFrame(PAIRS).write_csv(tmp_path / "set" / f"{name}.csv")
    given = {"skip_bad": True, "progress": False}
    asked = ng.probe(model, OWN, unwanted="group=a", output=tmp_path / "probe", **given)
    scored = ng.likelihood(model, tmp_path / "set", per_token=True, per_word=True, output=tmp_path / "run", **given)
    for name, run, own in (("probe", asked, OWN), ("likelihood", scored, {})):  # the table's own columns are kept
        assert set(documented(f"items.parquet of {name}")) == set(columns(run.folder / "items.parquet")) - {*own}
        assert documented("summary.parquet") == columns(run.folder / "summary.parquet")
        assert {"item", "sentence", "expected", "answer", "failed", "rank", "logprob"} <= {*run.sentences().columns}
    for file in ("tokens.parquet", "words.parquet"):
        file_column, row, _, *rest = columns(scored.folder / file)
        assert (file_column, documented(file)) == ("file", [row, *rest])
