"""Two recordings are equal or different, and what is said tells how."""

import polars as pl
import pytest
from negengine.bench.equality import app, keep_results
from typer.testing import CliRunner

TABLE = 'pattern:String\tdrop:Float64\n"CpTp"\t0.0\n"CpTn"\t{}\n'
RATES = "runs/a/rates.parquet.tsv"


EQUAL = {"stdout/score.txt": "1,200 triplets\n", RATES: TABLE.format(84.2)}
WIDER = 'pattern:String\tdrop:Float64\trole:String\n"CpTp"\t0.0\tx\n"CpTn"\t84.2\tx\n'
CASES = [
    (EQUAL, EQUAL, ["2 files, 2 equal, 0 different"]),
    (
        {RATES: TABLE.format(84.25)},
        {RATES: TABLE.format(84.5)},
        [f"{RATES}: different", "1 of 2 numbers differ, by at most 0.25", "column drop:Float64: 1 of 2 rows differ",
         "from line 3:", '-"CpTn"\t84.25', '+"CpTn"\t84.5', "1 files, 0 equal, 1 different"],
    ),
    ({"a.txt": "1,200 x, 4e-05\n"}, {"a.txt": "1,200 y, 4e-05\n"}, ["all 2 numbers are equal; words or layout differ"]),
    ({"a.txt": "1 and 2\n"}, {"a.txt": "1\n"}, ["2 numbers before, 1 after"]),
    ({"b.txt": "1\n"}, {"a.txt": "", "b.txt": "1\n"}, ["only in the recording after"]),
    ({RATES: TABLE.format(84.2)}, {RATES: WIDER}, ["column role:String is new"]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "said"), CASES)
def test_what_differs_is_named(before, after, said, tmp_path):
    for folder, texts in ((tmp_path / "before", before), (tmp_path / "after", after)):
        for name, text in texts.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, "utf-8")
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "before"), str(tmp_path / "after")])
    assert done.exit_code == (before != after)
    assert [line for line in map(str.strip, done.output.splitlines()) if line in said] == said


def test_results_are_kept_as_text_with_every_digit(tmp_path):
    folder, kept = tmp_path / "runs" / "mini", tmp_path / "kept"
    folder.mkdir(parents=True)
    logprob = pl.Series([[0.1], []], dtype=pl.List(pl.Float32))
    frame = pl.DataFrame({"p": [0.1 + 0.2, None], "top": [["a\tb", "é"], []], "logprob": logprob})
    frame.write_parquet(folder / "rates.parquet")
    for name in ("selection.json", "run.json", ".lock"):
        (folder / name).write_text("{}")
    keep_results(tmp_path / "runs", kept)
    text = (
        "p:Float64\ttop:List(String)\tlogprob:List(Float32)\n"
        '0.30000000000000004\t["a\\tb", "é"]\t[0.10000000149011612]\n'
        "null\t[]\t[]\n"
    )
    found = {path.name: path.read_text("utf-8") for path in (kept / "mini").iterdir()}
    assert found == {"rates.parquet.tsv": text, "selection.json": "{}"}
