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


def commands():
    """Name → command, those of groups with the group's name before."""
    return dict(all_commands(typer.main.get_command(app)))


@pytest.mark.parametrize("name", commands())
def test_every_command_has_a_page_with_its_options(name, site):
    page = site[f"commands/{name.replace(' ', '-')}.html"]
    for parameter in commands()[name].params:
        for option in parameter.opts:
            assert option == "--help" or not option.startswith("--") or re.search(rf"{option}\b", page), option


def test_the_list_of_commands_leads_to_every_page(pages):
    assert {f"commands/{name.replace(' ', '-')}.html" for name in commands()} <= set(pages["commands.html"].links)


def test_the_library_page_has_every_public_name(site):
    for name in ng.__all__:
        assert f">ng.{name}<" in site["names.html"], name


def test_nothing_is_loaded_from_elsewhere(pages):
    for path, page in pages.items():
        assert not [address for address in page.loaded if urlparse(address).netloc], path


def test_external_links_are_well_formed(pages):
    for path, page in pages.items():
        for link in map(urlparse, page.links):
            if link.scheme or link.netloc:
                assert link.scheme == "https", f"{path}: {link.geturl()}"
                assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", link.netloc), f"{path}: {link.geturl()}"
                assert re.fullmatch(r"[\w/.:()@~+-]*", link.path), f"{path}: {link.geturl()}"


def test_pictures_have_a_text_for_those_who_do_not_see_them(pages):
    images = [image for page in pages.values() for image in page.images]
    assert len(images) >= 4
    assert all(len(image["alt"]) > 40 for image in images)


def test_drawings_are_our_own_files_with_a_title():
    drawings = list((ROOT / "docs" / "images").glob("*.svg"))
    assert len(drawings) >= 4
    for drawing in drawings:
        text = drawing.read_text("utf-8")
        assert not re.search(r"(href|src|url\()\W*https?:", text), drawing.name
        assert "<title" in text or 'aria-label="' in text, drawing.name
