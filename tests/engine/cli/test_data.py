"""`negengine data`: what there is, and whether it is here."""

import json
import shutil

from negengine.engine.experiments.data_sets.sources import source


def test_the_list_tells_what_is_here(command, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path / "data"))
    names = {row["name"]: row["here"] for row in json.loads(command("data", "list", "--json").out)}
    assert names == {
        "lm-diagnostics": False,
        "negated-lama": False,
        "negation-nli": False,
        "blimp": False,
        "cd-sco": False,
    }
    folder = shared / "data" / "datasets" / "lm-diagnostics"
    (tmp_path / "data" / "lm-diagnostics").mkdir(parents=True)
    for file in source("lm-diagnostics").files:
        shutil.copy(folder / file, tmp_path / "data" / "lm-diagnostics" / file)
    lines = command("data", "list").out.splitlines()
    (line,) = [line for line in lines if "lm-diagnostics" in line]
    assert "yes" in line


def test_a_data_set_that_is_here_is_not_fetched_again(command, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path))
    (tmp_path / "lm-diagnostics").mkdir()
    for file in source("lm-diagnostics").files:
        shutil.copy(shared / "data" / "datasets" / "lm-diagnostics" / file, tmp_path / "lm-diagnostics" / file)
    done = command("data", "get", "lm-diagnostics")
    assert done.status == 0, done.err
    assert done.out == f"{tmp_path / 'lm-diagnostics'}\n"
    assert "licence: " in done.err
