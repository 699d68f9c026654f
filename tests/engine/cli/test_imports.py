"""What a command imports: no library that it does not use, since imports are most of its time."""

import json
import subprocess
import sys

EXPORT = {"torch", "transformers", "optimum", "onnx", "onnx_ir", "safetensors", "accelerate"}
OF_SOME_COMMANDS = {"scipy", "tabulate", "pynvml", "requests", "pooch", "ray", "altair", "jinja2", "yaml"}
OF_RUNS = {"filelock", "platformdirs"}
NUMBERS = {"numpy", "polars", "onnxruntime", "tokenizers", "msgspec", "rich"}
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
    return set(json.loads(done.stderr.rpartition("imported ")[2]))


def imported(*arguments) -> set[str]:
    return {name.partition(".")[0] for name in modules(*arguments)}


def test_help_needs_no_numbers_and_a_command_imports_no_other_one():
    for arguments in (["--version"], ["--help"], ["merge", "--help"], ["compare", "--help"]):
        assert not imported(*arguments) & (EXPORT | OF_SOME_COMMANDS | NUMBERS), arguments
    names = modules("predict", "--help")
    assert "negengine.engine.cli.model_commands" in names
    assert not {name for name in names if name.endswith((".benchmark", ".results_commands", ".experiment"))}


def test_a_prediction_needs_nothing_but_the_model_and_begins_to_open_it_before_frames_and_tables_are_imported(mini):
    found = imported("predict", mini.folder, "She is happy to [MASK].")
    assert not found & (EXPORT | OF_SOME_COMMANDS | OF_RUNS)
    assert found >= {"onnxruntime", "tokenizers"}
    program = "import sys, negengine.engine.library.model; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"polars", "rich", "negengine.engine.runs"}


def test_a_selection_needs_no_exporter(mini, small_lexicon, tmp_path):
    select = ("select", mini.folder, "--lexicon", small_lexicon, "-o", tmp_path / "run")
    assert not imported(*select) & (EXPORT | OF_SOME_COMMANDS)
