"""Help: every command has one with an example, every option says what it is for, and no line is cut.

And what a command imports: no library that it does not use, since imports are most of its time.
"""

import json
import os
from importlib.metadata import version

import pytest
from negengine.engine.basics.errors import InputError
from negengine.engine.cli.main import app
from negengine.engine.cli.program import all_commands
from negengine.engine.library.model import export

COMMANDS = dict(all_commands(app))


def test_every_command_has_help_with_an_example_and_no_line_is_cut(command):
    for name in ("", "data", *COMMANDS):
        done = command(*name.split(), "--help")
        assert (done.status, done.err) == (0, ""), name
        assert not [line for line in done.out.splitlines() if line.endswith("...") and "Usage:" not in line], name
        if (found := COMMANDS.get(name)) is None:
            continue
        assert f"negengine {name}" in " ".join(done.out.split()).partition("Example: ")[2], name
        shown = [line.split()[0] for line in done.out.splitlines() if line[:2] == "  " and line[2:3].strip()]
        for parameter in found.params:  # each argument once
            assert shown.count(parameter.make_metavar(found.make_context(name, [], resilient_parsing=True))) <= 1, name
    usage = command("cues", "train", "--help").out.splitlines()[0]
    assert usage == "Usage: negengine cues train [OPTIONS] [FILE...]"


def test_every_option_says_what_it_is_for_and_its_default():
    """Filters and switches have none: they are off."""
    for name, found in COMMANDS.items():
        for parameter in found.params:
            assert parameter.help, f"{name} {parameter.name}"
            is_filter = parameter.multiple if parameter.param_type_name == "option" else parameter.nargs == -1
            if parameter.default is None and not parameter.required and not is_filter:
                assert "default" in parameter.help, f"{name} {parameter.opts[0]}"


def test_an_export_offers_the_precisions_that_it_has(command):
    assert "[auto|fp32|mixed]" in command("export", "--help").out
    assert "--precision" in command("export", "--precision", "int8").said
    with pytest.raises(InputError, match="--precision int8: "):
        export(precision="int8")


def test_the_first_argument_decides_whether_a_subcommand_runs(command):
    assert "  nli train  Train a classifier of text pairs" in command("nli", "--help").out
    said = {
        "nli train m --source RTE": "No such option '--source' (see `negengine nli train --help`)",
        "nli m --epochs 5": "No such option '--epochs' (see `negengine nli --help`)",
        "nli ./train": "run `negengine export ./train --task text-classification` first",
        "predict train": "Missing argument 'TEXT...'",
    }
    found = {words: command(*words.split()).said for words in said}
    assert not [words for words in said if said[words] not in found[words]], found


def test_the_list_of_commands_and_the_version_are_shown(command):
    done = command()
    assert (done.status, done.err) == (0, "")
    assert all(f" {name.split()[0]} " in done.out.partition("Set up:")[2] for name in COMMANDS)
    headings = [line.rstrip(":") for line in done.out.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == ["Options", "Set up", "Run", "Look at results", "For a paper"]
    assert command("--version").out == f"negengine {version('negengine')}\n"


def test_help_names_the_folder_of_each_command_and_what_its_precision_can_be(command):
    told = {name: " ".join(command(name, "--help").out.split()) for name in ("select", "score", "nli", "probe")}
    folders = {name: text.partition("run folder (default: ")[2].partition(")")[0] for name, text in told.items()}
    assert folders == {"select": "runs/MODEL", "score": "the RUN", "nli": "runs/MODEL-nli", "probe": "runs/MODEL-probe"}
    assert [name for name, text in told.items() if "mixed is for select, score" in text] == ["probe"]
    assert [name for name, text in told.items() if "--precision [auto|fp32] " in text] == ["probe"]


@pytest.mark.everything
def test_a_shell_completes_commands_options_and_models(program, mini, tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "small").symlink_to(mini.folder)
    asked_and_found = {"negengine sel": "select", "negengine show --fai": "--failed", "negengine select s": "small"}
    for words, found in asked_and_found.items():
        asked = {"_NEGENGINE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert f"plain,{found}" in program(env={**os.environ, **asked}).out.split()


PROGRAM = """
import json, sys
sys.argv = ["negengine", *sys.argv[1:]]
from negengine.engine.cli.main import run
status = run()
print("imported", json.dumps(sorted(sys.modules)), file=sys.stderr)
sys.exit(status)
"""


def test_help_needs_no_numbers_and_a_model_that_runs_no_exporter(python, mini, small_lexicon, tmp_path):
    numbers, exporter = {"numpy", "polars", "onnxruntime"}, {"torch", "transformers", "optimum", "onnx"}
    select = ("select", mini.folder, "--lexicon", small_lexicon, "-o", tmp_path / "run")
    for arguments, absent in {
        ("merge", "--help"): numbers | exporter,
        select: exporter | {"scipy", "ray", "altair"},
        ("predict", mini.folder, "She is happy to [MASK]."): exporter | {"scipy", "filelock"},
    }.items():
        done = python("-c", PROGRAM, *arguments)
        assert done.status == 0, done.err
        assert not absent & {*json.loads(done.err.rpartition("imported ")[2])}, arguments
