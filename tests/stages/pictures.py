"""What the files of figures show: the text of a PDF as a reader copies it, beside that of the SVG."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from negengine.engine.basics.apart import one_file
from negengine.engine.views.svg import without_font

_SVG = "{http://www.w3.org/2000/svg}"
_PNG = b"\x89PNG\r\n\x1a\n"
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff]")  # their glyphs stand in the order in which they are seen
_LETTER = re.compile(r"\w")
_OBJECT = re.compile(rb"(?:^|\n)(\d+) 0 obj\n(.*?)\nendobj", re.DOTALL)
_SHOWN = re.compile(rb"/(\w+) [\d.]+ Tf|\(((?:\\.|[^\\)])*)\) Tj|<([0-9A-Fa-f]*)> Tj", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|.)", re.DOTALL)
_SIGNS = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def refuse_faults_of_pictures(paths: Sequence[Path]) -> None:
    """Each figure has its file in each format, and what its PDF shows can be copied as it stands in the SVG."""
    kinds = Counter(path.suffix for path in paths)
    assert kinds[".svg"] == kinds[".pdf"] == kinds[".png"]
    assert len({one_file(path.name) for path in paths}) == len(paths)
    for path in (path for path in paths if path.suffix == ".svg"):
        assert path.with_suffix(".png").read_bytes().startswith(_PNG)
        if without_font(path.read_bytes()):  # PDF and PNG have numbers instead: tests/engine/views/test_scripts.py
            continue
        copied, lines = pdf_text(path.with_suffix(".pdf").read_bytes()), [*_lines(path)]
        assert not [line for line in lines if line not in copied and not _RIGHT_TO_LEFT.search(line)]
        assert not Counter("".join(_LETTER.findall("".join(lines)))) - Counter(copied)


def _lines(svg: Path) -> Iterator[str]:
    for text in ET.parse(svg).iter(f"{_SVG}text"):  # noqa: S314 - ours
        yield from text.itertext()


def pdf_text(pdf: bytes) -> str:
    """The letters of a PDF of one page, in the order in which they are drawn: each glyph as its font says it."""
    objects = dict(_OBJECT.findall(pdf))
    found = ""
    for own in objects.values():
        fonts = {name: _letters(objects, number) for name, number in re.findall(rb"/(fo\d+) (\d+) 0 R", own)}
        if not fonts:
            continue
        page = re.search(rb"/Contents (\d+) 0 R", own)
        content, letters = _stream(objects[page[1]] if page else own), {}
        for font, text, digits in _SHOWN.findall(content):
            letters = fonts[font] if font else letters
            glyphs = _ESCAPE.sub(_sign, text) if text else bytes.fromhex(digits.decode())
            found += "".join(letters[glyphs[at : at + 2]] for at in range(0, len(glyphs), 2))
    return found


def _letters(objects: dict[bytes, bytes], font: bytes) -> dict[bytes, str]:
    """Glyph → letters."""
    number = re.search(rb"/ToUnicode (\d+) 0 R", objects[font])
    assert number, "a font without letters cannot be copied"
    maps = re.findall(rb"beginbfchar(.*?)endbfchar", _stream(objects[number[1]]), re.DOTALL)
    pairs = (pair for text in maps for pair in re.findall(r"<(\w+)> <(\w+)>", text.decode()))
    return {bytes.fromhex(glyph): bytes.fromhex(own).decode("utf-16-be") for glyph, own in pairs}


def _stream(own: bytes) -> bytes:
    content = own.partition(b"stream\n")[2].rpartition(b"\nendstream")[0]
    return zlib.decompress(content) if b"/FlateDecode" in own.partition(b"stream\n")[0] else content


def _sign(escaped: re.Match[bytes]) -> bytes:
    own = escaped[1]
    return bytes([int(own, 8)]) if own.isdigit() else _SIGNS.get(own, own)
