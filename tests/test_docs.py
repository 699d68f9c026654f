"""The documents keep up with the program."""

import re
from datetime import date
from pathlib import Path

import negengine as ng

ROOT = Path(__file__).parents[1]


def text(name):
    return (ROOT / name).read_text("utf-8")


README = text("README.md")
LINK = re.compile(r"\]\(((?!http)[^)#]+)")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
GENERATED = {"names.md"}  # pages that are made while the site is built (tests/docs/test_site.py)


def test_every_make_target_of_the_readme_exists():
    targets = set(re.findall(r"(?m)^([a-z0-9-]+):", text("Makefile")))
    assert set(re.findall(r"(?m)(?:^|`)make ([a-z0-9-]+)", README + text("CONTRIBUTING.md"))) <= targets


def test_every_file_that_a_document_names_exists():
    for document in DOCUMENTS:
        content = document.read_text("utf-8")
        named = re.findall(r"`((?:engine|export|bench|tests|docs)/[\w./-]*|[A-Z]+\.md)`", content)
        missing = [path for path in named if "NAME" not in path and not (ROOT / path).exists()]
        linked = [path for path in LINK.findall(content) if path not in GENERATED]
        missing += [path for path in linked if not (document.parent / path).exists()]
        assert not missing, document.name


def test_a_reader_who_has_the_sources_and_no_index_can_install_what_a_document_says():
    wrong = re.compile(r"pip install [^`\n]*negengine|negengine\[\w")
    assert [line for document in DOCUMENTS for line in wrong.findall(document.read_text("utf-8"))] == []


def test_documents_use_names_that_exist_and_the_guide_of_the_library_names_every_function():
    used = {path.name: set(re.findall(r"\bng\.(\w+)", path.read_text("utf-8"))) for path in DOCUMENTS}
    assert set().union(*used.values()) <= set(ng.__all__)
    assert {name for name in ng.__all__ if name.islower()} <= used["library.md"]


def test_the_readme_is_one_page_and_leads_to_every_page():
    assert len(README.splitlines()) <= 120
    linked = LINK.findall(README)
    named = {Path(path).name for path in linked}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} <= named


def test_version_and_date_of_a_release_agree():
    version = re.search(r'(?m)^version = "(.+)"', text("pyproject.toml"))[1]
    cited = re.search(r"(?m)^version: (.+)\ndate-released: (.+)$", text("CITATION.cff"))
    released = date.fromisoformat(cited[2])
    assert cited[1] == version
    assert f"\n## {version}, {released.day} {released:%B %Y}\n" in text("CHANGELOG.md")
