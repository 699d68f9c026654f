"""Help: every command has one with an example, and it answers at once."""

import os
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer.main
from negengine.engine.cli.main import app
from negengine.engine.commands.subcommands import all_commands

HEAVY = ("numpy", "polars", "onnxruntime", "scipy", "tokenizers", "torch", "transformers")
EXPORTER = ("torch", "transformers", "optimum", "onnx")


COMMANDS = dict(all_commands(typer.main.get_command(app)))
"""All commands by name, those of groups with the group's name before."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name, command):
    done = command(*name.split(), "--help")
    assert done.status == 0
    assert done.err == ""
    assert f"negengine {name}" in " ".join(" ".join(done.out.split()).partition("Example: ")[2].split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_says_what_it_is_for(name):
    for parameter in COMMANDS[name].params:
        assert parameter.help, f"{name} {parameter.name}"


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("bench", "[WHAT] [MODEL...]"),
        ("cues", "FILE..."),
        ("cues train", "[FILE...]"),
        ("export", "[MODEL]"),
        ("predict", "MODEL TEXT..."),
        ("doctor", ""),
    ],
)
def test_the_usage_names_each_argument_once(name, usage, command):
    assert command(*name.split(), "--help").out.splitlines()[0] == f"Usage: negengine {name} [OPTIONS] {usage}".strip()


def test_choices_are_shown(command):
    out = "".join(command("select", "--help").out.split())
    assert "auto|fp32|mixed" in out
    assert "pronoun|same-name|same-gender|other-gender" in out
    assert "csv|json|latex|markdown|table" in out


def test_without_a_command_help_is_shown(command):
    done = command()
    assert done.status == 0
    assert "Commands:" in done.out
    assert all(f" {name.split()[0]} " in done.out for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["--help"], ["select", "--help"], ["compare", "--help"]])
def test_help_loads_no_heavy_library(arguments):
    code = (
        "import sys\n"
        "from negengine.engine.cli.__main__ import main\n"
        f"sys.argv = ['negengine', *{arguments!r}]\n"
        "try: main()\n"
        f"finally: print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_running_a_model_loads_nothing_of_the_exporter(mini, small_lexicon, tmp_path):
    """A machine that only runs exported models needs no PyTorch."""
    arguments = ["select", str(mini.folder), "--lexicon", str(small_lexicon), "-o", str(tmp_path / "run")]
    code = (
        "import sys\n"
        "from negengine.engine.cli.__main__ import main\n"
        f"sys.argv = ['negengine', *{arguments!r}]\n"
        "try: main()\n"
        f"finally: print([m for m in {EXPORTER!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("name", ["", *COMMANDS, "data"])
def test_no_line_of_help_is_cut_or_too_long(name, columns, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = command(*name.split(), "--help").out.splitlines()
    assert max(map(len, lines)) <= columns
    assert not [line for line in lines if line.endswith("...") and "Usage:" not in line]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_default_of_every_option_is_shown(name, command):
    """Filters and switches have none: they are off."""
    for parameter in COMMANDS[name].params:
        is_filter = parameter.multiple if parameter.param_type_name == "option" else parameter.nargs == -1
        if parameter.default is None and not parameter.required and not is_filter:
            assert "default" in parameter.help, f"{name} {parameter.opts[0]}"


def test_the_version_is_shown(command):
    done = command("--version")
    assert (done.status, done.out) == (0, f"negengine {version('negengine')}\n")


def test_a_group_without_a_command_shows_its_help(command):
    done = command("data")
    assert (done.status, done.err) == (0, "")
    assert "Commands:" in done.out


def test_a_shell_completes_commands_options_and_models(program, mini, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "small").symlink_to(mini.folder)
    asked_and_found = {"negengine sel": "select", "negengine show --fai": "--failed", "negengine select s": "small"}
    for words, found in asked_and_found.items():
        asked = {"_NEGENGINE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert found in program(env={**os.environ, **asked}).out.split()
