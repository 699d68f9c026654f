"""The documents keep up with the program."""

import re
from pathlib import Path

import pytest
import typer.main
from negengine.engine.cli.main import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
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
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    named = set(re.findall(r"^make ([a-z]+)|`make ([a-z]+)", README, re.MULTILINE))
    assert {one or other for one, other in named} <= targets
    assert {"demo", "test", "help", "export", "select", "score", "bench"} <= targets


def test_every_file_that_the_readme_names_exists():
    for path in re.findall(r"`((?!runs/)[a-z]+/[\w./-]+\.(?:py|md|toml|txt))`", README):
        assert (ROOT / path).is_file(), path
    for path in re.findall(r"`([A-Z]+\.md)`", README):
        assert (ROOT / path).is_file(), path


def test_versions_agree():
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE).group(1)
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_dependencies_are_those_of_the_tested_versions():
    """Every package that the project asks for has a version in constraints.txt."""
    asked = re.findall(r'^  "([a-z0-9-]+)[\[><=;]', (ROOT / "pyproject.toml").read_text("utf-8"), re.MULTILINE)
    fixed = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()}
    assert {name for name in asked if name != "onnxruntime"} <= fixed
