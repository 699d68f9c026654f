"""`import negengine as ng`: quick, typed, and complete."""

import inspect
import subprocess
import sys
import types
from pathlib import Path

import negengine as ng
import pytest

SOURCE = Path(ng.__file__)
FUNCTIONS = [name for name in ng.__all__ if name.islower()]


def test_importing_it_imports_no_library():
    code = "import sys; import negengine; print(sorted(m for m in {!r} if m in sys.modules))"
    heavy = ("numpy", "polars", "onnxruntime", "scipy", "torch", "transformers", "typer", "rich")
    done = subprocess.run([sys.executable, "-c", code.format(heavy)], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_using_it_imports_nothing_of_the_exporter():
    code = "import sys, negengine as ng; ng.load, ng.select, ng.compare; print([m for m in {!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code.format(("torch", "transformers", "optimum", "onnx"))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("name", ng.__all__)
def test_every_name_exists_and_is_described(name):
    assert inspect.getdoc(getattr(ng, name))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_of_a_function_is_described(name):
    function = getattr(ng, name)
    text = inspect.getdoc(function)
    for parameter in inspect.signature(function).parameters:
        assert f"{parameter}:" in text, f"{name}: {parameter}"
        assert parameter in function.__annotations__, f"{name}: {parameter}"
    assert "InputError" in text


def test_the_package_says_that_it_is_typed():
    assert (SOURCE.parent / "py.typed").is_file()


def test_completion_offers_the_names():
    assert set(ng.__all__) <= set(dir(ng))
    assert isinstance(ng, types.ModuleType)


def test_no_name_is_that_of_a_package_inside():
    """An import of `negengine.export` would put the package in the place of a function `ng.export`."""
    assert not {"engine", "export", "bench"} & set(ng.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'negengine' has no attribute 'selekt'"):
        _ = ng.selekt
