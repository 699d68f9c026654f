"""The pages build without a warning and without a network; links, pictures and generated pages are right."""

import re
import sys
from pathlib import Path
from urllib.parse import urlparse

import negengine as ng
import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from negengine.engine.cli.main import app
from negengine.engine.cli.program import all_commands
from pages import read

from ..test_import_graph import ORDER

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site: path → text of each page. A warning is an error: mkdocs.yml says what it checks."""
    folder = tmp_path_factory.mktemp("site") / "site"
    before = list(sys.path)
    try:
        build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    finally:
        sys.path[:] = before
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.html")}


@pytest.fixture(scope="module")
def pages(site):
    """The elements of each page."""
    return {path: read(text).everything() for path, text in site.items()}


def linked(page):
    return [own.attributes["href"] for own in page if own.name == "a" and "href" in own.attributes]


def loaded(page):
    """What the browser loads with a page."""
    links = [own.attributes for own in page if own.name == "link"]
    found = [own["href"] for own in links if "href" in own and own.get("rel") not in {"canonical", "prev", "next"}]
    return found + [own.attributes["src"] for own in page if "src" in own.attributes]


def test_every_command_and_every_name_of_the_library_has_a_page_or_a_heading(site, pages):
    for name, command in all_commands(app):
        page = f"commands/{name.replace(' ', '-')}.html"
        assert page in linked(pages["commands.html"])
        options = {option for own in command.params for option in own.opts if option.startswith("--")} - {"--help"}
        assert not [option for option in options if not re.search(rf"{option}\b", site[page])], name
    assert not [name for name in ng.__all__ if f">ng.{name}<" not in site["names.html"]]


def test_lists_and_measured_tables_stand_on_their_pages(site):
    assert not [
        path
        for path, text in site.items()
        if re.search("<!-- (list of|measured|source|files|columns of|families):?", text)
    ]
    packages = re.findall(r"<code>((?:engine|export|bench)/[\w/]*)</code></td>", site["CONTRIBUTING.html"])
    assert {name.removesuffix("/").rpartition("/")[2] for name in packages} == set(ORDER)
    shown = {
        "citing.html": [r"Kassner, Hinrich Schütze \(2020\)", "2023.acl-short.80", "2023.blackboxnlp-1.16"],
        "training.html": ["fine-tuned their classifiers"],
        "languages.html": ["self-contained-negation-likes", "italian-null-subject", "s'amuse en"],
        "extending.html": ["Which colour does a model give"],
        "machines.html": ["hoist.py", "slurm/submit.sh", "Puts the shards of a run together", "kubernetes/rayjob.yaml"],
        "BENCHMARKS.html": ["<strong>ours, mixed</strong>", "npi licensing", "as 382 trees"],
    }
    assert not [(page, own) for page, found in shown.items() for own in found if not re.search(own, site[page])]


def test_nothing_is_loaded_from_elsewhere_and_links_and_pictures_are_well_formed(pages):
    for path, page in pages.items():
        assert not [address for address in loaded(page) if urlparse(address).netloc], path
        for link in map(urlparse, linked(page)):
            if link.scheme or link.netloc:
                parts = f"{link.scheme}://{link.netloc}{link.path}"
                assert re.fullmatch(r"https://[\w-]+(\.[\w-]+)+(/[\w/.:()@~+-]*)?", parts), f"{path}: {link.geturl()}"
    pictures = [own for page in pages.values() for own in page if own.name == "img"]
    assert len(pictures) >= 4
    assert all(len(own.attributes.get("alt", "")) > 40 for own in pictures)  # for those who do not see them
