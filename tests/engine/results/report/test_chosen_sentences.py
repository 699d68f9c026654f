import io
import json
from functools import partial

import negengine as ng
import polars as pl
import pytest
from negengine.engine.basics.choices import output_formats
from negengine.engine.basics.errors import InputError
from negengine.engine.results.report.chosen_sentences import Examples, chosen
from negengine.engine.results.report.row_files import RowFile
from negengine.engine.results.report.row_filters import filtered
from negengine.engine.views.to_csv import csv_rows
from negengine.engine.views.to_json import json_array

FRAME = pl.DataFrame(
    {
        "item": [0, 1, 2, 3, 4],
        "sentence": ['He said "no, [MASK]".', "a\nb", "x,y", None, "ß"],
        "failed": [True, False, None, True, False],
        "logprob": [-0.5, None, -1.25, 0.0, -3.0],
    }
)


@pytest.fixture(scope="module")
def run(scored_run):
    return ng.open(scored_run)


def test_sentences_are_chosen_by_their_columns_and_what_a_run_does_not_have_is_refused(run):
    sentences = run.sentences()
    assert chosen(run).collect().equals(sentences)
    wanted = [
        (["condition=CpTn"], pl.col("condition") == "CpTn"),
        (["condition=CpTn", "condition=CnTn"], pl.col("condition").is_in(["CpTn", "CnTn"])),
        (["name=Maria", "condition=CnTp"], pl.col("name").eq("Maria") & pl.col("condition").eq("CnTp")),
        (["rank=1"], pl.col("rank") == 1),
        (["repeated=false"], ~pl.col("repeated")),
        (["profession=a dancer"], pl.col("profession") == "a dancer"),
        ([], pl.col("failed")),
    ]
    for filters, kept in wanted:
        found = chosen(run, filters, failed=not filters).collect()
        assert found.equals(sentences.filter(kept)), filters
        assert 0 < len(found) < len(sentences)
    others = [
        (["rank>1", "rank<=3"], pl.col("rank").is_between(2, 3)),
        (["condition!=CpTn", "logprob>=-2.5"], pl.col("condition").ne("CpTn") & pl.col("logprob").ge(-2.5)),
        (["sentence~NOT LIKE"], pl.col("sentence").str.contains("(?i)not like")),
    ]
    for filters, kept in others:
        assert chosen(run, filters).collect().equals(sentences.filter(kept)), filters
    for sort, descends in (("-rank", True), ("rank", False)):
        by_rank = chosen(run, sort=sort).collect()["rank"].to_list()
        assert by_rank[0] != by_rank[-1]
        assert by_rank == sorted(by_rank, reverse=descends)
    signs = pl.LazyFrame({"a": ["b=c", "x"], "a=b": ["x", "c"]})  # of a user's own columns the longest name counts
    assert filtered(signs, ["a=b=c"], "a run").collect().rows() == [("x", "c")]
    refused = [
        (["condition=CpTQ"], "--where condition=CpTQ: .* does not have it: did you mean 'CpT.'"),
        (["name=Mariah"], "did you mean 'Maria'"),
        (["gendr=f"], "no such column: did you mean 'gender'"),
        (["colour=red"], "no such column: its columns are item, condition"),
        (["failed=yes"], "give true or false"),
        (["rank=first"], "give a number"),
        (["rank~1"], "rank is not a text"),
        (["=f"], "give COLUMN=VALUE"),
    ]
    for wanted, message in refused:
        with pytest.raises(InputError, match=message):
            chosen(run, wanted)
    with pytest.raises(InputError, match=r"--sort rnk: .* no such column: did you mean .rank."):
        chosen(run, sort="rnk")


def test_a_table_has_the_sentences_within_80_columns(run):
    found = Examples.draw(run, chosen(run), 6, 0)
    text = found.render()
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert "expected (rank)" in text
    assert f"6 of {len(run.items):,} sentences, drawn at random with --seed 0" in text
    assert all(found.rows["answer"][0] in found.render(form) for form in output_formats())
    failed = Examples.draw(run, chosen(run, ["condition=CpTn"], failed=True), 3, 0, failed=True)
    [table] = failed.tables()
    assert table.title.endswith("condition CpTn, failed")
    assert [column.heading for column in table.columns] == ["sentence", "answer", "expected (rank)", "logprob"]
    none = Examples.draw(run, chosen(run, ["condition=CpTp"], failed=True), 3, 0)
    assert (none.tables(), none.remarks()) == ([], ["no sentence of this run has all that is asked for"])


def test_a_file_and_pieces_have_the_rows_and_a_result_is_never_replaced(tmp_path):
    tsv = partial(pl.read_csv, separator="\t")
    for suffix, read in {"parquet": pl.read_parquet, "csv": pl.read_csv, "tsv": tsv, "jsonl": pl.read_ndjson}.items():
        path = tmp_path / "folder" / f"sentences.{suffix}"
        path.parent.mkdir(exist_ok=True)
        (left := path.with_name(f".{path.name}.1f2e3d4c.negengine-tmp")).touch()  # by a call that was killed
        assert RowFile(path).write(FRAME.lazy()) == 5
        assert not left.exists()
        assert read(path).equals(FRAME)
    for name, said in {"x.cvs": "did you mean '.csv'", "x": "must end in .parquet"}.items():
        with pytest.raises(InputError, match=said):
            RowFile(tmp_path / name)
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "scores.parquet").write_bytes(b"results")
    with pytest.raises(InputError, match=r"belongs to a run; choose another name"):
        RowFile(tmp_path / "scores.parquet")
    assert (tmp_path / "scores.parquet").read_bytes() == b"results"
    for at_once in (1, 2, 100):
        assert pl.read_csv(io.StringIO("".join(csv_rows(FRAME.lazy(), at_once=at_once)))).equals(FRAME)
        assert json.loads("".join(json_array(FRAME.lazy(), at_once=at_once))) == FRAME.to_dicts()
    empty = FRAME.lazy().head(0)
    assert "".join(csv_rows(empty)) == "item,sentence,failed,logprob\n"
    assert json.loads("".join(json_array(empty))) == []
