"""The documents keep up with the program."""

import re
from pathlib import Path

import negengine as ng
import pytest
import typer.main
from negengine.engine.cli.main import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
PROGRAM = typer.main.get_command(app)


def commands():
    """Name → command, those of groups with the group's name before."""
    found = {}
    for name, command in PROGRAM.commands.items():
        inner = getattr(command, "commands", None)
        found |= {f"{name} {sub}": own for sub, own in inner.items()} if inner else {name: command}
    return found


@pytest.mark.parametrize("name", commands())
def test_the_readme_names_every_command_and_option(name):
    assert f"negengine {name}" in README
    for parameter in commands()[name].params:
        for option in parameter.opts:
            if option.startswith("--") and option != "--help":
                assert re.search(rf"{option}\b", README), f"{name} has {option}"


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)", README + CONTRIBUTING, re.MULTILINE))
    assert {one or other for one, other in named} <= targets
    assert {"demo", "test", "help", "export", "select", "score", "bench"} <= targets


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_that_a_document_names_exists(document):
    text = document.read_text("utf-8")
    if document.name == "CHANGELOG.md":  # it names what was there then
        return
    for path in re.findall(r"`((?:engine|export|bench|tests|docs)/[\w./-]*)`", text):
        if "NAME" not in path:
            assert (ROOT / path).exists(), path
    for path in re.findall(r"`([A-Z]+\.md)`", text):
        assert (ROOT / path).is_file(), path
    for path in re.findall(r"\]\(((?!http)[^)#]+)", text):
        assert (document.parent / path).exists(), path


def test_every_name_of_the_library_that_a_document_uses_exists():
    used = {name for document in DOCUMENTS for name in re.findall(r"\bng\.(\w+)", document.read_text("utf-8"))}
    assert {"load", "select", "score"} <= used <= set(ng.__all__)


def test_the_readme_names_every_function_of_the_library():
    for name in ng.__all__:
        assert not name.islower() or f"ng.{name}" in README, name


def test_contributing_lists_the_packages_in_the_order_of_their_imports():
    listed = re.findall(r"^\| `engine/(\w+)/`(?:, `engine/\w+/`)? \|", CONTRIBUTING, re.MULTILINE)
    order = (ROOT / "tests/test_import_graph.py").read_text("utf-8").partition("ORDER = (")[2].partition("\n)")[0]
    packages = re.findall(r"negengine\.engine\.(\w+)", order)
    assert [name for name in packages if name in listed] == listed
    assert set(packages) - set(listed) == {"choices", "errors", "printable", "versions"}


def test_versions_agree():
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE).group(1)
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


def test_dependencies_are_those_of_the_tested_versions():
    """Every package that the project asks for has a version in constraints.txt."""
    asked = re.findall(r'^  "([a-z0-9-]+)[\[><=;]', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    fixed = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()}
    assert {name for name in asked if name != "onnxruntime"} <= fixed
