"""`import negengine as ng`: quick, typed, and complete."""

import inspect
import subprocess
import sys
from pathlib import Path

import negengine as ng
import pytest


@pytest.mark.parametrize(
    ("use", "absent"),
    [
        ("ng", ("numpy", "polars", "onnxruntime", "scipy", "torch", "transformers", "typer", "rich")),
        ("ng.load, ng.select, ng.compare", ("torch", "transformers", "optimum", "onnx")),
    ],
)
def test_importing_it_imports_no_library_and_using_it_nothing_of_the_exporter(use, absent):
    code = f"import sys, negengine as ng; {use}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ng.__all__)
def test_every_name_and_every_argument_of_a_function_is_described(name):
    found, text = getattr(ng, name), inspect.getdoc(getattr(ng, name))
    assert text
    if name.islower():
        for parameter in inspect.signature(found).parameters:
            assert f"{parameter}:" in text, parameter
            assert parameter in found.__annotations__, parameter
        assert "InputError" in text


def test_the_package_is_typed_and_completion_offers_names_that_are_no_package_inside():
    """An import of `negengine.export` would put the package in the place of a function `ng.export`."""
    assert Path(ng.__file__).with_name("py.typed").is_file()
    assert set(ng.__all__) <= set(dir(ng))
    assert not {"engine", "export", "bench"} & set(ng.__all__)
