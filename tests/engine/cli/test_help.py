"""Help: every command has one with an example, every option says what it is for, and no line is cut.

And what a command imports: no library that it does not use, since imports are most of its time.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest
import typer.main
from negengine.engine.cli.main import app
from negengine.engine.cli.program import all_commands

COMMANDS = dict(all_commands(typer.main.get_command(app)))
USAGE = {
    "bench": "[WHAT] [MODEL...]",
    "cues": "FILE...",
    "cues train": "[FILE...]",
    "export": "[MODEL]",
    "predict": "MODEL TEXT...",
    "doctor": "[NAME...]",
}


def test_every_command_has_help_with_an_example_and_no_line_is_cut_or_too_long(command, monkeypatch):
    for columns in (80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        for name in ("", "data", *COMMANDS):
            done = command(*name.split(), "--help")
            lines = done.out.splitlines()
            assert (done.status, done.err) == (0, ""), name
            assert max(map(len, lines)) <= columns, name
            assert not [line for line in lines if line.endswith("...") and "Usage:" not in line], name
            example = " ".join(" ".join(lines).partition("Example: ")[2].split())
            assert name not in COMMANDS or f"negengine {name}" in example, name

            if name in USAGE:
                assert lines[0] == f"Usage: negengine {name} [OPTIONS] {USAGE[name]}".strip()


def test_every_option_says_what_it_is_for_and_its_default():
    """Filters and switches have none: they are off."""
    for name, found in COMMANDS.items():
        for parameter in found.params:
            assert parameter.help, f"{name} {parameter.name}"
            is_filter = parameter.multiple if parameter.param_type_name == "option" else parameter.nargs == -1
            if parameter.default is None and not parameter.required and not is_filter:
                assert "default" in parameter.help, f"{name} {parameter.opts[0]}"


def test_the_first_argument_decides_whether_a_subcommand_runs(command):
    assert "  nli train  Train a classifier of text pairs" in command("nli", "--help").out
    said = {
        "nli train m --source RTE": "No such option: --source (see `negengine nli train --help`)",
        "nli m --epochs 5": "No such option: --epochs (see `negengine nli --help`)",
        "nli ./train": "run `negengine export ./train --task text-classification` first",
        "predict train": "Missing argument 'TEXT...'",
    }
    found = {words: command(*words.split()).said for words in said}
    assert not [words for words in said if said[words] not in found[words]], found


def test_choices_the_list_of_commands_and_the_version_are_shown(command):
    out = "".join(command("select", "--help").out.split())
    assert "auto|fp32|mixed" in out
    assert "pronoun|same-name|same-gender|other-gender" in out
    done = command()
    assert (done.status, done.err) == (0, "")
    assert all(f" {name.split()[0]} " in done.out.partition("Commands:")[2] for name in COMMANDS)
    assert "Commands:" in command("data").out  # a group without a command
    assert command("--version").out == f"negengine {version('negengine')}\n"


@pytest.mark.everything
def test_a_shell_completes_commands_options_and_models(program, mini, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "small").symlink_to(mini.folder)
    asked_and_found = {"negengine sel": "select", "negengine show --fai": "--failed", "negengine select s": "small"}
    for words, found in asked_and_found.items():
        asked = {"_NEGENGINE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert found in program(env={**os.environ, **asked}).out.split()


OTHERS = {"torch", "transformers", "optimum", "onnx", "onnx_ir", "safetensors", "accelerate"}  # for exports
OTHERS |= {"scipy", "tabulate", "pynvml", "requests", "pooch", "ray", "altair", "jinja2", "yaml"}  # for some commands
PROGRAM = """
import json, sys
sys.argv = ["negengine", *sys.argv[1:]]
from negengine.engine.cli.main import run
status = run()
print("imported", json.dumps(sorted(sys.modules)), file=sys.stderr)
sys.exit(status)
"""


def modules(*arguments) -> set[str]:
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = set(json.loads(done.stderr.rpartition("imported ")[2]))
    assert not names & OTHERS, arguments
    return names


def test_help_needs_no_numbers_and_a_command_imports_no_other_one():
    for arguments in (["--version"], ["--help"], ["merge", "--help"], ["predict", "--help"]):
        names = modules(*arguments)
        assert not names & {"numpy", "polars", "onnxruntime", "tokenizers", "msgspec", "rich"}, arguments
    assert "negengine.engine.cli.model_commands" in names
    assert not {name for name in names if name.endswith((".benchmark", ".results_commands", ".experiment"))}


def test_a_selection_needs_no_exporter_and_a_prediction_nothing_but_the_model_which_opens_before_frames_are_imported(
    mini, small_lexicon, tmp_path
):
    modules("select", mini.folder, "--lexicon", small_lexicon, "-o", tmp_path / "run")
    found = modules("predict", mini.folder, "She is happy to [MASK].")
    assert not found & {"filelock", "platformdirs"}  # of runs
    assert found >= {"onnxruntime", "tokenizers"}
    program = "import sys, negengine.engine.library.model; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"polars", "rich", "negengine.engine.runs"}
