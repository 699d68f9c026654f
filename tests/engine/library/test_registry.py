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
from negengine.engine.basics.errors import InputError
from negengine.engine.cli.main import app
from negengine.engine.library import registry
from negengine.engine.library.run import Run

PROBES = registry.probes()
COMMANDS = typer.main.get_command(app).commands
FUNCTIONS = sorted(name for name in registry.resumable() if " " not in name)  # a subcommand is not in the library


def test_everything_that_the_registry_names_exists():
    names = []
    for probe in PROBES:
        stages = [registry.load(reference) for reference in probe.stages]
        names += [stage.name for stage in stages]
        assert stages[-1].name in probe.runs, f"{probe.name}: the last stage's results cannot be read"
        assert registry.load(probe.runs[stages[-1].name]).outcomes is not Run.outcomes, f"{probe.name}: not compared"
        for stage in stages:
            assert callable(registry.publishers()[stage.name])
            assert not getattr(stage.publish, "__isabstractmethod__", False)
        for stage, reference in probe.runs.items():
            assert registry.load(reference).stage == stage
        for reference in [*probe.functions.values(), *filter(None, probe.commands.values()), *probe.sections.values()]:
            assert callable(registry.load(reference)), reference
        assert set(probe.functions) <= set(probe.commands)
    assert len(names) == len(set(names))


def test_every_function_that_resumes_is_a_command_and_a_name_of_the_library():
    import negengine as ng

    common = {"device", "precision", "batch_tokens", "threads", "shard", "output", "verbose", "form", "as_json"}
    for name in FUNCTIONS:
        assert name in ng.__all__
        assert common <= {parameter.name for parameter in COMMANDS[name].params}, name
        function = registry.library_function(name)
        assert function.__name__ == name
        documented = inspect.getdoc(function)
        for key, parameter in inspect.signature(function).parameters.items():
            assert f"    {'**' * (parameter.kind is parameter.VAR_KEYWORD)}{key}: " in documented, (name, key)


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
    assert found.experiment == "negengine.engine.experiments.nli.nli:Nli"
    assert list(found.subcommands) == ["train"]


def test_a_command_that_no_probe_has_is_not_found():
    assert registry.find_command("no-such-command") is None


class Entry:
    """An entry point that somebody's package names."""

    name, value = "theirs", "theirs.entry:PROBE"

    def __init__(self, found):
        self.load = lambda: found


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ("a text", r"theirs of negengine.probes \(theirs.entry:PROBE\) is not an Experiment"),
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
import inspect, json, sys
from pathlib import Path
import negengine as ng
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
run = ng.colours(model, output="whole", progress=False)
again = [(check.what, check.n, check.wrong) for check in ng.verify(run, model=model).checks if "again" in check.what]
print(json.dumps({
    "decided again": again,
    "items": len(run.items), "same": ng.open("merged").items.equals(run.items), "in_dir": "colours" in dir(ng),
    "parameters": list(inspect.signature(ng.colours).parameters), "doc": inspect.getdoc(ng.colours),
    "resumable": "colours" in main.resumable(), "n": ng.compare(run, "merged").frame["n"].to_list(),
    "again": Path("again/items.parquet").read_bytes() == Path("whole/items.parquet").read_bytes(),
    "page": "Colours of things" in Path("report.html").read_text(),
    "drawn": sorted(path.stem for path in Path("figures").glob("*.svg")),
    "failed": run.sentences()["failed"].to_list() == (run.items["rank"] != 1).to_list()}))
"""


def test_an_experiment_of_at_most_60_lines_gets_everything(theirs, mini, tmp_path):
    source = Path(__file__).with_name("colours") / "colours.py"
    assert len(source.read_text("utf-8").splitlines()) <= 60
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, mini.folder],
        capture_output=True,
        text=True,
        check=False,
        env=theirs,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--things" in done.stdout
    assert "made with" in done.stderr  # another run is refused
    assert "only shard 1/2 of colours; put all shards together with `merge`" in done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert "things: Number of things to ask about." in found.pop("doc")
    assert found.pop("decided again") == [["items decided again by the reference model", 12, 0]]
    assert found == {
        "items": 12, "same": True, "in_dir": True, "parameters": ["model", "things", "options"], "resumable": True,
        "n": [6] * 4, "again": True, "page": True, "drawn": ["first", "surprisal"], "failed": True,
    }  # fmt: skip
