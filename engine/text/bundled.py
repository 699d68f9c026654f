"""The pattern sets and the languages that come with the program."""

from collections.abc import Mapping
from pathlib import Path

from ..basics.errors import InputError, did_you_mean
from ..basics.reading import exists

_RESOURCES = Path(__file__).parent / "resources"
ENGLISH = "english"
SELF_CONTAINED_NEGATION = "self-contained-negation"
BUNDLED_LEXICON = _RESOURCES / "lexicon"
LEXICONS: Mapping[str, Path] = {  # name → folder: one for each language
    ENGLISH: BUNDLED_LEXICON,
    **{path.name.removeprefix("lexicon-"): path for path in sorted(_RESOURCES.glob("lexicon-*"))},
}
_SETS = sorted((_RESOURCES / "patterns").glob("*.toml"), key=lambda path: path.stem)
PATTERNS: Mapping[str, Path] = {path.stem: path for path in _SETS}


def pattern_path(source: str | Path | None = None) -> Path:
    """The file of a bundled set (by default the paper's), or of a path; InputError for an unknown name."""
    return _found(SELF_CONTAINED_NEGATION if source is None else source, PATTERNS, "pattern set", "sets", "a TOML file")


def lexicon_path(source: str | Path | None = None) -> Path:
    """The folder of a bundled lexicon (by default the English one), or of a path; InputError for an unknown name."""
    return _found(ENGLISH if source is None else source, LEXICONS, "lexicon", "lexicons", "a folder of word lists")


def _found(source: str | Path, bundled: Mapping[str, Path], what: str, several: str, own: str) -> Path:
    path, name = Path(source), str(source)
    if name in bundled:
        return bundled[name]
    if path.suffix or path.name != name or exists(path):
        return path
    guess = did_you_mean(name, bundled)
    raise InputError(
        f"no {what} is named {name!r}: {guess}The bundled {several} are {', '.join(bundled)}; or give {own}"
    )
