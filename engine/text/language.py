"""Patterns together with their words: what a run of the test is made of."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import InputError
from .bundled import lexicon_path
from .lexicon import Lexicon, load_lexicon
from .patterns import PatternFile, PatternSet


@dataclass(frozen=True)
class Language:
    """A pattern set and its lexicon.

    Attributes:
        patterns: The patterns, with the language's rules of elision.
        lexicon: The words, those of the patterns' own slots included.
        folder: The folder of the lexicon.
        file: The pattern file.
    """

    patterns: PatternSet
    lexicon: Lexicon
    folder: Path
    file: PatternFile


def load_language(
    patterns: str | Path | None = None, lexicon: str | Path | None = None, slots: Collection[str] = ()
) -> Language:
    """Read a pattern set and its words.

    Args:
        patterns: The name of a bundled set, or a TOML file; the paper's set by default.
        lexicon: The name of a bundled lexicon, or a folder; by default the one that the pattern file names, or the
            English one.
        slots: Further names that may stand in braces.

    Raises:
        InputError: As for `load_patterns` and `load_lexicon`; a slot of the patterns' own is in the lexicon, too, or
            its genders differ from the lexicon's.
    """
    file = PatternFile.read(patterns)
    folder = lexicon_path(file.lexicon if lexicon is None else lexicon)
    words = _with_slots(load_lexicon(folder, file.verbs), file, folder)
    return Language(file.patterns([*words.slots, *slots], words.agreement.elisions), words, folder, file)


def _with_slots(lexicon: Lexicon, file: PatternFile, folder: Path) -> Lexicon:
    """The lexicon with the words of the slots that the pattern file defines."""
    forms, lists = dict(lexicon.forms), dict(lexicon.lists)
    for slot, words in file.slots.items():
        where = file.toml.line_in("slots", slot)
        if slot in lexicon.slots:
            raise InputError(f"{where}: {slot} is also in {folder / f'slot_{slot}.txt'}; remove one of the two")
        if not isinstance(words, Mapping):
            lists[slot] = words
            continue
        if set(words) != set(lexicon.labels):
            raise InputError(f"{where}: {slot} must have a word for each of {', '.join(lexicon.labels)}")
        forms[slot] = {label: (words[gender],) for gender, label in lexicon.labels.items()}
    return replace(lexicon, forms=forms, lists=lists)
