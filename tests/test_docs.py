"""The documents keep up with the program."""

import re
import shutil
import subprocess
from datetime import date
from pathlib import Path

import negengine as ng
import pytest

ROOT = Path(__file__).parents[1]


def text(name):
    return (ROOT / name).read_text("utf-8")


README, CONTRIBUTING, PROJECT = map(text, ("README.md", "CONTRIBUTING.md", "pyproject.toml"))
LINK = re.compile(r"\]\(((?!http)[^)#]+)")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
GENERATED = {"names.md"}  # pages that are made while the site is built (tests/docs/test_site.py)


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"(?m)^([a-z0-9-]+):", text("Makefile")))
    assert set(re.findall(r"(?m)(?:^|`)make ([a-z0-9-]+)", README + CONTRIBUTING)) <= targets
    assert {"demo", "test", "help", "export", "select", "score", "bench"} <= targets


@pytest.mark.skipif(not shutil.which("make"), reason="make is not installed")
def test_the_demo_installs_what_it_needs_and_the_setup_the_rest(tmp_path):
    def extras(target):
        command = ["make", "-n", target, f"VENV={tmp_path / 'venv'}", "RUNTIME=cpu"]
        said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return re.findall(r"-e '\.\[([a-z,]+)\]'", said)

    assert extras("demo") == ["cpu,export,report"]
    assert extras("setup") == ["cpu,docs,export,ray,report,test,train"]


def test_every_file_that_a_document_names_exists():
    for document in DOCUMENTS:
        content = document.read_text("utf-8")
        named = re.findall(r"`((?:engine|export|bench|tests|docs)/[\w./-]*|[A-Z]+\.md)`", content)
        missing = [path for path in named if "NAME" not in path and not (ROOT / path).exists()]
        linked = [path for path in LINK.findall(content) if path not in GENERATED]
        missing += [path for path in linked if not (document.parent / path).exists()]
        assert not missing, document.name


def test_documents_use_names_that_exist_and_the_guide_of_the_library_names_every_function():
    used = {path.name: set(re.findall(r"\bng\.(\w+)", path.read_text("utf-8"))) for path in DOCUMENTS}
    assert set().union(*used.values()) <= set(ng.__all__)
    assert {name for name in ng.__all__ if name.islower()} <= used["library.md"]


def test_the_readme_is_one_page_and_leads_to_every_page():
    assert len(README.splitlines()) <= 120
    linked = LINK.findall(README + text("docs/index.md"))
    named = {Path(path).name for path in linked}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"} <= named


def test_contributing_lists_the_packages_in_the_order_of_their_imports():
    listed = re.findall(r"(?m)^\| `engine/(\w+)/`(?:, `engine/\w+/`)? \|", CONTRIBUTING)
    order = text("tests/test_import_graph.py").partition("ORDER = (")[2].partition(")")[0]
    rooms = [name for name in re.findall(r'"([\w.]+)"', order) if (ROOT / "engine" / name.rpartition(".")[2]).is_dir()]
    assert listed == [name.rpartition(".")[2] for name in rooms]


def test_version_and_date_of_a_release_agree():
    version = re.search(r'(?m)^version = "(.+)"', PROJECT)[1]
    cited = re.search(r"(?m)^version: (.+)\ndate-released: (.+)$", text("CITATION.cff"))
    released = date.fromisoformat(cited[2])
    assert cited[1] == version
    assert f"\n## {version}, {released.day} {released:%B %Y}\n" in text("CHANGELOG.md")


def test_dependencies_are_those_of_the_tested_versions():
    """Every package that the project asks for has a version in constraints.txt."""
    fixed = {line.partition("==")[0].lower().replace("_", "-") for line in text("constraints.txt").splitlines()}
    assert set(re.findall(r'(?m)^  "([a-z0-9-]+)[\[><=;]', PROJECT)) - {"onnxruntime", "negengine"} <= fixed
