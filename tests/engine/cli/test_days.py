"""The day of a linguist, from a spreadsheet to a sentence; the day of an engineer, with a run that is divided."""

import json

import polars as pl
import pytest
from negengine.engine.runs.record import read_run

ROWS = [
    ("A robin is a [MASK].", "bird", "affirmative", 1),
    ("A robin is not a [MASK].", "bird", "negated", 1),
    ("A trout is a [MASK].", "fish", "affirmative ", 2),  # a space, as a spreadsheet has them
    ("A trout is not a [MASK].", "fish", "negated", 2),
    ("A hammer is a [MASK].", "tool", "affirmative", 3),
    ("A hammer is not a [MASK].", "tool", "negated", 3),
]


@pytest.fixture
def does(command, monkeypatch):
    """What a command prints that has no error; it can be a task of a Slurm array."""

    def run(*arguments, array=None) -> str:
        with monkeypatch.context() as own:
            for name, value in zip(("ID", "COUNT", "MIN", "MAX", "STEP"), array or (), strict=bool(array)):
                own.setenv(f"SLURM_ARRAY_TASK_{name}", str(value))
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
    for group in ("affirmative", "negated"):
        (value,) = summary.filter(pl.col("other_split").is_null(), split=group, column="group", metric="logprob")[
            "value"
        ]
        (point,) = drawn.filter(split=group)["logprob"]
        assert point == pytest.approx(value)
    (difference,) = summary.filter(pl.col("other_split") == "negated", metric="logprob").to_dicts()
    value, low, high = (f"{difference[name]:.2f}".replace("-", "−") for name in ("value", "low", "high"))
    told = f"{value} [95 % CI {low}, {high}] (n = 3), p = "
    assert f"affirmative − negated, mean log-probability: {told}" in does("cite", "run")
    assert r"\label{tab:groups-compared}" in does(*ask, "--format", "latex")


@pytest.fixture
def select(mini, small_lexicon):
    return ("select", mini.folder, "--lexicon", small_lexicon, "--precision", "fp32", "--shard")


def test_an_engineer_runs_an_array_adds_the_missing_task_merges_verifies_and_scores(
    does, command, select, selected_run, scored_run, tmp_path
):
    does(*select, "auto", array=(1, 2, 0, 1, 1))
    half = command("merge", "--status", "runs/mini", "--json")
    assert half.status == 3
    assert [one["state"] for one in json.loads(half.out)["shards"]] == ["missing", "finished"]
    assert command("merge", "runs/mini").said == "negengine: merge needs all 2 shards; missing: 1/2"
    assert "run `negengine merge runs/mini`" in does(*select, "auto", array=(0, 2, 0, 1, 1))
    does(*select, "auto", "-o", "own/run", array=(4, 2, 3, 4, 1))
    (session,) = read_run(tmp_path / "own/run-2-of-2").stages["select"].sessions
    assert session.command.endswith("--shard 2/2 --output own/run-2-of-2")
    assert "negengine merge runs/mini" in does("merge", "--status", "runs")
    does("merge", "runs/mini")
    for name in ("triplets.parquet", "selection.json"):
        assert (tmp_path / "runs/mini" / name).read_bytes() == (selected_run / name).read_bytes()
    does("verify", "runs/mini", "--sample", 20)
    does("score", "runs/mini", "--precision", "fp32")
    assert (tmp_path / "runs/mini/rates.parquet").read_bytes() == (scored_run / "rates.parquet").read_bytes()


def test_a_shard_without_parts_has_nothing_to_do_and_the_folder_one_is_in_can_be_the_run(
    does, select, tmp_path, monkeypatch
):
    assert does(*select, "2/2", "-o", "two").startswith("two: nothing to do for shard 2/2, as select has 1 part; ")
    does(*select, "1/2", "-o", "one")
    does("merge", "one", "two", "-o", "here")
    monkeypatch.chdir(tmp_path / "here")
    for index in (1, 2):
        does("score", ".", "--shard", f"{index}/2")
    does("merge", *(tmp_path / f"here-score-{index}-of-2" for index in (1, 2)), "-o", ".")
    assert (tmp_path / "here" / "rates.parquet").is_file()
