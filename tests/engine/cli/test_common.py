"""Options of every command: where models have their names, messages in a file, and a quiet terminal."""

import re
from datetime import datetime

import pytest
from negengine.engine.inference.exported import exported_names

SENTENCE = "Anna likes to [MASK]."
TABLE = f"sentence,target\n{SENTENCE},sing\n"


@pytest.mark.parametrize("by", ["option", "variable"])
def test_names_of_models_do_not_depend_on_where_one_stands(command, mini, tmp_path, monkeypatch, by):
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    store.mkdir()
    elsewhere.mkdir()
    (store / "bundled").symlink_to(mini.folder)
    if by == "variable":
        monkeypatch.setenv("NEGENGINE_MODELS", str(store))
    given = ["--models", "store"] if by == "option" else []
    assert "bundled" in command("doctor", "--json", *given).out
    first = command("predict", "bundled", SENTENCE, *given)
    assert first.status == 0
    monkeypatch.chdir(elsewhere)
    assert exported_names() == ["bundled"]
    given = ["--models", "../store"] if by == "option" else []
    assert command("predict", "bundled", SENTENCE, *given).out == first.out
    assert "no exported model bundled" in command("predict", "bundled", SENTENCE, "--models", ".").said


def test_messages_are_logged_with_the_time_and_a_quiet_command_prints_results_and_errors(command, mini, tmp_path):
    (tmp_path / "table.csv").write_text(TABLE)
    told = command("probe", mini.folder, "table.csv", "-o", "first", "--precision", "fp32")
    done = command("probe", mini.folder, "table.csv", "-o", "run", "--precision", "fp32", "--quiet", "--log", "log.txt")
    assert (done.status, done.err) == (0, "")
    assert done.out.replace("run", "first") == told.out
    lines = (tmp_path / "log.txt").read_text("utf-8").splitlines()
    stamps, said = zip(*(line.split(" ", 1) for line in lines), strict=True)
    assert all(datetime.fromisoformat(stamp).tzinfo for stamp in stamps)
    numbers = re.compile(r"[\d,.]+")
    assert [numbers.sub("0", line) for line in said] == [numbers.sub("0", line) for line in told.err.splitlines()]
    assert any("probe: 1 sentences" in line or "of 1" in line for line in said)
    wrong = command("probe", mini.folder, "nothing.csv", "--quiet", "--log", "log.txt")
    assert wrong.status == 2
    assert wrong.said.startswith("negengine: nothing.csv")
    assert (tmp_path / "log.txt").read_text("utf-8").splitlines()[-1].endswith(wrong.said)
    assert "give a file in a folder that can be written" in command("doctor", "--log", "no/such/log").said
