"""A package that is missing is told in one line, with the extra that installs it."""

import subprocess
import sys

import pytest
from negengine.engine.basics.errors import InputError, needs_extra


def test_a_missing_package_names_its_extra():
    with pytest.raises(InputError, match=r"^nli train needs accelerate: pip install 'negengine\[train\]'$"):  # noqa: SIM117
        with needs_extra("train", "nli train"):
            raise ModuleNotFoundError("No module named 'accelerate'", name="accelerate")


def test_a_module_of_the_program_that_is_missing_is_a_bug():
    with pytest.raises(ModuleNotFoundError), needs_extra("train", "nli train"):
        raise ModuleNotFoundError("No module named 'negengine.export.training'", name="negengine.export.training")


@pytest.mark.parametrize("command", [["predict", "mini", "She is happy to [MASK]."], ["show", "runs/mini"]])
def test_without_onnx_runtime_a_command_names_both_builds(command):
    program = (
        "import sys; sys.modules['onnxruntime'] = None; import negengine.engine.cli.main as own; sys.exit(own.run())"
    )
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True, text=True, check=False)
    said = "negengine: ONNX Runtime is missing: pip install 'negengine[cpu]', or 'negengine[gpu]' for an NVIDIA GPU\n"
    assert (done.returncode, done.stderr, done.stdout) == (2, said, "")
