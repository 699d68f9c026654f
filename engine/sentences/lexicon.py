"""The words that fill the slots: names, professions, intransitive verbs.

A lexicon is a folder of four text files, one entry a line. The bundled one is in `resources/lexicon`.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError

BUNDLED_LEXICON = Path(__file__).parent / "resources" / "lexicon"
ARTICLES = ("a ", "an ")


@dataclass(frozen=True)
class Lexicon:
    """Fillers of the slots, in the order of their files.

    Attributes:
        names: First names, the female ones first.
        genders: "f" or "m" for each name.
        professions: Professions with their article, as in "an architect".
        verbs: Base forms.
    """

    names: tuple[str, ...]
    genders: tuple[str, ...]
    professions: tuple[str, ...]
    verbs: tuple[str, ...]

    @property
    def n_pairs(self) -> int:
        """The number of [NAME, PROF] pairs."""
        return len(self.names) * len(self.professions)

    @property
    def sha256(self) -> str:
        """Hexadecimal digest of the entries and their order, whatever comments and white space the files hold."""
        entries = json.dumps([self.names, self.genders, self.professions, self.verbs])
        return hashlib.sha256(entries.encode()).hexdigest()


@dataclass(frozen=True)
class _Entry:
    text: str
    path: Path
    line: int

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}"


def load_lexicon(folder: Path | None = None) -> Lexicon:
    """Read a lexicon folder, or the bundled lexicon.

    Args:
        folder: Holds names_female.txt, names_male.txt, professions.txt and verbs.txt: UTF-8, one entry a line; empty
            lines and lines that begin with "#" do not count.

    Raises:
        InputError: A file is missing, empty or not UTF-8 text; an entry stands twice (a name may not be in both files),
            holds characters that are not printable or more than one space in a row; a profession has no article.
    """
    folder = folder or BUNDLED_LEXICON
    female = _read_entries(folder / "names_female.txt")
    male = _read_entries(folder / "names_male.txt")
    professions = _read_entries(folder / "professions.txt")
    verbs = _read_entries(folder / "verbs.txt")
    _refuse_duplicates(female + male)
    _refuse_duplicates(professions)
    _refuse_duplicates(verbs)
    for profession in professions:
        _require_article(profession)
    return Lexicon(
        names=tuple(entry.text for entry in female + male),
        genders=("f",) * len(female) + ("m",) * len(male),
        professions=tuple(entry.text for entry in professions),
        verbs=tuple(entry.text for entry in verbs),
    )


def _read_entries(path: Path) -> list[_Entry]:
    try:
        lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").split(b"\n")  # some editors begin with a BOM
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); a lexicon folder holds names_female.txt, names_male.txt, "
            "professions.txt and verbs.txt"
        ) from error
    entries = [entry for number, line in enumerate(lines, 1) if (entry := _read_entry(line, path, number))]
    if not entries:
        raise InputError(f"{path}:1: no entry in this file; one entry a line is needed")
    return entries


def _read_entry(line: bytes, path: Path, number: int) -> _Entry | None:
    """The entry of a line; None where the line is empty or a comment."""
    place = f"{path}:{number}"
    try:
        text = line.decode().strip()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place}: byte 0x{line[error.start]:02x} is not UTF-8; save the file as UTF-8 text"
        ) from error
    if not text or text.startswith("#"):
        return None
    if odd := next((char for char in text if not char.isprintable()), None):
        raise InputError(f"{place}: the character U+{ord(odd):04X} in {text!r} is not printable; remove it")
    if "  " in text:
        raise InputError(f"{place}: two spaces in a row in {text!r}; write one")
    if " #" in text:
        raise InputError(f"{place}: a comment after the entry in {text!r}; give it a line of its own")
    return _Entry(text, path, number)


def _refuse_duplicates(entries: list[_Entry]) -> None:
    first: dict[str, _Entry] = {}
    for entry in entries:
        earlier = first.setdefault(entry.text, entry)
        if earlier is not entry:
            raise InputError(f"{entry.place}: {entry.text!r} stands already in {earlier.place}; remove one of the two")


def _require_article(profession: _Entry) -> None:
    if not profession.text.startswith(ARTICLES):
        article = "an" if profession.text[0].lower() in "aeiou" else "a"
        suggestion = f"{article} {profession.text}"
        raise InputError(f"{profession.place}: {profession.text!r} has no article; write {suggestion!r}, for example")
