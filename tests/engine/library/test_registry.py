"""The registry of probes: complete for the bundled ones, and open for those of other packages."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.core
import typer.main
from negengine.engine.cli.main import app
from negengine.engine.errors import InputError
from negengine.engine.library import registry
from negengine.engine.library.run import Run
from negengine.engine.runs.stage import Stage

PROBES = registry.probes()
COMMANDS = typer.main.get_command(app).commands


FUNCTIONS = sorted(name for name in registry.resumable() if " " not in name)  # a subcommand is not in the library


def ids(probe):
    return probe.name


@pytest.mark.parametrize("probe", PROBES, ids=ids)
def test_every_part_that_an_entry_names_exists(probe):
    stages = [registry.load(reference) for reference in probe.stages]
    assert all(issubclass(stage, Stage) for stage in stages)
    for stage, reference in probe.runs.items():
        found = registry.load(reference)
        assert issubclass(found, Run)
        assert found.stage == stage
        assert stage in {own.name for own in stages}
    assert all(callable(registry.load(reference)) for reference in [*probe.functions.values(), *probe.commands])
    assert all(callable(registry.load(reference)) for reference in probe.sections.values())


@pytest.mark.parametrize("probe", PROBES, ids=ids)
def test_what_a_probe_must_have(probe):
    assert probe.stages
    assert registry.load(probe.stages[-1]).name in probe.runs, "the last stage's results cannot be read"
    assert set(probe.functions) <= {registry.load(reference).__name__ for reference in probe.commands}


@pytest.mark.parametrize("stage", [s for p in PROBES for s in p.stages])
def test_every_stage_can_be_published_by_a_merge(stage):
    found = registry.load(stage)
    assert registry.publishers()[found.name] is found.publish
    assert not getattr(found.publish, "__isabstractmethod__", False)


@pytest.mark.parametrize("run", sorted({r for p in PROBES for r in list(p.runs.values())[-1:]}))
def test_every_last_stage_can_be_compared(run):
    assert registry.load(run).outcomes is not Run.outcomes


def test_names_of_stages_are_taken_once():
    names = [registry.load(reference).name for probe in PROBES for reference in probe.stages]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_that_resumes_is_a_command_and_a_name_of_the_library(name):
    import negengine as ng

    assert name in COMMANDS
    assert name in ng.__all__
    assert {"device", "precision", "batch_tokens", "threads", "shard", "output", "verbose", "form", "as_json"} <= {
        parameter.name for parameter in COMMANDS[name].params
    }


def written(default):
    """A default as the command line has it: a list as words with commas, nothing as an empty text."""
    return ",".join(map(str, default)) if isinstance(default, tuple | list) else str(default or "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_options_are_keyword_arguments_with_the_commands_names_and_defaults(name):
    function = registry.library_function(name)
    arguments = {
        key: own for key, own in inspect.signature(function).parameters.items() if own.kind is own.KEYWORD_ONLY
    }
    options = {own.name: own for own in COMMANDS[name].params if isinstance(own, typer.core.TyperOption)}
    common = {"shard", "output", "verbose", "form", "as_json", "device", "precision", "batch_tokens", "threads", "help"}
    common |= {"ray", "workers", "cpus_per_worker", "gpus_per_worker"}  # the executor of the library
    common |= {"plan"}  # a question that the command answers instead of a run
    common |= {"detector"}  # the model of the library; the command also takes `words`
    assert set(options) - common == set(arguments) - common
    for key in set(arguments) - common:
        assert written(options[key].default) == written(arguments[key].default), key


def test_listing_probes_imports_none_of_them():
    code = (
        "import sys\n"
        "from negengine.engine.library import registry\n"
        "registry.probes(), registry.resumable()\n"
        "print([m for m in sys.modules if m.endswith(('.stage', '.runs', '.commands', 'numpy', 'polars'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_bundled_command_is_found_without_a_look_at_what_is_installed(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda group: pytest.fail("all installed packages were listed"))
    registry.probes.cache_clear()
    found = registry.find_command("nli")
    monkeypatch.undo()
    assert found.function == "negengine.engine.experiments.nli.commands:nli"
    assert list(found.subcommands) == ["train"]


def test_the_commands_of_all_probes_have_their_functions_names():
    found = registry.commands(PROBES)
    assert {name: registry.load(own.function).__name__ for name, own in found.items()} == {
        name: name.replace("-", "_") for name in found
    }
    assert registry.find_command("no-such-command") is None


class Entry:
    """An entry point that somebody's package names."""

    name, value = "theirs", "theirs.entry:PROBE"

    def __init__(self, found):
        self.load = lambda: found


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("a text", r"theirs of negengine.probes \(theirs.entry:PROBE\) is not a Probe"),
        (registry.Probe("lama", (), {}, {}), "has the name of another probe"),
    ],
)
def test_an_entry_point_that_is_wrong_is_told(found, message, monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda group: [Entry(found)])
    registry.probes.cache_clear()
    with pytest.raises(InputError, match=message):
        registry.probes()
    monkeypatch.undo()
    registry.probes.cache_clear()


# ---------------------------------------------------------------- a probe of another package


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """The environment of a Python that has the package `colours` installed."""
    folder = tmp_path_factory.mktemp("site")
    source = shutil.copytree(Path(__file__).with_name("colours"), tmp_path_factory.mktemp("source") / "colours")
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", folder, source]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return {**os.environ, "PYTHONPATH": str(folder)}


PROGRAM = """
import json, sys
from pathlib import Path
import negengine as ng
from negengine.engine.cli import main

def command(*words):
    sys.argv = ["negengine", *words]
    assert main.run() == 0, words

model = sys.argv[1]
command("colours", model, "-o", "whole")
command("colours", model, "--shard", "1/2", "-o", "first")
command("colours", model, "--shard", "2/2", "-o", "second", "--device", "cpu,cpu")
command("merge", "first", "second", "-o", "merged")
assert Path("merged/items.parquet").read_bytes() == Path("whole/items.parquet").read_bytes()
command("compare", "whole", "merged")
command("colours", "--help")
sys.argv = ["negengine", "compare", "first", "whole"]
assert main.run() == 2
run = ng.colours(model, output="whole", progress=False)
again = [(check.what, check.n, check.wrong) for check in ng.verify(run, model=model).checks if "again" in check.what]
print(json.dumps({"items": len(run.items), "same": ng.open("merged").items.equals(run.items),
                  "resumable": "colours" in main.resumable(), "again": again,
                  "n": ng.compare(run, "merged").frame["n"].to_list()}))
"""


def test_a_probe_of_another_package_runs_shards_merges_verifies_and_compares(theirs, mini, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mini.folder],
        capture_output=True,
        text=True,
        check=False,
        env=theirs,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "--precision" in done.stdout
    assert "only shard 1/2 of colours; put all shards together with `merge`" in done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.pop("again") == [["items decided again by the reference model", 12, 0]]
    assert found == {"items": 12, "same": True, "resumable": True, "n": [6, 6]}
