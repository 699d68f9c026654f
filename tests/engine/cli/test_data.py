"""`negengine data`: what there is, and whether it is here; what is here is not fetched again."""

import json
import shutil

from negengine.engine.experiments.data_sets.sources import source


def test_what_is_here_is_told_and_not_fetched_again(command, shared, tmp_path, monkeypatch):
    monkeypatch.setenv("NEGENGINE_DATA", str(tmp_path / "data"))
    names = {row["name"]: row["here"] for row in json.loads(command("data", "list", "--json").out)}
    assert names == dict.fromkeys(("lm-diagnostics", "negated-lama", "negation-nli", "blimp", "cd-sco"), False)
    folder = tmp_path / "data" / "lm-diagnostics"
    folder.mkdir(parents=True)
    for file in source("lm-diagnostics").files:
        shutil.copy(shared / "data" / "datasets" / "lm-diagnostics" / file, folder / file)
    (line,) = [line for line in command("data", "list").out.splitlines() if "lm-diagnostics" in line]
    assert "yes" in line
    done = command("data", "get", "lm-diagnostics")
    assert (done.status, done.out) == (0, f"{folder}\n")
    assert "licence: " in done.err
