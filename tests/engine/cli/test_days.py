"""The day of a linguist, from what she has to what she needs; `test_shards` has an engineer's."""

import polars as pl
import pytest

ROWS = [
    ("A robin is a [MASK].", "bird", "affirmative", 1),
    ("A robin is not a [MASK].", "bird", "negated", 1),
    ("A trout is a [MASK].", "fish", "affirmative ", 2),  # a space, as a spreadsheet has them
    ("A trout is not a [MASK].", "fish", "negated", 2),
    ("A hammer is a [MASK].", "tool", "affirmative", 3),
    ("A hammer is not a [MASK].", "tool", "negated", 3),
]


@pytest.fixture
def does(command):
    def run(*arguments) -> str:
        done = command(*arguments)
        assert done.status == 0, done.err
        return done.out

    return run


def test_a_linguist_gets_from_a_spreadsheet_to_a_figure_and_a_correct_sentence_about_it(does, mini, tmp_path):
    lines = ["sentence;target;group;item", *(";".join(map(str, row)) for row in ROWS)]
    (tmp_path / "sheet.csv").write_bytes("\ufeff{}\r\n".format("\r\n".join(lines)).encode())  # as Excel saves it
    ask = ("probe", mini.folder, "sheet.csv", "--unwanted", "group=negated", "--device", "cpu", "-o", "run")
    assert "negated" in does(*ask, "--plan")
    assert not (tmp_path / "run").exists()
    does(*ask)
    does("figures", "run", "-o", "figures")
    does("report", "run", "-o", "report.html")
    does("show", "run", "-o", "answers.csv")
    assert {"log-probability.pdf", "log-probability.svg"} <= {path.name for path in (tmp_path / "figures").iterdir()}
    assert pl.read_csv(tmp_path / "answers.csv")["sentence"].to_list() == [row[0] for row in ROWS]
    summary = pl.read_parquet(tmp_path / "run" / "summary.parquet")
    drawn = pl.read_csv(tmp_path / "figures" / "log-probability.csv")
    said = does("cite", "run")
    for group in ("affirmative", "negated"):
        (value,) = summary.filter(split=f"group={group}", metric="logprob")["value"]
        (point,) = drawn.filter(split=f"group={group}")["logprob"]
        assert point == pytest.approx(value)
    (difference,) = summary.filter(metric="difference:logprob").to_dicts()
    interval = f"{difference['value']:.2f} [{difference['low']:.2f}, {difference['high']:.2f}], p = "
    assert f"group=affirmative − group=negated, mean log-probability: {interval}" in said
    for form, begins in (("latex", r"\label{tab:groups-compared}"), ("html", "<caption>Groups compared</caption>")):
        assert begins in does(*ask, "--format", form)
