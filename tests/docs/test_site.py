"""The pages build without a warning and without a network; links, pictures and generated pages are right."""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlparse

import negengine as ng
import pytest
import typer.main
from mkdocs.commands.build import build
from mkdocs.config import load_config
from negengine.engine.cli.main import app
from negengine.engine.cli.program import all_commands

ROOT = Path(__file__).parents[2]


class Page(HTMLParser):
    """What a page refers to: links, and what the browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") not in {"canonical", "prev", "next"}:
            self.loaded.append(found.get("href", ""))
        elif "src" in found:
            self.loaded.append(found["src"])
        if tag == "img":
            self.images.append(found)


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
    return {path: Page(text) for path, text in site.items()}


def test_every_command_and_every_name_of_the_library_has_a_page_or_a_heading(site, pages):
    for name, command in all_commands(typer.main.get_command(app)):
        page = f"commands/{name.replace(' ', '-')}.html"
        assert page in pages["commands.html"].links
        options = {option for own in command.params for option in own.opts if option.startswith("--")} - {"--help"}
        assert not [option for option in options if not re.search(rf"{option}\b", site[page])], name
    assert not [name for name in ng.__all__ if f">ng.{name}<" not in site["names.html"]]


def test_a_notebook_is_a_page_with_its_results_and_the_search_needs_no_server(site, pages):
    page = site["notebooks/main_job.html"]
    assert "Which verbs does the model repeat?" in page
    assert "<caption>Drop of ACT repetition: mini</caption>" in page
    assert "main_job.ipynb" in pages["notebooks/main_job.html"].links
    assert "notebooks/main_job.html" in pages["library.html"].links
    assert {path.rpartition("/")[2] for path in pages["index.html"].loaded} >= {"iframe-worker.js"}


def test_nothing_is_loaded_from_elsewhere_and_links_and_pictures_are_well_formed(pages):
    for path, page in pages.items():
        assert not [address for address in page.loaded if urlparse(address).netloc], path
        for link in map(urlparse, page.links):
            if link.scheme or link.netloc:
                assert link.scheme == "https", f"{path}: {link.geturl()}"
                assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", link.netloc), f"{path}: {link.geturl()}"
                assert re.fullmatch(r"[\w/.:()@~+-]*", link.path), f"{path}: {link.geturl()}"
    images = [image for page in pages.values() for image in page.images]
    assert len(images) >= 4
    assert all(len(image["alt"]) > 40 for image in images)  # for those who do not see them


def test_drawings_are_our_own_files_with_a_title():
    drawings = list((ROOT / "docs" / "images").glob("*.svg"))
    assert len(drawings) >= 4
    for drawing in drawings:
        text = drawing.read_text("utf-8")
        assert not re.search(r"(href|src|url\()\W*https?:", text), drawing.name
        assert "<title" in text or 'aria-label="' in text, drawing.name
