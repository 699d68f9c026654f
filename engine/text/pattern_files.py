"""Pattern sets, which are TOML files (`docs/languages.md`), and languages: a pattern set together with its words."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ..basics.errors import InputError
from ..basics.reading import is_folder
from .agreement import Elision
from .bundled import PATTERNS, lexicon_path, pattern_path
from .lexicon import Lexicon, load_lexicon
from .pattern import MASK, SLOT, SLOT_NAME, SLOTS, Pattern, PatternSet, PublishedColumn, Role
from .text_lines import fault_of_entry
from .toml_file import TomlFile

_TOP = ("name", "lexicon", "verbs", "slots", "pattern", "published")
_MOST_PATTERNS = 500
_LONGEST_SENTENCE = 2_000  # characters


def load_patterns(
    source: str | Path | None = None, slots: Collection[str] = SLOTS, elisions: Sequence[Elision] = ()
) -> PatternSet:
    """Read a pattern set without its words, from a TOML file or by the name of a bundled set (by default the paper's).

    `slots` are the names that may stand in braces: `Lexicon.slots` for a lexicon with slots of its own. Those of the
    file itself may, too.

    Raises InputError if no bundled set has this name; the file cannot be read or is not TOML; a key is missing, unknown
    or not a string; a role or slot is unknown; braces do not match; white space is more than one space between words; a
    pattern has not exactly one mask; two patterns share a name; not exactly one of them is selecting.
    """
    file = PatternFile.read(source)
    return file.patterns([*slots, *(slot for slot in file.slots if slot not in slots)], elisions)


class _PatternTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    role: Role
    context: str
    target: str = ""


@dataclass(frozen=True)
class PatternFile:
    """A pattern file, read but not yet compared with a lexicon."""

    toml: TomlFile
    lexicon: str | Path | None  # the name of a bundled one, or a folder; None where the file names none
    verbs: str
    slots: Mapping[str, tuple[str, ...] | Mapping[str, str]]  # of the file's own: their words, or gender → form
    published: tuple[PublishedColumn, ...]

    @classmethod
    def read(cls, source: str | Path | None = None) -> "PatternFile":
        """Read a file. Raises InputError as `load_patterns`, except for faults in the patterns themselves."""
        path = pattern_path(source)
        toml = TomlFile.read(path, "give a TOML file of patterns, or the name of a bundled set")
        toml.refuse_unknown(_TOP, "name, lexicon, verbs, [slots], [[pattern]] and [[published]]")
        if not isinstance(toml.document.get("name"), str):
            raise InputError(f'{toml.line("name")}: the set needs a name: name = "…" above the first [[pattern]]')
        return cls(toml, _lexicon(toml), _verbs(toml), _slots(toml), tuple(toml.convert("published", PublishedColumn)))

    def patterns(self, slots: Collection[str], elisions: Sequence[Elision] = ()) -> PatternSet:
        """The patterns. Raises InputError as `load_patterns`."""
        tables = self.toml.tables("pattern")
        if not tables:
            raise InputError(f"{self.toml.line('pattern')}: no pattern; each is a table [[pattern]]")
        if len(tables) > _MOST_PATTERNS:
            raise InputError(f"{self.toml.path}: {len(tables):,} patterns; a set has at most {_MOST_PATTERNS}")
        rules, read = tuple(elisions), self.toml.convert("pattern", _PatternTable)
        patterns = [self._pattern(table, number, slots, rules) for number, table in enumerate(read)]
        self._refuse_duplicates(patterns)
        selecting = self._selecting(patterns)
        scored = tuple(pattern for pattern in patterns if pattern is not selecting)
        self._refuse_published_of_others(scored)
        return PatternSet(
            name=self.toml.document["name"],
            selecting=selecting,
            scored=scored,
            published=self.published,
            bundled=self.toml.path in PATTERNS.values(),
        )

    def line(self, number: int, key: str | None = None) -> str:
        return self.toml.line_of("pattern", number, key)

    def _pattern(
        self, table: _PatternTable, number: int, slots: Collection[str], elisions: tuple[Elision, ...]
    ) -> Pattern:
        for key, sentence in (("context", table.context), ("target", table.target)):
            if fault := _fault(sentence, slots):
                raise InputError(f"{self.line(number, key)}: {fault}")
        pattern = Pattern(table.name, table.context, table.target, table.role, elisions)
        masks = sum(hole.slot == MASK for hole in pattern.holes)
        if masks != 1:
            raise InputError(f"{self.line(number)}: {pattern.name} has {masks} masks; it needs exactly one {{{MASK}}}")
        return pattern

    def _refuse_duplicates(self, patterns: Sequence[Pattern]) -> None:
        first: dict[str, int] = {}
        for number, pattern in enumerate(patterns):
            if (earlier := first.setdefault(pattern.name, number)) != number:
                raise InputError(
                    f"{self.line(number, 'name')}: the name {pattern.name!r} is also in {self.line(earlier, 'name')}; "
                    "give each pattern its own"
                )

    def _selecting(self, patterns: Sequence[Pattern]) -> Pattern:
        numbers = [number for number, pattern in enumerate(patterns) if pattern.role is Role.SELECTING]
        if not numbers:
            raise InputError(f'{self.toml.line()}: no selecting pattern; give one of them role = "{Role.SELECTING}"')
        if len(numbers) > 1:
            raise InputError(
                f"{self.line(numbers[1], 'role')}: {patterns[numbers[1]].name} is a second selecting pattern beside "
                f"{patterns[numbers[0]].name} ({self.line(numbers[0], 'role')}); there can be one"
            )
        return patterns[numbers[0]]

    def _refuse_published_of_others(self, scored: Sequence[Pattern]) -> None:
        names = [pattern.name for pattern in scored]
        for number, column in enumerate(self.published):
            if other := next((name for name in column.drops if name not in names), None):
                where = self.toml.line_of("published", number, "drops")
                raise InputError(f"{where}: a drop of {other!r}, but the scored patterns are {_listed(names)}")


def _lexicon(toml: TomlFile) -> str | Path | None:
    """The name of a bundled lexicon, or the path of a folder beside the file."""
    source = toml.document.get("lexicon")
    if source is None:
        return None
    if not isinstance(source, str) or not source.strip():
        raise InputError(f'{toml.line("lexicon")}: lexicon is {source!r}; give a name or a folder, as in "italian"')
    beside = toml.path.parent / source
    return beside if is_folder(beside) else source


def _verbs(toml: TomlFile) -> str:
    name = toml.document.get("verbs", "verbs.txt")
    if not isinstance(name, str) or not re.fullmatch(r"verbs\w*\.txt", name):
        raise InputError(f"{toml.line('verbs')}: verbs is {name!r}; name a file of the lexicon, as in verbs_gerund.txt")
    return name


def _slots(toml: TomlFile) -> dict[str, tuple[str, ...] | Mapping[str, str]]:
    table = toml.document.get("slots", {})
    if not isinstance(table, dict):
        raise InputError(f"{toml.line('slots')}: slots must be a table [slots]")
    found: dict[str, tuple[str, ...] | Mapping[str, str]] = {}
    for slot, words in table.items():
        where = toml.line_in("slots", slot)
        if not SLOT_NAME.fullmatch(slot) or slot in SLOTS:
            raise InputError(f"{where}: {slot!r} cannot be the name of another slot; use capitals and digits: CITY")
        entries = list(words.values()) if isinstance(words, dict) else words
        if not isinstance(entries, list) or not entries or not all(isinstance(word, str) for word in entries):
            raise InputError(f"{where}: {slot} must be a list of words, or have a word for each gender")
        for word in entries:
            if fault := fault_of_entry(word):
                raise InputError(f"{where}: {fault}")
        if isinstance(words, dict):
            found[slot] = words
            continue
        if twice := next((word for number, word in enumerate(entries) if word in entries[:number]), None):
            raise InputError(f"{where}: {twice!r} is there twice; remove one of the two")
        found[slot] = tuple(entries)
    return found


def _fault(sentence: str, slots: Collection[str]) -> str:
    """The error in a sentence; empty if there is none."""
    if len(sentence) > _LONGEST_SENTENCE:
        return f"{len(sentence):,} characters; a sentence has at most {_LONGEST_SENTENCE:,}"
    if unknown := next((slot for slot in SLOT.findall(sentence) if slot not in slots), None):
        return f"unknown slot {unknown!r} in {sentence!r}; known are {_listed(slots)}"
    if re.search(r"[{}]", SLOT.sub("", sentence)):
        return f"stray brace in {sentence!r}; write braces only around the name of a slot"
    if sentence != " ".join(sentence.split()):
        return f"white space in {sentence!r} must be single spaces between words"
    if odd := next((character for character in sentence if not character.isprintable()), None):
        return f"the character U+{ord(odd):04X} in {sentence!r} is not printable; remove it"
    return ""


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)


@dataclass(frozen=True)
class Language:
    """A pattern set and its lexicon."""

    patterns: PatternSet
    lexicon: Lexicon
    folder: Path
    file: PatternFile


def load_language(
    patterns: str | Path | None = None, lexicon: str | Path | None = None, slots: Collection[str] = ()
) -> Language:
    """Read a pattern set and its words: of the given lexicon, the one that the pattern file names, or the English one.

    Raises InputError as for `load_patterns` and `load_lexicon`; a slot of the patterns' own is in the lexicon, too, or
    its genders differ from the lexicon's.
    """
    file = PatternFile.read(patterns)
    folder = lexicon_path(file.lexicon if lexicon is None else lexicon)
    words = _with_slots(load_lexicon(folder, file.verbs), file, folder)
    return Language(file.patterns([*words.slots, *slots], words.agreement.elisions), words, folder, file)


def _with_slots(lexicon: Lexicon, file: PatternFile, folder: Path) -> Lexicon:
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
