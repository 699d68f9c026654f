"""The registry of probes: complete for the bundled ones, and open for those of other packages."""

import inspect
import json
import os
import shutil
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.cli.main import app
from negengine.engine.cli.program import all_commands
from negengine.engine.experiments import registry

EXPERIMENTS = {name: registry.experiment(name) for name in registry.experiments()}
COMMANDS = dict(all_commands(app))
OF_ALL_RUNS = {
    "shard", "output", "replace", "verbose", "quiet", "log", "form", "as_json", "device", "precision", "batch_tokens",
    "threads", "models_folder", "ray", "workers", "cpus_per_worker", "gpus_per_worker",
}  # fmt: skip


def written(default):
    """A default as the command line has it: a list as words with commas, nothing as an empty text."""
    return ",".join(map(str, default)) if isinstance(default, tuple | list) else str(default or "")


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_a_command_a_function_and_results_that_can_be_read(name):
    import negengine as ng

    declared, function = EXPERIMENTS[name], registry.library_function(name)
    assert declared.results.stage == name
    assert registry.run_class(name) is declared.results
    assert (getattr(ng, name).__wrapped__, name in ng.__all__) == (function, True)
    arguments = inspect.signature(function).parameters
    options = {own.name: own for own in COMMANDS[name].params if isinstance(own, click.Option)}
    assert set(options) >= OF_ALL_RUNS
    by_keyword = {key: own for key, own in arguments.items() if own.kind is own.KEYWORD_ONLY and key != "model"}
    assert set(options) - OF_ALL_RUNS - {"plan", "model", "help"} == set(by_keyword)
    for key, own in by_keyword.items():
        assert written(options[key].default) == written(own.default), key


def test_a_probe_of_another_package_that_is_none_is_told(monkeypatch):
    registry.experiments.cache_clear()
    monkeypatch.setattr(registry, "entry_points", lambda group: [EntryPoint("theirs", "json:dumps", group)])
    told = r"theirs of negengine.probes \(json:dumps\) is not an Experiment of this name"
    with pytest.raises(InputError, match=told):
        registry.experiment("theirs")
    registry.experiments.cache_clear()


PROGRAM = """
import inspect, json, sys
from pathlib import Path
import negengine as ng
import polars as pl
from negengine.engine.cli import main

def command(*words, status=0):
    sys.argv = ["negengine", *map(str, words)]
    assert main.run() == status, words

model = sys.argv[1]
command("colours", "--help")
command("colours", model, "-o", "whole")
command("colours", model, "-o", "whole", "--things", 3, status=2)  # another run
command("colours", model, "--shard", "1/2", "-o", "first")
command("colours", model, "--shard", "2/2", "-o", "second", "--device", "cpu,cpu")
command("merge", "first", "second", "-o", "merged")
for name in ("items.parquet", "summary.parquet"):
    assert Path("merged", name).read_bytes() == Path("whole", name).read_bytes()
command("compare", "whole", "merged")
command("compare", "first", "whole", status=2)
for words in ("show", "verify", "cite"):
    command(words, "whole")
command("report", "whole", "-o", "report.html")
command("figures", "whole", "-o", "figures")
command("reproduce", "whole", "-o", "again")
Path("suite.toml").write_text(f'[[model]]\\nmodel = "{model}"\\n[[probe]]\\nprobe = "colours"\\nthings = 2\\n')
command("suite", "suite.toml", "-o", "suite")
command("endings", model, "-o", "endings")  # on texts behind contexts
for words in ("show", "verify", "cite"):
    command(words, "endings")
ends = ng.open("endings")
run, said = ng.colours(model, output="whole", progress=False), pl.col("condition") == "affirmative"
again = [(check.what, check.n, check.wrong) for check in ng.verify(run, model=model).checks if "again" in check.what]
print(json.dumps({
    "decided again": again,
    "items": len(run.items), "same": ng.open("merged").items.equals(run.items), "in_dir": "colours" in dir(ng),
    "parameters": list(inspect.signature(ng.colours).parameters), "doc": inspect.getdoc(ng.colours),
    "n": ng.compare(run, "merged").frame["n"].to_list(),
    "again": Path("again/items.parquet").read_bytes() == Path("whole/items.parquet").read_bytes(),
    "page": "a word other than “blue”" in Path("report.html").read_text(),
    "drawn": sorted(path.stem for path in Path("figures").glob("*.svg")),
    "ends": ends.summary.filter(metric="expected", split="all").sort("condition")["n"].to_list(),
    "expected": ends.items.filter(pl.col("lead").is_not_null()).select(
        (pl.col("expected") == (pl.col("lead") > 1e-4)).all()).item(),
    "failed": run.sentences().select((pl.col("failed") == ((pl.col("rank") == 1) != said)).all()).item()}))
"""


def test_experiments_of_at_most_60_lines_that_are_installed_get_everything(python, mini, tmp_path):
    source, folder = shutil.copytree(Path(__file__).with_name("colours"), tmp_path / "colours"), tmp_path / "installed"
    for name in ("colours.py", "endings.py"):
        assert len((source / name).read_text("utf-8").splitlines()) <= 60
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    assert python("-m", "pip", "install", *offline, "--target", folder, source).status == 0
    done = python("-c", PROGRAM, mini.folder, env={**os.environ, "PYTHONPATH": str(folder)}, cwd=tmp_path)
    assert done.status == 0, done.out + done.err
    assert "--things" in done.out
    assert "made with" in done.err  # another run is refused
    assert "only shard 1/2 of colours; put all shards together with `merge`" in done.err
    found = json.loads(done.out.splitlines()[-1])
    assert "things: Number of things to ask about." in found.pop("doc")
    assert found.pop("decided again") == [["items decided again by the reference model", 12, 0]]
    assert found == {
        "items": 12, "same": True, "in_dir": True, "parameters": ["model", "things", "options"],
        "n": [6] * 4, "ends": [3, 3], "expected": True, "again": True, "page": True, "drawn": ["first", "surprisal"],
        "failed": True,
    }  # fmt: skip
